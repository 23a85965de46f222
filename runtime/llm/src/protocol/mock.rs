//! Scripted replies for tests and demos without network. The script is in the connection's `config`:
//!
//! ```json
//! {"replies": [
//!   {"contains": "refund", "reply": {"reasoning": "..", "score": 1}, "usage": {"input": 10, "output": 5}},
//!   {"contains": "busy", "error": {"status": 429, "retryAfterSeconds": 3}},
//!   {"turn": 1, "toolCalls": [{"name": "search", "arguments": {"text": "refund"}}]},
//!   {"reply": "any other text", "latencyMs": 20}
//! ]}
//! ```
//!
//! The first matching rule replies, or the last rule when none matches. A rule matches when its text occurs in a message
//! (including tool results; a medium has the text `[image ID]`), and when its `turn` is that of the conversation: the
//! number of messages of the assistant plus one. Tool calls have the `id` of the rule, or an id from their position. Equal
//! requests get equal replies.

use std::time::Duration;

use perpend_worker_protocol::host_call::{Message, MessagePart, Role};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::wire::{CompletionSpec, EncodedRequest};
use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};

/// Length of an embedding vector.
const DIMENSIONS: usize = 16;

#[derive(Deserialize)]
struct Script {
    replies: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    contains: Option<String>,
    turn: Option<usize>,
    #[serde(default)]
    reply: Value,
    #[serde(default)]
    latency_ms: u64,
    error: Option<Error>,
    usage: Option<Tokens>,
    /// Default: `stop`.
    finish: Option<String>,
    #[serde(default)]
    tool_calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    id: Option<String>,
    name: String,
    /// An object, or a string with malformed arguments.
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Error {
    status: u16,
    retry_after_seconds: Option<u64>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
}

/// A simulated response.
#[derive(Debug, PartialEq)]
pub(crate) struct MockAnswer {
    pub(crate) latency: Duration,
    pub(crate) status: u16,
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) body: Value,
}

/// Encodes the request for records; the script reads its messages.
pub(super) fn complete(spec: &CompletionSpec<'_>) -> EncodedRequest {
    let text = |message: &Message| {
        let role = (message.role == Role::Assistant).then_some("assistant");
        json!({ "role": role, "content": content(message) })
    };
    let tools = spec.tools.iter().map(|tool| tool.name.as_str());
    wire(json!({
        "model": spec.model,
        "messages": spec.messages.iter().map(text).collect::<Vec<_>>(),
        "structure": spec.structure.name(),
        "max_tokens": spec.params.max_tokens,
        "tools": tools.collect::<Vec<_>>(),
    }))
}

/// The text of a message.
fn content(message: &Message) -> String {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::Media(kind, id) => format!("[{} {id}]", kind.name()),
        MessagePart::ToolCall(call) => format!("[{} {}]", call.name, call.arguments),
        MessagePart::ToolResult(result) => result.content.clone(),
    };
    let parts: Vec<String> = message.parts.iter().map(part).collect();
    parts.join("\n\n")
}

pub(super) fn embed(model: &str, texts: &[String]) -> EncodedRequest {
    wire(json!({ "model": model, "input": texts }))
}

fn wire(body: Value) -> EncodedRequest {
    EncodedRequest {
        // Never requested; identifies the mock in records.
        url: "mock:/".to_owned(),
        headers: Vec::new(),
        body,
    }
}

/// The scripted response, in the format of OpenAI.
pub(crate) fn answer(endpoint: &Endpoint, request: &Value) -> Result<MockAnswer, Failure> {
    if let Some(texts) = request.get("input").and_then(Value::as_array) {
        return Ok(embeddings(texts));
    }
    let invalid = |reason: String| {
        let message = format!("the config of the mock connection is invalid: {reason}");
        Failure::new(ErrorClass::ModelConfigInvalid, message)
    };
    let config = endpoint.config.clone().unwrap_or_default();
    let script: Script =
        serde_json::from_value(config).map_err(|error| invalid(error.to_string()))?;
    let messages = request["messages"].as_array();
    let contains = |text: &String| {
        let mut contents = messages.into_iter().flatten();
        contents.any(|message| {
            let content = message["content"].as_str();
            content.is_some_and(|content| content.contains(text.as_str()))
        })
    };
    let all = messages.into_iter().flatten();
    let turn = 1 + all.filter(|message| message["role"] == "assistant").count();
    let matches = |rule: &&Rule| {
        rule.contains.as_ref().is_none_or(contains) && rule.turn.is_none_or(|own| own == turn)
    };
    let rule = script.replies.iter().find(matches);
    let rule = rule.or(script.replies.last());
    let rule = rule.ok_or_else(|| invalid("`replies` is empty".to_owned()))?;
    Ok(rule.answer(&request["model"]))
}

impl Rule {
    fn answer(&self, model: &Value) -> MockAnswer {
        let latency = Duration::from_millis(self.latency_ms);
        if let Some(error) = &self.error {
            let message = error.message.as_deref().unwrap_or("scripted");
            return MockAnswer {
                latency,
                status: error.status,
                retry_after_seconds: error.retry_after_seconds,
                body: json!({ "error": { "message": message } }),
            };
        }
        let content = match &self.reply {
            Value::String(text) => text.clone(),
            Value::Null if !self.tool_calls.is_empty() => String::new(),
            other => other.to_string(),
        };
        let usage = self.usage.as_ref().map(
            |tokens| json!({ "prompt_tokens": tokens.input, "completion_tokens": tokens.output }),
        );
        let calls = self.tool_calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            json!({ "id": call.id, "function": { "name": call.name, "arguments": arguments } })
        });
        let choice = json!({
            "message": { "content": content, "tool_calls": calls.collect::<Vec<_>>() },
            "finish_reason": self.finish.as_deref().unwrap_or("stop"),
        });
        MockAnswer {
            latency,
            status: 200,
            retry_after_seconds: None,
            body: json!({ "model": model, "choices": [choice], "usage": usage }),
        }
    }
}

/// Vectors from digests, so that equal texts have equal vectors and different texts have different ones.
fn embeddings(texts: &[Value]) -> MockAnswer {
    let vector = |text: &Value| {
        let digest = Sha256::digest(text.as_str().unwrap_or_default());
        let numbers = digest.iter().take(DIMENSIONS);
        numbers.map(|byte| f32::from(*byte) / 127.5 - 1.0).collect::<Vec<_>>()
    };
    let entries = texts.iter().enumerate();
    let data: Vec<_> =
        entries.map(|(at, text)| json!({ "index": at, "embedding": vector(text) })).collect();
    MockAnswer {
        latency: Duration::ZERO,
        status: 200,
        retry_after_seconds: None,
        body: json!({ "data": data }),
    }
}
