//! Tests whether messages have content.

use serde_json::{Map, Value};

/// Whether a value is neither null nor empty.
#[must_use]
pub fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Whether a message list has content: some message with content, parts or calls. A value that is not a list of objects
/// has content if it is not empty.
#[must_use]
pub fn has_messages(value: &Value) -> bool {
    let Value::Array(messages) = value else {
        return is_present(value);
    };
    messages.iter().any(|message| match message {
        Value::Object(members) if members.contains_key("role") || members.len() > 1 => {
            says_something(members)
        }
        other => is_present(other),
    })
}

/// Members with the content of chat messages. Only these count in a message that has one of them.
const BODY_KEYS: [&str; 19] = [
    "content",
    "contents",
    "parts",
    "tool_calls",
    "toolCalls",
    "function_call",
    "message",
    "refusal",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
    "tool_call",
    "toolInvocations",
    "additional_kwargs",
    "audio",
    "images",
    "data",
];

fn says_something(message: &Map<String, Value>) -> bool {
    let is_chat = message.contains_key("role");
    let has_body_key = BODY_KEYS.iter().any(|key| message.contains_key(*key));
    message.iter().any(|(key, value)| {
        let is_body = match is_chat {
            true if has_body_key => BODY_KEYS.contains(&key.as_str()),
            true => !is_about_message(key) && !matches!(key.as_str(), "type" | "status"),
            false => !is_about_message(key),
        };
        is_body && is_present(value)
    })
}

/// Keys that describe a message and are not its content.
fn is_about_message(key: &str) -> bool {
    matches!(key, "role" | "name" | "finish_reason" | "index" | "id" | "tool_call_id")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_list_has_content_by_content_parts_or_calls_only() {
        let empty = [
            json!([]),
            json!([{ "role": "assistant" }]),
            json!([{ "role": "assistant", "type": "message", "status": "completed" }]),
            json!([{ "role": "assistant", "type": "message", "content": "" }]),
            json!([{ "role": "assistant", "parts": [], "usage": { "input": 1 }, "model": "m" }]),
            json!([{ "role": "user", "content": null, "tool_calls": [] }, { "role": "user", "content": [] }]),
        ];
        for list in empty {
            assert!(!has_messages(&list), "{list}");
        }
        let full = [
            json!([{ "role": "user", "content": "" }, { "role": "user", "content": "hi" }]),
            json!([{ "role": "assistant", "content": "", "tool_calls": [{ "id": "1" }] }]),
            json!([{ "role": "assistant", "parts": [{ "type": "text" }] }]),
            json!([{ "role": "assistant", "message": { "content": "hi" } }]),
            json!([{ "role": "assistant", "content": "", "thinking": "hm" }]),
            json!([{ "role": "assistant", "content": "", "toolInvocations": [{ "toolName": "f" }] }]),
            json!([{ "role": "user", "gen_ai.event.content": "hi" }]),
            json!([{ "type": "reasoning", "id": "r" }]),
            json!([{ "text": "a document" }]),
            json!(["a", "list"]),
            json!("text"),
        ];
        for list in full {
            assert!(has_messages(&list), "{list}");
        }
    }
}
