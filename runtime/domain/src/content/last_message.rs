//! The last message of a conversation as text, for a line of a list.

use serde_json::Value;

use crate::content::members::{MAX_VALUES, n_values};
use crate::content::messages::{HOLDERS, unify};
use crate::content::roles::{Speaker, speaker};

/// Nested objects and lists around the messages.
const MAX_DEPTH: usize = 8;

/// The text of the last user message in a JSON document, or of the last message if no message is from a user. `None` if
/// the document has no conversation.
#[must_use]
pub fn last_message_text(json: &str) -> Option<String> {
    // Texts, numbers and large documents are not parsed.
    if !json.trim_start().starts_with(['[', '{']) || MAX_VALUES < n_values(json) {
        return None;
    }
    let mut value: Value = serde_json::from_str(json).ok()?;
    unify(&mut value);
    let mut all = Vec::new();
    collect(&value, 0, &mut all);
    let last_of_user = all.iter().rposition(|(is_user, _)| *is_user);
    let last = all.len().checked_sub(1)?;
    Some(all.swap_remove(last_of_user.unwrap_or(last)).1)
}

/// Collects the text of each message, and whether it is from a user.
fn collect(value: &Value, depth: usize, all: &mut Vec<(bool, String)>) {
    if MAX_DEPTH < depth {
        return;
    }
    match value {
        Value::Array(items) => {
            for item in items {
                collect(item, depth + 1, all);
            }
        }
        Value::Object(members) => {
            if let Some(speaker) = speaker(members) {
                let content = ["content", "parts", "contents"].iter().find_map(|key| {
                    let text = text(members.get(*key)?);
                    (!text.trim().is_empty()).then_some(text)
                });
                all.extend(content.map(|text| (speaker == Speaker::User, text)));
                return;
            }
            // Answers of some providers hold the message here.
            for key in HOLDERS.into_iter().chain(["content"]) {
                if let Some(inner) = members.get(key) {
                    collect(inner, depth + 1, all);
                }
            }
        }
        _ => {}
    }
}

fn is_reasoning(part: &Value) -> bool {
    matches!(part["type"].as_str(), Some("thinking" | "reasoning"))
}

/// The texts of the content of a message, without reasoning.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Value::String(text) => Some(text.as_str()),
                part if is_reasoning(part) => None,
                part => ["text", "content"].iter().find_map(|key| part.get(*key)?.as_str()),
            });
            texts.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_user_message_is_taken_and_else_the_last_message() {
        for (value, expected) in [
            (
                json!([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Can I change it?"}]),
                Some("Can I change it?"),
            ),
            (
                json!({"model": "m", "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "this?"}]},
                    {"role": "assistant", "tool_calls": []},
                    {"role": "tool", "content": "{}"},
                ]}),
                Some("And this?"),
            ),
            (json!({"candidates": [{"content": {"parts": [{"text": "Yes."}]}}]}), Some("Yes.")),
            (
                json!([{"role": "assistant", "content": [{"type": "thinking", "text": "Hm."}, "Yes."]}]),
                Some("Yes."),
            ),
            (json!({"role": "admin", "content": "x"}), None),
            (json!({"order": [1, 2]}), None),
            (json!("Hello"), None),
            (json!([]), None),
        ] {
            assert_eq!(last_message_text(&value.to_string()).as_deref(), expected, "{value}");
        }
        assert_eq!(last_message_text("[{\"role\": \"user\""), None);
        let large =
            format!("[{}{{\"role\":\"user\",\"content\":\"a\"}}]", "{},".repeat(MAX_VALUES));
        assert_eq!(last_message_text(&large), None);
    }
}
