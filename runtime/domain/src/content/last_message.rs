//! What a conversation says last, as a line of a list shows it.

use serde_json::Value;

use crate::content::members::{MAX_VALUES, n_values};
use crate::content::messages::{HOLDERS, unify};
use crate::content::roles::{Speaker, speaker};

/// Objects and lists around the messages.
const MAX_DEPTH: usize = 8;

/// The last text that a user says in the conversation that a JSON document is or holds, or where none speaks in it, the
/// last text of all; none of what is no conversation.
#[must_use]
pub fn last_message_text(json: &str) -> Option<String> {
    // Texts and numbers are no conversation, and not read; what is too large is not read either.
    if !json.trim_start().starts_with(['[', '{']) || MAX_VALUES < n_values(json) {
        return None;
    }
    let mut value: Value = serde_json::from_str(json).ok()?;
    unify(&mut value);
    let mut all = Vec::new();
    collect(&value, 0, &mut all);
    let asked = all.iter().rposition(|(is_asker, _)| *is_asker);
    let last = all.len().checked_sub(1)?;
    Some(all.swap_remove(asked.unwrap_or(last)).1)
}

/// Each text that is said, and whether a user says it.
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
                let said = ["content", "parts", "contents"].iter().find_map(|key| {
                    let text = text(members.get(*key)?);
                    (!text.trim().is_empty()).then_some(text)
                });
                all.extend(said.map(|text| (speaker == Speaker::User, text)));
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

/// What a model thought before it said something.
fn is_thought(part: &Value) -> bool {
    matches!(part["type"].as_str(), Some("thinking" | "reasoning"))
}

/// The texts of what a message holds.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Value::String(text) => Some(text.as_str()),
                part if is_thought(part) => None,
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
    fn the_last_question_stands_for_a_conversation_and_the_last_text_for_an_answer() {
        for (value, said) in [
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
            assert_eq!(last_message_text(&value.to_string()).as_deref(), said, "{value}");
        }
        assert_eq!(last_message_text("[{\"role\": \"user\""), None);
        let large =
            format!("[{}{{\"role\":\"user\",\"content\":\"a\"}}]", "{},".repeat(MAX_VALUES));
        assert_eq!(last_message_text(&large), None);
    }
}
