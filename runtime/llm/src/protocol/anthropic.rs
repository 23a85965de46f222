//! Anthropic's messages.

use perpend_protocol::host_call::{FinishReason, Message};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
    messages: Vec<Turn<'a>>,
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

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: &'a str,
}

impl<'a> From<&'a Message> for Turn<'a> {
    fn from(message: &'a Message) -> Self {
        // The one system message of a conversation without others is said by the user.
        let role = match wire::role(message) {
            "assistant" => "assistant",
            _ => "user",
        };
        Self {
            role,
            content: &message.content,
        }
    }
}

pub(super) fn complete(endpoint: &Endpoint, ask: &Ask<'_>) -> Result<Wire, Failure> {
    let base = wire::base(endpoint, VENDOR, ask.model)?;
    let mut path = wire::segments(&base);
    if path.last().is_some_and(|last| last == "messages") {
        path.pop();
    }
    path.pop_if(|last| last == "v1");
    path.extend(["v1", "messages"].map(str::to_owned));
    let (system, messages) = ask.system_apart();
    let tool = ask.tool().map(|wanted| {
        json!([{
            "name": REPLY,
            "description": REPLY_DESCRIPTION,
            "input_schema": wanted.schema,
        }])
    });
    // A model that thinks cannot be forced to call a tool.
    let thinks = ask.params.rest.get("thinking").is_some_and(|thinking| {
        !thinking.is_null() && thinking.get("type").is_none_or(|of| of != "disabled")
    });
    let tool_choice = tool.as_ref().map(|_| match thinks {
        true => json!({ "type": "auto" }),
        false => json!({ "type": "tool", "name": REPLY }),
    });
    let body = Body {
        model: ask.model,
        max_tokens: ask.params.max_tokens.unwrap_or(MAX_TOKENS),
        system,
        messages: messages.into_iter().map(Turn::from).collect(),
        temperature: ask.params.temperature,
        top_p: ask.params.top_p,
        stop_sequences: &ask.params.stop,
        tools: tool,
        tool_choice,
    };
    Ok(Wire {
        url: wire::with_path(base, &path).into(),
        headers: vec![
            ("x-api-key", endpoint.key.expose().to_owned()),
            ("anthropic-version", VERSION.to_owned()),
        ],
        body: wire::body(&body, &ask.params.rest),
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
    let (mut text, mut structured) = (String::new(), None);
    for block in answer.content {
        match block {
            Block::Text { text: more } => text.push_str(&more),
            Block::ToolUse { input } => structured = Some(input.to_string()),
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
        structured,
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
