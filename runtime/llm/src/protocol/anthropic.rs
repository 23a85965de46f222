//! Anthropic's Messages API.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::parts;
use super::wire::{self, CompletionSpec, EncodedRequest, REPLY, REPLY_DESCRIPTION, Reply};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observer::Usage;

const VENDOR: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
/// Default of the output limit, which the protocol requires.
pub(super) const MAX_TOKENS: u32 = 4096;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

fn turn(spec: &CompletionSpec<'_>, message: &Message) -> Result<Value, Failure> {
    // A conversation with only a system message sends it as the user; tool results are sent as the user too.
    let role = match wire::role(message) {
        "assistant" => "assistant",
        _ => "user",
    };
    if parts::is_text(message) {
        return Ok(json!({ "role": role, "content": parts::texts(message) }));
    }
    let blocks = parts::non_blank(message).map(|part| block(spec, part));
    let blocks: Vec<Value> = blocks.collect::<Result<_, _>>()?;
    Ok(json!({ "role": role, "content": blocks }))
}

fn block(spec: &CompletionSpec<'_>, part: &MessagePart) -> Result<Value, Failure> {
    Ok(match part {
        MessagePart::Text(text) => json!({ "type": "text", "text": text }),
        MessagePart::Media(kind, id) => {
            let medium = parts::encoded(spec, *kind, id)?;
            let of = match (kind, medium.content_type) {
                (MediaKind::Image, _) => "image",
                (MediaKind::File, "application/pdf") => "document",
                _ => return Err(parts::unsupported("anthropic", &medium)),
            };
            let source = json!({
                "type": "base64",
                "media_type": medium.content_type,
                "data": medium.base64,
            });
            json!({ "type": of, "source": source })
        }
        MessagePart::ToolCall(call) => json!({
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": parts::arguments(call),
        }),
        MessagePart::ToolResult(result) => json!({
            "type": "tool_result",
            "tool_use_id": result.call_id,
            "content": result.content,
            "is_error": result.is_error,
        }),
    })
}

/// The tools of the request, and the tool choice.
fn tools(spec: &CompletionSpec<'_>, thinks: bool) -> (Option<Value>, Option<Value>) {
    if spec.tools.is_empty() {
        return (None, None);
    }
    let tools = spec.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": parts::parameters(tool),
        })
    });
    let choice = match spec.tool_choice {
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Auto => json!({ "type": "auto" }),
        _ if thinks => json!({ "type": "auto" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
    };
    (Some(tools.collect()), Some(choice))
}

/// Additional parameters. Without thinking when the conversation has tool calls: the protocol requires the signed thoughts
/// that led to the calls, which are not stored.
fn additional_params(spec: &CompletionSpec<'_>) -> Map<String, Value> {
    let mut rest = spec.params.rest.clone();
    let mut parts = spec.messages.iter().flat_map(|message| &message.parts);
    if parts.any(|part| matches!(part, MessagePart::ToolCall(_))) {
        rest.remove("thinking");
    }
    rest
}

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    let base = wire::base(endpoint, VENDOR, spec.model)?;
    let mut path = wire::segments(&base);
    if path.last().is_some_and(|last| last == "messages") {
        path.pop();
    }
    path.pop_if(|last| last == "v1");
    path.extend(["v1", "messages"].map(str::to_owned));
    let (system, messages) = parts::split_system(spec)?;
    let tool = spec.tool().map(|schema| {
        json!([{
            "name": REPLY,
            "description": REPLY_DESCRIPTION,
            "input_schema": schema.original,
        }])
    });
    // With thinking, the tool choice cannot be forced.
    let rest = additional_params(spec);
    let thinks = rest.get("thinking").is_some_and(|thinking| {
        !thinking.is_null() && thinking.get("type").is_none_or(|of| of != "disabled")
    });
    let tool_choice = tool.as_ref().map(|_| match thinks {
        true => json!({ "type": "auto" }),
        false => json!({ "type": "tool", "name": REPLY }),
    });
    let (request_tools, request_choice) = tools(spec, thinks);
    let messages = messages.into_iter().map(|message| turn(spec, message));
    let body = Body {
        model: spec.model,
        max_tokens: spec.params.max_tokens.unwrap_or(MAX_TOKENS),
        system,
        messages: messages.collect::<Result<_, _>>()?,
        temperature: spec.params.temperature,
        top_p: spec.params.top_p,
        stop_sequences: &spec.params.stop,
        tools: tool.or(request_tools),
        tool_choice: tool_choice.or(request_choice),
    };
    Ok(EncodedRequest {
        url: wire::with_path(base, &path).into(),
        headers: vec![
            ("x-api-key", endpoint.key.expose().to_owned()),
            ("anthropic-version", VERSION.to_owned()),
        ],
        body: wire::body(&body, &rest),
    })
}

#[derive(Deserialize)]
struct ResponseBody {
    model: Option<String>,
    content: Vec<Block>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    ToolUse {
        id: Option<String>,
        #[serde(default)]
        name: String,
        #[serde(default)]
        input: Value,
    },
    /// Thinking, and unknown types.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// Anthropic excludes cached tokens from the input.
impl From<UsageBody> for Usage {
    fn from(usage: UsageBody) -> Self {
        let created = usage.cache_creation_input_tokens.unwrap_or_default();
        let cached = usage.cache_read_input_tokens.unwrap_or_default();
        let cache = created.saturating_add(cached);
        Self {
            input: usage.input_tokens.saturating_add(cache),
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
    for block in answer.content {
        match block {
            Block::Text { text: more } => text.push_str(&more),
            Block::ToolUse { id, name, input } => calls.push(ToolCall {
                id: id.unwrap_or_default(),
                name,
                arguments: parts::call_arguments(input),
            }),
            Block::Other => {}
        }
    }
    let is_refused = answer.stop_reason.as_deref() == Some("refusal");
    Ok(Reply {
        refusal: is_refused.then(|| match text.is_empty() {
            true => "the model refused to answer".to_owned(),
            false => text.clone(),
        }),
        text,
        calls,
        finish: match answer.stop_reason.as_deref() {
            Some("end_turn" | "stop_sequence" | "tool_use") => FinishReason::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
            Some("refusal") => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        },
        usage: answer.usage.map(Usage::from),
        logprobs: Vec::new(),
        model: answer.model,
    })
}
