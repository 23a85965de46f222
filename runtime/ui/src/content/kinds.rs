//! What a part of a message is, by its type and members.

use perpend_shapes::is_empty;
use serde_json::{Map, Value};

use super::media::MEDIUM_TYPES;

pub(super) const TEXT: [&str; 5] = [
    "text",
    "input_text",
    "output_text",
    "summary_text",
    "reasoning_text",
];
pub(super) const REASONING: [&str; 4] = ["reasoning", "thinking", "redacted_thinking", "thought"];
const CALLS: [&str; 6] = [
    "tool-call",
    "tool_use",
    "server_tool_use",
    "mcp_tool_use",
    "tool-invocation",
    "toolCall",
];
pub(super) const RESULTS: [&str; 5] = [
    "tool-result",
    "tool_call_response",
    "tool-error",
    "toolResult",
    "function_response",
];
pub(super) const CALL_MEMBERS: [&str; 4] =
    ["functionCall", "function_call", "toolUse", "tool_call"];
pub(super) const RESULT_MEMBERS: [&str; 4] = [
    "functionResponse",
    "function_response",
    "toolResult",
    "tool_call_result",
];
const MEDIUM_MEMBERS: [&str; 7] = [
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "image_url",
    "input_audio",
    "image",
];
pub(super) const CALL_IDS: [&str; 7] = [
    "call_id",
    "tool_call_id",
    "toolCallId",
    "tool_use_id",
    "toolUseId",
    "id",
    "tool_id",
];

/// What a part is, by its type and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Reasoning,
    Refusal,
    Call,
    Result,
    Medium,
    Unknown,
}

impl Kind {
    pub(super) fn of(object: &Map<String, Value>) -> Self {
        let has = |key: &str| object.get(key).is_some_and(|value| !is_empty(value));
        let is_object = |key: &str| object.get(key).is_some_and(Value::is_object);
        let kind = object
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match kind {
            _ if TEXT.contains(&kind) => Self::Text,
            _ if REASONING.contains(&kind) => Self::Reasoning,
            "refusal" => Self::Refusal,
            _ if RESULTS.contains(&kind) => Self::Result,
            _ if kind.ends_with("tool_result") || kind.ends_with("_call_output") => Self::Result,
            _ if CALLS.contains(&kind) || kind.ends_with("_call") => Self::Call,
            "function" | "custom" if is_object(kind) && !is_definition(object) => Self::Call,
            _ if MEDIUM_TYPES.contains(&kind) => Self::Medium,
            _ if CALL_MEMBERS.iter().any(|key| is_object(key)) => Self::Call,
            _ if RESULT_MEMBERS.iter().any(|key| is_object(key)) => Self::Result,
            _ if MEDIUM_MEMBERS.iter().any(|key| is_object(key)) => Self::Medium,
            "" if object.get("thought") == Some(&Value::Bool(true)) => Self::Reasoning,
            "" if has("reasoningContent") => Self::Reasoning,
            "" if object.get("text").is_some_and(Value::is_string) => Self::Text,
            _ => Self::Unknown,
        }
    }
}

/// Whether an object says what a tool can do, rather than to do it.
fn is_definition(object: &Map<String, Value>) -> bool {
    let mut inner = object.values().filter_map(Value::as_object);
    inner.any(|inner| {
        let says = ["parameters", "description", "strict"];
        says.iter().any(|key| inner.contains_key(*key)) && !inner.contains_key("arguments")
    })
}
