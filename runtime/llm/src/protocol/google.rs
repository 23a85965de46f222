//! Google AI Studio: `generateContent` of the Gemini models, and embeddings.

use perpend_worker_protocol::host_call::{
    FinishReason, Message, MessagePart, Role, TokenAlternative, TokenLogprob, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use super::parts;
use super::wire::{self, CompletionSpec, Embeddings, EncodedRequest, Reply};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observer::Usage;

const VENDOR: &str = "https://generativelanguage.googleapis.com";
/// Separates the id of a call from the signature of the thought that led to it. Newer models require the signature, and the
/// id is the only part of a conversation that plug-ins preserve.
pub(crate) const SIGNATURE: char = '~';
/// Parameters of the request; all others belong to `generationConfig`.
const REQUEST_PARAMS: [&str; 4] = ["safetySettings", "cachedContent", "labels", "serviceTier"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    contents: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    let (system, messages) = parts::split_system(spec)?;
    let native = spec.native();
    let is_json = native.is_some() || spec.is_json_mode();
    let top_logprobs = spec.top_logprobs();
    let config = Config {
        temperature: spec.params.temperature,
        top_p: spec.params.top_p,
        max_output_tokens: spec.params.max_tokens,
        seed: spec.seed(),
        stop_sequences: &spec.params.stop,
        response_logprobs: top_logprobs.map(|_| true),
        logprobs: top_logprobs,
        response_mime_type: is_json.then_some("application/json"),
        response_json_schema: native.map(|schema| &schema.reduced),
    };
    let (request_params, config_params) = split(&spec.params.rest);
    let config = wire::body(&config, &config_params);
    let (tools, tool_config) = tools(spec);
    let body = Body {
        contents: contents(spec, messages)?,
        system_instruction: system.map(|text| json!({ "parts": [{ "text": text }] })),
        generation_config: Some(config).filter(|config| *config != json!({})),
        tools,
        tool_config,
    };
    Ok(EncodedRequest {
        url: address(endpoint, spec.model, "generateContent")?.into(),
        headers: key(endpoint),
        body: wire::body(&body, &request_params),
    })
}

/// Splits additional parameters into those of the request and those of `generationConfig`.
fn split(rest: &Map<String, Value>) -> (Map<String, Value>, Map<String, Value>) {
    let (mut request_params, mut config_params) = (Map::new(), Map::new());
    for (name, value) in rest {
        let target = match (name.as_str(), value) {
            ("generationConfig", Value::Object(members)) => {
                config_params.extend(members.clone());
                continue;
            }
            (name, _) if REQUEST_PARAMS.contains(&name) => &mut request_params,
            _ => &mut config_params,
        };
        target.insert(name.clone(), value.clone());
    }
    (request_params, config_params)
}

/// The turns of user and model. Consecutive messages of one role form one turn, so that the results of all calls of a turn
/// are in the next turn.
fn contents<'m>(
    spec: &CompletionSpec<'_>,
    messages: impl IntoIterator<Item = &'m Message>,
) -> Result<Vec<Value>, Failure> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::Assistant => "model",
            Role::User | Role::System | Role::Tool => "user",
        };
        let parts = parts::non_blank(message).map(|own| part(spec, own));
        let mut parts: Vec<Value> = parts.collect::<Result<_, _>>()?;
        match turns.last_mut() {
            Some((last, all)) if *last == role => all.append(&mut parts),
            _ => turns.push((role, parts)),
        }
    }
    let turns = turns.into_iter();
    Ok(turns.map(|(role, parts)| json!({ "role": role, "parts": parts })).collect())
}

fn part(spec: &CompletionSpec<'_>, part: &MessagePart) -> Result<Value, Failure> {
    Ok(match part {
        MessagePart::Text(text) => json!({ "text": text }),
        MessagePart::Media(kind, id) => {
            let medium = parts::encoded(spec, *kind, id)?;
            json!({ "inlineData": { "mimeType": medium.content_type, "data": medium.base64 } })
        }
        MessagePart::ToolCall(call) => {
            let mut part =
                json!({ "functionCall": { "name": call.name, "args": parts::arguments(call) } });
            if let Some((_, signature)) = call.id.split_once(SIGNATURE) {
                part["thoughtSignature"] = json!(signature);
            }
            part
        }
        MessagePart::ToolResult(result) => {
            let called = spec.messages.iter().flat_map(|message| &message.parts);
            let mut name = called.filter_map(|part| match part {
                MessagePart::ToolCall(call) if call.id == result.call_id => Some(&call.name),
                _ => None,
            });
            let member = if result.is_error { "error" } else { "result" };
            json!({ "functionResponse": {
                "name": name.next_back(),
                "response": { member: result.content },
            } })
        }
    })
}

/// The tools of the request, and the tool choice.
fn tools(spec: &CompletionSpec<'_>) -> (Option<Value>, Option<Value>) {
    if spec.tools.is_empty() {
        return (None, None);
    }
    let tools = spec.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "parametersJsonSchema": parts::parameters(tool),
        })
    });
    let tools: Vec<Value> = tools.collect();
    let calling = match spec.tool_choice {
        ToolChoice::Auto => json!({ "mode": "AUTO" }),
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        ToolChoice::Named(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
    };
    (
        Some(json!([{ "functionDeclarations": tools }])),
        Some(json!({ "functionCallingConfig": calling })),
    )
}

fn key(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    vec![("x-goog-api-key", endpoint.key.expose().to_owned())]
}

fn address(endpoint: &Endpoint, model: &str, method: &str) -> Result<Url, Failure> {
    let base = wire::base(endpoint, VENDOR, model)?;
    let mut path = wire::segments(&base);
    path.pop_if(|last| last == "models");
    path.pop_if(|last| last == "v1beta");
    path.extend(["v1beta", "models"].map(str::to_owned));
    path.push(format!("{}:{method}", bare(model)));
    Ok(wire::with_path(base, &path))
}

fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseBody {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage_metadata: Option<UsageBody>,
    model_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::lenient")]
    logprobs_result: Option<Logprobs>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct FunctionCall {
    name: String,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logprobs {
    #[serde(default)]
    chosen_candidates: Vec<Token>,
    #[serde(default)]
    top_candidates: Vec<Top>,
}

#[derive(Deserialize)]
struct Top {
    #[serde(default)]
    candidates: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    log_probability: f32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageBody {
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    thoughts_token_count: u64,
    #[serde(default)]
    cached_content_token_count: u64,
}

/// Google excludes thoughts from the output.
impl From<UsageBody> for Usage {
    fn from(usage: UsageBody) -> Self {
        let thoughts = usage.thoughts_token_count;
        Self {
            input: usage.prompt_token_count,
            cached_input: usage.cached_content_token_count,
            output: usage.candidates_token_count.saturating_add(thoughts),
            reasoning: thoughts,
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: ResponseBody = wire::read(body)?;
    let blocked = answer.prompt_feedback.and_then(|of| of.block_reason);
    let candidate = answer.candidates.into_iter().next();
    if candidate.is_none() && blocked.is_none() {
        return Err("the response has no candidates".to_owned());
    }
    let candidate = candidate.unwrap_or(Candidate {
        content: None,
        finish_reason: None,
        logprobs_result: None,
    });
    let finish = match (&blocked, candidate.finish_reason.as_deref()) {
        (Some(_), _) => FinishReason::ContentFilter,
        (_, Some("STOP")) => FinishReason::Stop,
        (_, Some("MAX_TOKENS")) => FinishReason::Length,
        (_, Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII")) => {
            FinishReason::ContentFilter
        }
        _ => FinishReason::Other,
    };
    let reason = blocked.or(candidate.finish_reason);
    let parts = candidate.content.map(|content| content.parts);
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in parts.into_iter().flatten().filter(|part| !part.thought) {
        text.push_str(part.text.as_deref().unwrap_or_default());
        let signature = part.thought_signature;
        calls.extend(part.function_call.map(|called| ToolCall {
            id: signature.map_or_else(String::new, |own| format!("{SIGNATURE}{own}")),
            name: called.name,
            arguments: parts::call_arguments(called.args),
        }));
    }
    Ok(Reply {
        text,
        calls,
        finish,
        refusal: reason.filter(|_| finish == FinishReason::ContentFilter),
        usage: answer.usage_metadata.map(Usage::from),
        logprobs: candidate.logprobs_result.map(logprobs).unwrap_or_default(),
        model: answer.model_version,
    })
}

fn logprobs(found: Logprobs) -> Vec<TokenLogprob> {
    let mut tops = found.top_candidates.into_iter();
    let chosen = found.chosen_candidates.into_iter();
    let token = |chosen: Token| {
        let alternatives = tops.next().map(|top| top.candidates);
        TokenLogprob {
            token: chosen.token,
            logprob: chosen.log_probability,
            alternatives: alternatives
                .into_iter()
                .flatten()
                .map(|other| TokenAlternative {
                    token: other.token,
                    logprob: other.log_probability,
                })
                .collect(),
        }
    };
    chosen.map(token).collect()
}

pub(super) fn embed(
    endpoint: &Endpoint,
    model: &str,
    texts: &[String],
    rest: &Map<String, Value>,
) -> Result<EncodedRequest, Failure> {
    let name = format!("models/{}", bare(model));
    let request = |text: &String| {
        let request = json!({ "model": name, "content": { "parts": [{ "text": text }] } });
        wire::body(&request, rest)
    };
    let requests: Vec<_> = texts.iter().map(request).collect();
    Ok(EncodedRequest {
        url: address(endpoint, model, "batchEmbedContents")?.into(),
        headers: key(endpoint),
        body: json!({ "requests": requests }),
    })
}

#[derive(Deserialize)]
struct EmbeddingBody {
    embeddings: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    values: Vec<f32>,
}

pub(super) fn embeddings(body: Value) -> Result<Embeddings, String> {
    let answer: EmbeddingBody = wire::read(body)?;
    Ok(Embeddings {
        vectors: answer.embeddings.into_iter().map(|one| one.values).collect(),
        usage: None,
        model: None,
    })
}
