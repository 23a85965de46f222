//! OpenAI's Chat Completions and embeddings, also for compatible servers.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, TokenAlternative, TokenLogprob, ToolCall,
    ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::Url;

use super::parts;
use super::wire::{
    self, CompletionSpec, Embeddings, EncodedRequest, REPLY, REPLY_DESCRIPTION, Reply,
};
use crate::capabilities::Quirk;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observer::Usage;

pub(super) const VENDOR: &str = "https://api.openai.com/v1";

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

/// Encodes a message as one turn, or as one turn for each tool result. A message without content is sent as an empty text,
/// which this protocol allows.
fn turns(spec: &CompletionSpec<'_>, message: &Message) -> Result<Vec<Value>, Failure> {
    let role = wire::role(message);
    if parts::is_text(message) {
        return Ok(vec![json!({ "role": role, "content": message.texts() })]);
    }
    let (mut content, mut calls, mut turns) = (Vec::new(), Vec::new(), Vec::new());
    for part in parts::non_blank(message) {
        match part {
            MessagePart::Text(text) => content.push(json!({ "type": "text", "text": text })),
            MessagePart::Media(kind, id) => content.push(medium(spec, *kind, id)?),
            MessagePart::ToolCall(call) => calls.push(json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": parts::arguments_text(call) },
            })),
            MessagePart::ToolResult(result) => turns.push(json!({
                "role": "tool",
                "tool_call_id": result.call_id,
                "content": parts::result_text(&result.content, result.is_error),
            })),
        }
    }
    if !calls.is_empty() {
        let text = Some(parts::texts(message)).filter(|text| !text.is_empty());
        turns.push(json!({ "role": role, "content": text, "tool_calls": calls }));
    } else if !content.is_empty() {
        turns.push(json!({ "role": role, "content": content }));
    }
    Ok(turns)
}

fn medium(spec: &CompletionSpec<'_>, kind: MediaKind, id: &str) -> Result<Value, Failure> {
    let medium = parts::encoded(spec, kind, id)?;
    let audio = match medium.content_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => None,
    };
    Ok(match (kind, audio) {
        (MediaKind::Image, _) => {
            json!({ "type": "image_url", "image_url": { "url": medium.data_url() } })
        }
        (MediaKind::Audio, Some(format)) => {
            json!({ "type": "input_audio", "input_audio": { "data": medium.base64, "format": format } })
        }
        (MediaKind::Audio, None) => return Err(parts::unsupported("openai", &medium)),
        (MediaKind::File, _) => {
            json!({ "type": "file", "file": { "filename": id, "file_data": medium.data_url() } })
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
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": parts::parameters(tool),
            },
        })
    });
    let choice = match spec.tool_choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
    };
    (Some(tools.collect()), Some(choice))
}

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    let base = wire::base(endpoint, VENDOR, spec.model)?;
    let is_vendor = is_vendor(&base);
    Ok(EncodedRequest {
        url: wire::ending_in(base, &["chat", "completions"]).into(),
        headers: bearer(endpoint),
        body: body(spec, Some(spec.model), is_vendor)?,
    })
}

/// Encodes the body. With `is_vendor`, reasoning models get the output limit as `max_completion_tokens`.
pub(super) fn body(
    spec: &CompletionSpec<'_>,
    model: Option<&str>,
    is_vendor: bool,
) -> Result<Value, Failure> {
    let is_new_name =
        (is_vendor && is_reasoning(spec.model)) != spec.quirks.contains(&Quirk::OtherLimitName);
    let limit = spec.params.max_tokens;
    let native = spec.native().map(|schema| {
        let strict = schema.is_strict;
        let schema = json!({ "name": REPLY, "schema": schema.reduced, "strict": strict });
        json!({ "type": "json_schema", "json_schema": schema })
    });
    let json_mode = spec.is_json_mode().then(|| json!({ "type": "json_object" }));
    let tool = spec.tool().map(|schema| {
        json!({
            "type": "function",
            "function": {
                "name": REPLY,
                "description": REPLY_DESCRIPTION,
                "parameters": schema.original,
            },
        })
    });
    let top_logprobs = spec.top_logprobs();
    let (tools, tool_choice) = tools(spec);
    let messages = spec.messages.iter().map(|message| turns(spec, message));
    let messages: Vec<Vec<Value>> = messages.collect::<Result<_, _>>()?;
    let body = Body {
        model,
        messages: messages.into_iter().flatten().collect(),
        temperature: spec.params.temperature,
        top_p: spec.params.top_p,
        max_tokens: limit.filter(|_| !is_new_name),
        max_completion_tokens: limit.filter(|_| is_new_name),
        seed: spec.seed(),
        stop: &spec.params.stop,
        logprobs: top_logprobs.map(|_| true),
        top_logprobs,
        response_format: native.or(json_mode),
        tool_choice: tool
            .as_ref()
            .map(|_| json!({ "type": "function", "function": { "name": REPLY } }))
            .or(tool_choice),
        tools: tool.map(|tool| json!([tool])).or(tools),
    };
    Ok(wire::body(&body, &spec.params.rest))
}

/// No header when the key is empty.
pub(super) fn bearer(endpoint: &Endpoint) -> Vec<(&'static str, String)> {
    let key = Some(endpoint.key.expose()).filter(|key| !key.is_empty());
    key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
}

fn is_vendor(base: &Url) -> bool {
    base.host_str()
        .is_some_and(|host| host == "api.openai.com" || host.ends_with(".api.openai.com"))
}

/// Models that accept only `max_completion_tokens`: o1, o3-mini, gpt-5.1 and so on.
fn is_reasoning(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or(model);
    let is_o = model
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    is_o || model.starts_with("gpt-5")
}

#[derive(Deserialize)]
struct ResponseBody {
    model: Option<String>,
    choices: Vec<Choice>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
struct Choice {
    message: ChoiceMessage,
    finish_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::lenient")]
    logprobs: Option<Logprobs>,
}

#[derive(Deserialize)]
struct ChoiceMessage {
    /// A text or its parts.
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Vec<CallBody>>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
struct CallBody {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl From<CallBody> for ToolCall {
    fn from(called: CallBody) -> Self {
        Self {
            id: called.id.unwrap_or_default(),
            name: called.function.name,
            arguments: parts::call_arguments(called.function.arguments),
        }
    }
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<Token>>,
}

/// A token with its probability. The Responses API has the same format.
#[derive(Deserialize)]
pub(super) struct Token {
    token: String,
    logprob: f32,
    #[serde(default)]
    top_logprobs: Vec<Alternative>,
}

#[derive(Deserialize)]
struct Alternative {
    token: String,
    logprob: f32,
}

impl From<Token> for TokenLogprob {
    fn from(token: Token) -> Self {
        let alternatives = token.top_logprobs.into_iter();
        Self {
            token: token.token,
            logprob: token.logprob,
            alternatives: alternatives
                .map(|other| TokenAlternative { token: other.token, logprob: other.logprob })
                .collect(),
        }
    }
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    completion_tokens_details: Option<CompletionDetails>,
    cost: Option<f64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<UsageBody> for Usage {
    fn from(usage: UsageBody) -> Self {
        let cached = usage.prompt_tokens_details.and_then(|of| of.cached_tokens);
        let reasoning = usage.completion_tokens_details.and_then(|of| of.reasoning_tokens);
        Self {
            input: usage.prompt_tokens,
            cached_input: cached.unwrap_or_default(),
            output: usage.completion_tokens,
            reasoning: reasoning.unwrap_or_default(),
            cost_usd: usage.cost,
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: ResponseBody = wire::read(body)?;
    let choice = answer.choices.into_iter().next();
    let choice = choice.ok_or("the response has no choices")?;
    let calls = choice.message.tool_calls.unwrap_or_default().into_iter();
    let logprobs = choice.logprobs.and_then(|of| of.content);
    Ok(Reply {
        text: text(&choice.message.content),
        calls: calls.map(ToolCall::from).collect(),
        finish: finish(choice.finish_reason.as_deref()),
        refusal: choice.message.refusal.filter(|refusal| !refusal.is_empty()),
        usage: answer.usage.map(Usage::from),
        logprobs: logprobs.into_iter().flatten().map(TokenLogprob::from).collect(),
        model: answer.model,
    })
}

/// The text of a content, or of its text parts. Excludes other types, such as `thinking` and `reasoning`.
fn text(content: &Value) -> String {
    let is_text = |part: &&Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_none_or(|kind| ["text", "output_text"].contains(&kind))
            && part.get("thought").and_then(Value::as_bool) != Some(true)
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts = parts.iter().filter(is_text);
            let texts = parts.filter_map(|part| part.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

fn finish(reason: Option<&str>) -> FinishReason {
    // Gateways forward the names of other providers.
    match reason.map(str::to_ascii_lowercase).as_deref() {
        Some("stop" | "tool_calls" | "function_call" | "eos" | "end_turn") => FinishReason::Stop,
        Some("length" | "max_tokens" | "max_output_tokens" | "model_length" | "incomplete") => {
            FinishReason::Length
        }
        Some("content_filter") => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}

pub(super) fn embed(
    endpoint: &Endpoint,
    model: &str,
    texts: &[String],
    rest: &Map<String, Value>,
) -> Result<EncodedRequest, Failure> {
    let base = wire::base(endpoint, VENDOR, model)?;
    Ok(EncodedRequest {
        url: wire::ending_in(base, &["embeddings"]).into(),
        headers: bearer(endpoint),
        body: wire::body(&json!({ "model": model, "input": texts }), rest),
    })
}

#[derive(Deserialize)]
struct EmbeddingBody {
    model: Option<String>,
    data: Vec<Embedding>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
struct Embedding {
    #[serde(default)]
    index: usize,
    embedding: Vec<f32>,
}

pub(super) fn embeddings(body: Value) -> Result<Embeddings, String> {
    let mut answer: EmbeddingBody = wire::read(body)?;
    answer.data.sort_by_key(|embedding| embedding.index);
    Ok(Embeddings {
        vectors: answer.data.into_iter().map(|one| one.embedding).collect(),
        usage: answer.usage.map(Usage::from),
        model: answer.model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_models_are_recognized_by_name() {
        for model in ["o1", "o3-mini", "gpt-5", "gpt-5.1-nano", "openai/o4-mini"] {
            assert!(is_reasoning(model), "{model}");
        }
        for model in ["gpt-4o", "omni", "gpt-oss", "llama"] {
            assert!(!is_reasoning(model), "{model}");
        }
    }

    #[test]
    fn text_parts_are_concatenated_and_invalid_optional_members_are_ignored() {
        let body = json!({
            "choices": [{
                "message": {
                    "content": [
                        { "type": "reasoning", "text": "draft" }, { "type": "thinking", "thinking": [] },
                        { "type": "text", "text": "a" }, { "text": "b" },
                    ],
                    "reasoning_content": "draft",
                    "tool_calls": null,
                },
                "finish_reason": "eos",
                "logprobs": null,
            }],
            "usage": { "prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": null, "cost": 0.25 },
        });
        let reply = reply(body).unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("ab", FinishReason::Stop));
        assert_eq!(reply.usage.unwrap().cost_usd, Some(0.25));
        let body = json!({
            "choices": [{ "message": { "content": "a" }, "logprobs": { "content": [{ "logprob": null }] } }],
            "usage": { "prompt_tokens": null },
        });
        let reply = super::reply(body).unwrap();
        assert_eq!((reply.text.as_str(), reply.usage), ("a", None));
    }
}
