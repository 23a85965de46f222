//! Inputs and outputs in the form in which they read best: chat messages as a conversation, other JSON
//! indented, the rest as text.

use perpend_domain::payload::Payload;
use serde_json::{Map, Value};

use crate::format::count;
use crate::markup::{Html, Text};

/// Values above this are folded away.
const FOLD_BYTES: usize = 4_000;
/// As are values with more lines than this.
const FOLD_LINES: usize = 60;
/// A page shows this much of one value; the rest is behind the link to the raw value.
const SHOWN_BYTES: usize = 512 * 1024;
/// Conversations longer than this fold their middle.
const WHOLE_CONVERSATION: usize = 24;
/// Messages kept at the start (instructions) and at the end (what happened last).
const KEPT_FIRST: usize = 2;
const KEPT_LAST: usize = 12;

/// A value ready to be shown.
#[derive(Clone, Debug)]
pub enum Block {
    /// Nothing was recorded.
    Absent,
    /// Text, or JSON of no known shape.
    Plain(Fold),
    /// A conversation.
    Chat(Chat),
}

/// Text that is folded away when it is long.
#[derive(Clone, Debug)]
pub struct Fold {
    pub(crate) body: Html,
    /// Set when folded: how it starts.
    pub(crate) preview: Option<Text>,
    /// Set when folded: how long it is.
    pub(crate) size: String,
    /// Only the beginning is on the page.
    pub(crate) is_cut: bool,
}

/// Messages in order, the middle of a long conversation apart.
#[derive(Clone, Debug)]
pub struct Chat {
    pub(crate) first: Vec<Message>,
    pub(crate) middle: Vec<Message>,
    pub(crate) last: Vec<Message>,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) role: Text,
    /// One of the roles that have a colour of their own.
    pub(crate) role_class: &'static str,
    pub(crate) name: Option<Text>,
    pub(crate) parts: Vec<Part>,
}

/// One part of a message.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// `tool call search`, `reasoning`, `image` ...; absent for what was simply said.
    pub(crate) label: Option<&'static str>,
    pub(crate) name: Option<Text>,
    pub(crate) body: Fold,
}

impl Block {
    /// From a recorded value.
    #[must_use]
    pub fn of(payload: Option<&Payload>) -> Self {
        match payload {
            None => Self::Absent,
            Some(Payload::Text(text)) => Self::Plain(Fold::text(text)),
            Some(Payload::Json(json)) => {
                // Above the limit only the beginning is shown, which no longer parses.
                let chat = (json.len() <= SHOWN_BYTES)
                    .then(|| serde_json::from_str(json).ok())
                    .flatten()
                    .and_then(|value: Value| Chat::of(&value));
                chat.map_or_else(|| Self::Plain(Fold::json(json)), Self::Chat)
            }
        }
    }

    /// From metadata; an empty object is nothing.
    #[must_use]
    pub fn of_map(map: &Map<String, Value>) -> Self {
        if map.is_empty() {
            return Self::Absent;
        }
        let json = serde_json::to_string(map).unwrap_or_default();
        Self::Plain(Fold::json(&json))
    }

    /// Whether there is something to show.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Fold {
    pub(crate) fn text(raw: &str) -> Self {
        let shown = beginning(raw, SHOWN_BYTES);
        Self::new(raw, Html::text(shown), shown.len() < raw.len())
    }

    pub(crate) fn json(raw: &str) -> Self {
        let shown = beginning(raw, SHOWN_BYTES);
        Self::new(raw, Html::json(shown), shown.len() < raw.len())
    }

    fn value(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            // Arguments of tool calls are JSON held as text in most APIs.
            other => Self::json(&other.to_string()),
        }
    }

    fn new(raw: &str, body: Html, is_cut: bool) -> Self {
        let is_long =
            FOLD_BYTES < raw.len() || FOLD_LINES < raw.bytes().filter(|b| *b == b'\n').count();
        let preview = is_long.then(|| {
            let start = raw.trim_start();
            Text::from(
                start
                    .chars()
                    .take(160)
                    .map(|c| if c == '\n' { ' ' } else { c })
                    .collect::<String>(),
            )
        });
        let size = if is_long {
            format!("{} bytes", count(raw.len() as u64))
        } else {
            String::new()
        };
        Self {
            body,
            preview,
            size,
            is_cut,
        }
    }
}

fn beginning(raw: &str, max: usize) -> &str {
    let mut end = max.min(raw.len());
    while !raw.is_char_boundary(end) {
        end -= 1;
    }
    &raw[..end]
}

impl Chat {
    /// The conversation in `value`, when it has one of the known shapes: a list of messages, one
    /// message, `{"messages": [...]}` or the choices of a completion.
    fn of(value: &Value) -> Option<Self> {
        let messages: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(object) => match (object.get("messages"), object.get("choices")) {
                (Some(Value::Array(items)), _) if only(object, &["messages"]) => {
                    items.iter().collect()
                }
                (_, Some(Value::Array(choices))) => choices
                    .iter()
                    .map(|choice| choice.get("message"))
                    .collect::<Option<_>>()?,
                _ => vec![value],
            },
            _ => return None,
        };
        let mut read: Vec<Message> = messages
            .into_iter()
            .map(Message::of)
            .collect::<Option<_>>()?;
        if read.is_empty() {
            return None;
        }
        if read.len() <= WHOLE_CONVERSATION {
            return Some(Self {
                first: read,
                middle: Vec::new(),
                last: Vec::new(),
            });
        }
        let last = read.split_off(read.len() - KEPT_LAST);
        let middle = read.split_off(KEPT_FIRST);
        Some(Self {
            first: read,
            middle,
            last,
        })
    }
}

fn only(object: &Map<String, Value>, keys: &[&str]) -> bool {
    object.keys().all(|key| keys.contains(&key.as_str()))
}

/// Keys that a message may have and that are shown; with any other key the raw JSON is shown
/// instead, so that nothing recorded is hidden by the nicer form.
const MESSAGE_KEYS: [&str; 12] = [
    "role",
    "content",
    "parts",
    "name",
    "tool_calls",
    "tool_call_id",
    "id",
    "type",
    "finish_reason",
    "refusal",
    "reasoning_content",
    "status",
];

impl Message {
    fn of(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        let role = object.get("role")?.as_str()?;
        if !only(object, &MESSAGE_KEYS) {
            let has_more = object
                .iter()
                .any(|(key, value)| !MESSAGE_KEYS.contains(&key.as_str()) && !is_empty(value));
            if has_more {
                return None;
            }
        }
        let mut parts = Vec::new();
        if let Some(text) = object.get("reasoning_content").and_then(Value::as_str) {
            parts.push(Part::labelled("reasoning", None, Fold::text(text)));
        }
        for key in ["content", "parts"] {
            match object.get(key) {
                None | Some(Value::Null) => {}
                Some(Value::Array(items)) => parts.extend(items.iter().map(Part::of)),
                Some(Value::String(text)) if text.is_empty() => {}
                // Tools answer in JSON held as text.
                Some(Value::String(text)) if is_json(text) => {
                    parts.push(Part::labelled("JSON", None, Fold::json(text)));
                }
                Some(value) => parts.push(Part {
                    label: None,
                    name: None,
                    body: Fold::value(value),
                }),
            }
        }
        if let Some(text) = object.get("refusal").and_then(Value::as_str) {
            parts.push(Part::labelled("refusal", None, Fold::text(text)));
        }
        if let Some(Value::Array(calls)) = object.get("tool_calls") {
            parts.extend(calls.iter().map(Part::tool_call));
        }
        let name = object
            .get("name")
            .or_else(|| object.get("tool_call_id"))
            .and_then(Value::as_str);
        Some(Self {
            role: Text::from(role),
            role_class: role_class(role),
            name: name.map(Text::from),
            parts,
        })
    }
}

fn is_json(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<Value>(text).is_ok()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn role_class(role: &str) -> &'static str {
    match role {
        "system" | "developer" => "system",
        "user" | "human" => "user",
        "assistant" | "model" | "ai" => "assistant",
        "tool" | "function" => "tool",
        _ => "other",
    }
}

impl Part {
    fn labelled(label: &'static str, name: Option<&str>, body: Fold) -> Self {
        Self {
            label: Some(label),
            name: name.map(Text::from),
            body,
        }
    }

    /// A content part of one of the common APIs; one of unknown type is shown as JSON.
    fn of(value: &Value) -> Self {
        if let Value::String(text) = value {
            return Self {
                label: None,
                name: None,
                body: Fold::text(text),
            };
        }
        let kind = value
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let text_at = |key: &str| value.get(key).and_then(Value::as_str);
        let said = text_at("text").or_else(|| text_at("content"));
        match (kind, said) {
            ("text" | "input_text" | "output_text", Some(text)) => Self {
                label: None,
                name: None,
                body: Fold::text(text),
            },
            ("reasoning" | "thinking", _) => {
                let text = said.or_else(|| text_at("thinking"));
                Self::labelled(
                    "reasoning",
                    None,
                    text.map_or_else(|| Fold::value(value), Fold::text),
                )
            }
            ("tool_call" | "tool_use" | "tool-call" | "function_call", _) => Self::tool_call(value),
            ("tool_result" | "tool_call_response" | "tool-result", _) => {
                let result = ["content", "result", "response", "output"]
                    .iter()
                    .find_map(|k| value.get(*k));
                let name = text_at("name").or_else(|| text_at("toolName"));
                Self::labelled("tool result", name, Fold::value(result.unwrap_or(value)))
            }
            ("image_url" | "image" | "input_image", _) => {
                Self::labelled("image", None, Fold::value(value))
            }
            _ => Self::labelled("part", None, Fold::value(value)),
        }
    }

    fn tool_call(value: &Value) -> Self {
        let inner = value.get("function").unwrap_or(value);
        let name = inner
            .get("name")
            .or_else(|| inner.get("toolName"))
            .and_then(Value::as_str);
        let arguments = ["arguments", "input", "args"]
            .iter()
            .find_map(|key| inner.get(*key));
        let body = match arguments {
            Some(Value::String(json)) if is_json(json) => Fold::json(json),
            Some(value) => Fold::value(value),
            None => Fold::value(value),
        };
        Self::labelled("tool call", name, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(value: Value) -> Block {
        Block::of(Some(&Payload::from_value(value)))
    }

    #[test]
    fn known_shapes_read_as_a_conversation() {
        let message = json!({"role": "user", "content": "hello"});
        let shapes = [
            json!([message]),
            message.clone(),
            json!({"messages": [message]}),
            json!({"id": "x", "choices": [{"index": 0, "message": message}]}),
        ];
        for shape in shapes {
            assert!(matches!(block(shape.clone()), Block::Chat(_)), "{shape}");
        }
    }

    #[test]
    fn unknown_shapes_and_keys_stay_raw() {
        let raw = [
            json!([]),
            json!([{"role": "user", "content": "a", "surprise": 1}]),
            json!([{"role": "user"}, "text"]),
            json!({"messages": [{"role": "user", "content": "a"}], "temperature": 1}),
            json!([1, 2]),
        ];
        for value in raw {
            assert!(matches!(block(value.clone()), Block::Plain(_)), "{value}");
        }
    }

    #[test]
    fn tool_calls_and_parts_keep_their_names() {
        let Block::Chat(chat) = block(json!([
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "I look it up"},
                {"type": "tool_use", "name": "search", "input": {"q": "tea"}},
            ]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1}"}},
            ]},
        ])) else {
            panic!("a conversation");
        };
        let labels = |m: &Message| m.parts.iter().map(|p| p.label).collect::<Vec<_>>();
        assert_eq!(
            labels(&chat.first[0]),
            [Some("reasoning"), None, Some("tool call")]
        );
        assert_eq!(chat.first[1].parts[0].name, Some(Text::from("add")));
    }

    #[test]
    fn long_values_are_folded_and_huge_ones_cut() {
        let Block::Plain(fold) = block(json!("é".repeat(1_000_000))) else {
            panic!("text");
        };
        assert!(fold.is_cut && fold.preview.is_some());
        assert_eq!(fold.size, "2,000,000 bytes");
        let Block::Chat(chat) = block(json!(vec![json!({"role": "user", "content": "a"}); 100]))
        else {
            panic!("a conversation");
        };
        assert_eq!(
            (chat.first.len(), chat.middle.len(), chat.last.len()),
            (2, 86, 12)
        );
    }
}
