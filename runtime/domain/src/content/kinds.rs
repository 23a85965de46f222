//! The kind of a part of a message, by its type and members.

use serde_json::{Map, Value};

use crate::content::members::is_empty;

/// Types of a part that is text.
pub const TEXT: [&str; 5] = ["text", "input_text", "output_text", "summary_text", "reasoning_text"];
/// Types of a part that holds the reasoning of a model.
pub const REASONING: [&str; 4] = ["reasoning", "thinking", "redacted_thinking", "thought"];
const CALLS: [&str; 7] = [
    "tool-call",
    "tool-invocation",
    "toolCall",
    // LangChain's agents before tool calls.
    "AgentAction",
    "AgentActionMessageLog",
    // Mistral's conversations.
    "function.call",
    "tool.execution",
];
/// Types of calls that name no tool, without `_call` at their ends.
const NAMELESS: [&str; 6] =
    ["tool", "function", "custom_tool", "invalid_tool", "server_tool", "mcp"];
/// Tools that providers run, whose calls have their names with `_call` behind it as type.
const PROVIDED: [&str; 14] = [
    "apply_patch",
    "code_execution",
    "code_interpreter",
    "computer",
    "file_search",
    "google_maps",
    "google_search",
    "image_generation",
    "local_shell",
    "mcp_list_tools",
    "shell",
    "tool_search",
    "url_context",
    "web_search",
];
/// Members of an item of a provider: a call has one of these in addition to its id.
const CALL_FACTS: [&str; 5] = ["status", "action", "arguments", "code", "queries"];
/// Chunks of the AI SDK that begin, end or answer a call of which another chunk has the arguments.
const UI_CHUNKS: [&str; 8] = [
    "tool-input-start",
    "tool-input-delta",
    "tool-input-end",
    "tool-output-available",
    "tool-output-error",
    "tool-output-denied",
    "tool-approval-request",
    "tool-approval-response",
];
/// Types of a part that holds the result of a tool.
pub const RESULTS: [&str; 7] = [
    "tool-result",
    "tool_call_response",
    "tool-error",
    "toolResult",
    "function_response",
    "function_result",
    "function.result",
];
/// Members that hold a call of a tool.
pub const CALL_MEMBERS: [&str; 7] = [
    "functionCall",
    "function_call",
    "toolUse",
    "tool_call",
    "toolCall",
    "executableCode",
    "executable_code",
];
/// Members that hold the result of a tool.
pub const RESULT_MEMBERS: [&str; 8] = [
    "functionResponse",
    "function_response",
    "toolResult",
    "tool_call_result",
    "toolResponse",
    "tool_response",
    "codeExecutionResult",
    "code_execution_result",
];
/// Members of code that Gemini runs; such a call has no name.
pub const RUN_BY_GEMINI: [&str; 4] =
    ["executableCode", "executable_code", "codeExecutionResult", "code_execution_result"];
/// Types of a part that is a medium, in the common APIs.
pub const MEDIUM_TYPES: [&str; 25] = [
    "audio",
    "audio-url",
    "audio_url",
    "base64",
    "binary",
    "blob",
    "document",
    "document-url",
    "document_url",
    "file",
    "image",
    "image-url",
    "image_file",
    "image_url",
    "input_audio",
    "input_file",
    "input_image",
    "input_video",
    "media",
    "output_audio",
    "uri",
    "url",
    "video",
    "video-url",
    "video_url",
];
const MEDIUM_MEMBERS: [&str; 7] =
    ["inlineData", "inline_data", "fileData", "file_data", "image_url", "input_audio", "image"];
/// Members with the id of a call, the more likely ones first.
pub const CALL_IDS: [&str; 7] =
    ["call_id", "tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "id", "tool_id"];

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Reasoning,
    Refusal,
    Call,
    Result,
    Medium,
    Unknown,
}

impl Kind {
    /// By the type of the part; without one by its members.
    pub fn of(object: &Map<String, Value>) -> Self {
        let has = |key: &str| object.get(key).is_some_and(|value| !is_empty(value));
        let is_object = |key: &str| object.get(key).is_some_and(Value::is_object);
        let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            _ if TEXT.contains(&kind) => Self::Text,
            _ if REASONING.contains(&kind) => Self::Reasoning,
            "refusal" => Self::Refusal,
            _ if RESULTS.contains(&kind) => Self::Result,
            _ if kind.ends_with("tool_result") || kind.ends_with("_call_output") => Self::Result,
            _ if UI_CHUNKS.contains(&kind) => Self::Unknown,
            _ if CALLS.contains(&kind) => Self::Call,
            _ if is_call_type(object, kind) || kind.ends_with("tool_use") => Self::Call,
            _ if is_ui_call(kind) && object.contains_key("toolCallId") => Self::Call,
            "function" | "custom" if is_call_in(object, kind) => Self::Call,
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

/// Whether it is a type of part of Vercel's AI SDK that holds a call: `tool-NAME` or `dynamic-tool`.
fn is_ui_call(kind: &str) -> bool {
    kind == "dynamic-tool" || kind.starts_with("tool-")
}

/// The name of a tool in the type of its call: of Vercel's UI, or of a provider's own tool.
pub fn name_in_type(kind: &str) -> Option<String> {
    if let Some(name) = kind.strip_prefix("tool-") {
        let is_chunk = UI_CHUNKS.contains(&kind) || name.starts_with("input-");
        let is_own = CALLS.contains(&kind) || is_chunk || name.is_empty();
        return (!is_own).then(|| name.to_owned());
    }
    let name = kind.strip_suffix("_call")?;
    (!NAMELESS.contains(&name) && !name.is_empty()).then(|| name.to_owned())
}

/// Whether the type that ends with `_call` is that of a call of a tool: calls by phone have such types, too.
fn is_call_type(object: &Map<String, Value>, kind: &str) -> bool {
    let Some(name) = kind.strip_suffix("_call") else {
        return false;
    };
    let has = |key: &str| object.contains_key(key);
    let is_item = has("id") && CALL_FACTS.iter().any(|key| has(key));
    NAMELESS.contains(&name) || PROVIDED.contains(&name) || has("call_id") || is_item
}

/// Whether it is the part `step-start` of a message of Vercel's UI, which has no content.
pub fn is_step(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str) == Some("step-start")
}

/// Whether the object in this member is called, rather than defined: definitions have neither ids nor arguments.
fn is_call_in(object: &Map<String, Value>, member: &str) -> bool {
    let inner = object.get(member).and_then(Value::as_object);
    inner.is_some_and(|inner| {
        let has = |keys: &[&str]| keys.iter().any(|key| inner.contains_key(*key));
        let has_id = CALL_IDS.iter().any(|key| object.contains_key(*key));
        has(&["arguments", "input", "args"])
            || has_id && !has(&["parameters", "description", "strict"])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_that_ends_as_those_of_calls_is_one_with_the_members_of_a_call() {
        for (part, kind) in [
            (json!({"type": "function_call"}), Kind::Call),
            (json!({"type": "web_search_call"}), Kind::Call),
            (json!({"type": "new_call", "call_id": "c"}), Kind::Call),
            (json!({"type": "new_call", "id": "c", "status": "x"}), Kind::Call),
            (json!({"type": "new_call", "id": "c"}), Kind::Unknown),
            (json!({"type": "margin_call", "amount": 5}), Kind::Unknown),
            (json!({"type": "phone_call", "name": "Anna"}), Kind::Unknown),
        ] {
            assert_eq!(Kind::of(part.as_object().unwrap()), kind, "{part}");
        }
    }

    #[test]
    fn the_name_of_a_tool_is_read_from_the_type_of_its_call() {
        for (kind, name) in [
            ("tool-weather", Some("weather")),
            ("web_search_call", Some("web_search")),
            ("tool-call", None),
            ("tool-invocation", None),
            ("tool_call", None),
            ("function_call", None),
            ("custom_tool_call", None),
            ("text", None),
        ] {
            assert_eq!(name_in_type(kind).as_deref(), name, "{kind}");
        }
    }
}
