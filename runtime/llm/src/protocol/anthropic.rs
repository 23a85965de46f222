//! Anthropic's messages.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::parts;
use super::wire::{self, Ask, REPLY, REPLY_DESCRIPTION, Reply, Wire};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observe::Usage;

const VENDOR: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
/// The protocol requires an output limit. This is the default.
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

fn turn(ask: &Ask<'_>, message: &Message) -> Result<Value, Failure> {
    // The one system message of a conversation without others is said by the user, and so are the results of tools.
    let role = match wire::role(message) {
        "assistant" => "assistant",
        _ => "user",
    };
    if parts::is_text(message) {
        return Ok(json!({ "role": role, "content": parts::texts(message) }));
    }
    let blocks = parts::filled(message).map(|part| block(ask, part));
    let blocks: Vec<Value> = blocks.collect::<Result<_, _>>()?;
    Ok(json!({ "role": role, "content": blocks }))
}

fn block(ask: &Ask<'_>, part: &MessagePart) -> Result<Value, Failure> {
    Ok(match part {
        MessagePart::Text(text) => json!({ "type": "text", "text": text }),
        MessagePart::Media(kind, id) => {
            let medium = parts::encoded(ask, *kind, id)?;
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

/// The tools of the request, and how they are to be used.
fn tools(ask: &Ask<'_>, thinks: bool) -> (Option<Value>, Option<Value>) {
    if ask.tools.is_empty() {
        return (None, None);
    }
    let tools = ask.tools.iter().map(|tool| {
        json!({
            "name": tool.name,
            "description": tool.description,
            "input_schema": parts::parameters(tool),
        })
    });
    let choice = match ask.tool_choice {
        ToolChoice::None => json!({ "type": "none" }),
        ToolChoice::Auto => json!({ "type": "auto" }),
        _ if thinks => json!({ "type": "auto" }),
        ToolChoice::Required => json!({ "type": "any" }),
        ToolChoice::Named(name) => json!({ "type": "tool", "name": name }),
    };
    (Some(tools.collect()), Some(choice))
}

/// Further parameters. A conversation with calls of tools goes on without thinking: the protocol wants the thoughts that led
/// to the calls back, signed, and they are not kept.
fn further(ask: &Ask<'_>) -> Map<String, Value> {
    let mut rest = ask.params.rest.clone();
    let mut parts = ask.messages.iter().flat_map(|message| &message.parts);
    if parts.any(|part| matches!(part, MessagePart::ToolCall(_))) {
        rest.remove("thinking");
    }
    rest
}

pub(super) fn complete(endpoint: &Endpoint, ask: &Ask<'_>) -> Result<Wire, Failure> {
    let base = wire::base(endpoint, VENDOR, ask.model)?;
    let mut path = wire::segments(&base);
    if path.last().is_some_and(|last| last == "messages") {
        path.pop();
    }
    path.pop_if(|last| last == "v1");
    path.extend(["v1", "messages"].map(str::to_owned));
    let (system, messages) = parts::system_apart(ask)?;
    let tool = ask.tool().map(|wanted| {
        json!([{
            "name": REPLY,
            "description": REPLY_DESCRIPTION,
            "input_schema": wanted.schema,
        }])
    });
    // A model that thinks cannot be forced to call a tool.
    let rest = further(ask);
    let thinks = rest.get("thinking").is_some_and(|thinking| {
        !thinking.is_null() && thinking.get("type").is_none_or(|of| of != "disabled")
    });
    let tool_choice = tool.as_ref().map(|_| match thinks {
        true => json!({ "type": "auto" }),
        false => json!({ "type": "tool", "name": REPLY }),
    });
    let (of_request, choice_of_request) = tools(ask, thinks);
    let messages = messages.into_iter().map(|message| turn(ask, message));
    let body = Body {
        model: ask.model,
        max_tokens: ask.params.max_tokens.unwrap_or(MAX_TOKENS),
        system,
        messages: messages.collect::<Result<_, _>>()?,
        temperature: ask.params.temperature,
        top_p: ask.params.top_p,
        stop_sequences: &ask.params.stop,
        tools: tool.or(of_request),
        tool_choice: tool_choice.or(choice_of_request),
    };
    Ok(Wire {
        url: wire::with_path(base, &path).into(),
        headers: vec![
            ("x-api-key", endpoint.key.expose().to_owned()),
            ("anthropic-version", VERSION.to_owned()),
        ],
        body: wire::body(&body, &rest),
    })
}

#[derive(Deserialize)]
struct Answer {
    model: Option<String>,
    content: Vec<Block>,
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<Counted>,
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
    /// Thinking, and what comes to be.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Counted {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// Anthropic counts what goes through its cache apart from the input.
impl From<Counted> for Usage {
    fn from(counted: Counted) -> Self {
        let created = counted.cache_creation_input_tokens.unwrap_or_default();
        let cached = counted.cache_read_input_tokens.unwrap_or_default();
        let cache = created.saturating_add(cached);
        Self {
            input: counted.input_tokens.saturating_add(cache),
            cached_input: cached,
            cache_creation: created,
            output: counted.output_tokens,
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: Answer = wire::read(body)?;
    let (mut text, mut calls) = (String::new(), Vec::new());
    for block in answer.content {
        match block {
            Block::Text { text: more } => text.push_str(&more),
            Block::ToolUse { id, name, input } => calls.push(ToolCall {
                id: id.unwrap_or_default(),
                name,
                arguments: parts::called_with(input),
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
