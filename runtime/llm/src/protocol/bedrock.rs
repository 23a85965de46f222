//! Amazon Bedrock's Converse API, with an API key of Bedrock.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, Role, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use super::parts;
use super::wire::{self, CompletionSpec, EncodedRequest, REPLY, REPLY_DESCRIPTION, Reply};
use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};
use crate::observer::Usage;

/// Parameters of the request; all others belong to `additionalModelRequestFields`.
const REQUEST_PARAMS: [&str; 5] = [
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "performanceConfig",
    "requestMetadata",
    "serviceTier",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    additional_model_request_fields: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
}

/// `POST /model/{model}/converse`
fn address(endpoint: &Endpoint, model: &str) -> Result<Url, Failure> {
    let region = endpoint.config.as_ref().and_then(|config| config.get("region"));
    let region = region.and_then(Value::as_str).unwrap_or_default();
    let is_region = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if endpoint.base_url.is_none() && (region.is_empty() || !region.chars().all(is_region)) {
        let message = format!(
            "`region` in the configuration of the connection must be the name of a region, got {region:?}"
        );
        return Err(Failure::new(ErrorClass::ModelConfigInvalid, message));
    }
    let vendor = format!("https://bedrock-runtime.{region}.amazonaws.com");
    let base = wire::base(endpoint, &vendor, model)?;
    let mut path = wire::segments(&base);
    if !path.ends_with(&["model".to_owned(), model.to_owned(), "converse".to_owned()]) {
        path.extend(["model", model, "converse"].map(str::to_owned));
    }
    Ok(wire::with_path(base, &path))
}

/// The turns of user and model. Consecutive messages of one role form one turn, because the roles must alternate.
fn turns(spec: &CompletionSpec<'_>, messages: Vec<&Message>) -> Result<Vec<Value>, Failure> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    let mut n_files = 0;
    for message in messages {
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::User | Role::System | Role::Tool => "user",
        };
        let blocks = parts::non_blank(message).map(|part| block(spec, part, &mut n_files));
        let mut blocks: Vec<Value> = blocks.collect::<Result<_, _>>()?;
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.append(&mut blocks),
            _ => turns.push((role, blocks)),
        }
    }
    let turns = turns.into_iter();
    Ok(turns.map(|(role, blocks)| json!({ "role": role, "content": blocks })).collect())
}

fn block(
    spec: &CompletionSpec<'_>,
    part: &MessagePart,
    n_files: &mut u32,
) -> Result<Value, Failure> {
    Ok(match part {
        MessagePart::Text(text) => json!({ "text": text }),
        MessagePart::Media(kind, id) => {
            let medium = parts::encoded(spec, *kind, id)?;
            let source = json!({ "bytes": medium.base64 });
            match (kind, medium.content_type) {
                (MediaKind::Image, "image/png" | "image/jpeg" | "image/gif" | "image/webp") => {
                    let format = medium.content_type.trim_start_matches("image/");
                    json!({ "image": { "format": format, "source": source } })
                }
                (MediaKind::File, "application/pdf") => {
                    // The names of the documents of a request must differ.
                    *n_files += 1;
                    let name = format!("document-{n_files}");
                    json!({ "document": { "format": "pdf", "name": name, "source": source } })
                }
                _ => return Err(parts::unsupported("bedrock", &medium)),
            }
        }
        MessagePart::ToolCall(call) => json!({ "toolUse": {
            "toolUseId": call.id,
            "name": call.name,
            "input": parts::arguments(call),
        } }),
        MessagePart::ToolResult(result) => json!({ "toolResult": {
            "toolUseId": result.call_id,
            "content": [{ "text": result.content }],
            "status": if result.is_error { "error" } else { "success" },
        } }),
    })
}

fn tool(name: &str, description: &str, schema: &Value) -> Value {
    let mut tool = json!({ "name": name, "inputSchema": { "json": schema } });
    // Empty descriptions are rejected.
    if !description.is_empty() {
        tool["description"] = json!(description);
    }
    json!({ "toolSpec": tool })
}

/// The tools with the choice. The API has no choice that forbids calls, so that the tools are left out then, unless the
/// conversation has calls: they need their tools.
fn tool_config(spec: &CompletionSpec<'_>, thinks: bool) -> Option<Value> {
    if let Some(schema) = spec.tool() {
        let choice = match thinks {
            true => json!({ "auto": {} }),
            false => json!({ "tool": { "name": REPLY } }),
        };
        let tools = [tool(REPLY, REPLY_DESCRIPTION, &schema.original)];
        return Some(json!({ "tools": tools, "toolChoice": choice }));
    }
    let choice = match spec.tool_choice {
        ToolChoice::None if !has_calls(spec) => return None,
        ToolChoice::None | ToolChoice::Auto => json!({ "auto": {} }),
        _ if thinks => json!({ "auto": {} }),
        ToolChoice::Required => json!({ "any": {} }),
        ToolChoice::Named(name) => json!({ "tool": { "name": name } }),
    };
    let tools = spec.tools.iter().map(|own| {
        let schema = Value::Object(parts::parameters(own));
        tool(&own.name, &own.description, &schema)
    });
    let tools: Vec<Value> = tools.collect();
    (!tools.is_empty()).then(|| json!({ "tools": tools, "toolChoice": choice }))
}

fn has_calls(spec: &CompletionSpec<'_>) -> bool {
    let mut parts = spec.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| matches!(part, MessagePart::ToolCall(_)))
}

/// Splits additional parameters into those of the request, of `inferenceConfig` and of the model.
fn split(rest: &Map<String, Value>) -> [Map<String, Value>; 3] {
    let [mut request, mut config, mut model] = std::array::from_fn(|_| Map::new());
    for (name, value) in rest {
        let target = match (name.as_str(), value) {
            ("inferenceConfig", Value::Object(members)) => {
                config.extend(members.clone());
                continue;
            }
            ("additionalModelRequestFields", Value::Object(members)) => {
                model.extend(members.clone());
                continue;
            }
            (name, _) if REQUEST_PARAMS.contains(&name) => &mut request,
            _ => &mut model,
        };
        target.insert(name.clone(), value.clone());
    }
    [request, config, model]
}

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    let (system, messages) = parts::split_system(spec)?;
    let [request_params, config_params, mut model_params] = split(&spec.params.rest);
    // The signed thoughts that led to calls are not stored, and the models require them with thinking.
    if has_calls(spec) {
        model_params.remove("thinking");
    }
    let thinks = model_params.get("thinking").is_some_and(|thinking| {
        !thinking.is_null() && thinking.get("type").is_none_or(|of| of != "disabled")
    });
    let config = Config {
        max_tokens: spec.params.max_tokens,
        temperature: spec.params.temperature,
        top_p: spec.params.top_p,
        stop_sequences: &spec.params.stop,
    };
    let config = wire::body(&config, &config_params);
    let body = Body {
        messages: turns(spec, messages)?,
        system: system.map(|text| json!([{ "text": text }])),
        inference_config: Some(config).filter(|config| *config != json!({})),
        tool_config: tool_config(spec, thinks),
        additional_model_request_fields: model_params,
    };
    Ok(EncodedRequest {
        url: address(endpoint, spec.model)?.into(),
        headers: vec![("authorization", format!("Bearer {}", endpoint.key.expose()))],
        body: wire::body(&body, &request_params),
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    output: Output,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
struct Output {
    message: OutputMessage,
}

#[derive(Deserialize)]
struct OutputMessage {
    #[serde(default)]
    content: Vec<Block>,
}

/// A block has one member, which is named by its type. Blocks of thoughts and unknown types have none of these.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    text: Option<String>,
    tool_use: Option<ToolUse>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    tool_use_id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    input: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageBody {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    cache_read_input_tokens: Option<u64>,
    cache_write_input_tokens: Option<u64>,
}

/// Bedrock excludes cached tokens from the input.
impl From<UsageBody> for Usage {
    fn from(usage: UsageBody) -> Self {
        let created = usage.cache_write_input_tokens.unwrap_or_default();
        let cached = usage.cache_read_input_tokens.unwrap_or_default();
        Self {
            input: usage.input_tokens.saturating_add(created).saturating_add(cached),
            cached_input: cached,
            cache_creation: created,
            output: usage.output_tokens,
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: ResponseBody = wire::read(body)?;
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in answer.output.message.content {
        text.push_str(block.text.as_deref().unwrap_or_default());
        calls.extend(block.tool_use.map(|called| ToolCall {
            id: called.tool_use_id.unwrap_or_default(),
            name: called.name,
            arguments: parts::call_arguments(called.input),
        }));
    }
    let finish = match answer.stop_reason.as_deref() {
        Some("end_turn" | "stop_sequence" | "tool_use") => FinishReason::Stop,
        Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
        Some("guardrail_intervened" | "content_filtered") => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    };
    let reason = answer.stop_reason.filter(|_| finish == FinishReason::ContentFilter);
    Ok(Reply {
        text,
        calls,
        finish,
        refusal: reason,
        usage: answer.usage.map(Usage::from),
        logprobs: Vec::new(),
        model: None,
    })
}
