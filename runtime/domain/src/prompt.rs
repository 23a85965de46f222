//! Prompts: named text or messages in numbered versions, with labels that move between them.
//!
//! Inclusion of other prompts is in [`compose`].

mod checked;
pub mod compose;
mod reference;

use std::fmt;

use serde_json::{Map, Value, json};

use crate::named::named_enum;
use checked::invalid;
use reference::Reference;

pub use checked::{InvalidPrompt, MAX_LABEL_CHARS, check_label};

/// The label of the newest version; it cannot be moved.
pub const LATEST: &str = "latest";
/// The default label.
pub const PRODUCTION: &str = "production";
/// The longest name in characters.
pub const MAX_NAME_CHARS: usize = 255;
/// The longest note about a version in characters.
pub const MAX_COMMIT_MESSAGE_CHARS: usize = 500;

/// Names that are parts of addresses.
const RESERVED_NAMES: &[&str] = &["new", "metrics", "prompt-detail"];

named_enum!(
    /// The type of a prompt.
    PromptKind {
        Text = "text",
        Chat = "chat",
    }
);

/// The name of a prompt; slashes in it make folders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PromptName(String);

impl PromptName {
    /// Checks text from outside.
    ///
    /// # Errors
    /// [`InvalidPrompt`] names the violated rule.
    pub fn new(raw: &str) -> Result<Self, InvalidPrompt> {
        let n_chars = raw.chars().count();
        if n_chars == 0 || MAX_NAME_CHARS < n_chars || raw.trim().is_empty() {
            return invalid(format!("a prompt's name has 1 to {MAX_NAME_CHARS} characters"));
        }
        if raw.chars().any(char::is_control) {
            return invalid("a prompt's name has no control characters");
        }
        if raw.contains('|') {
            return invalid("a prompt's name has no |, which ends the name in a reference");
        }
        if raw.starts_with('/') || raw.ends_with('/') || raw.contains("//") {
            return invalid(
                "folders in a prompt's name are separated by one /, with none at either end",
            );
        }
        if raw.split_once('<').is_some_and(|(_, rest)| rest.contains('>')) {
            return invalid("a prompt's name has no HTML");
        }
        if RESERVED_NAMES.contains(&raw) {
            return invalid(format!("no prompt can be called {raw}"));
        }
        Ok(Self(raw.to_owned()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for PromptName {
    type Err = InvalidPrompt;

    fn from_str(raw: &str) -> Result<Self, InvalidPrompt> {
        Self::new(raw)
    }
}

/// The text of a version, or its messages.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptBody {
    /// One text.
    Text(String),
    /// Messages and placeholders for messages, each with its `type`.
    Chat(Vec<Map<String, Value>>),
}

impl PromptBody {
    /// Checks JSON from outside. Messages get their `type`; further members of a message stay.
    ///
    /// # Errors
    /// [`InvalidPrompt`] names the message and what it should be.
    pub fn parse(kind: PromptKind, raw: Value) -> Result<Self, InvalidPrompt> {
        match (kind, raw) {
            (PromptKind::Text, Value::String(text)) => Ok(Self::Text(text)),
            (PromptKind::Text, _) => invalid("a text prompt is a string"),
            (PromptKind::Chat, Value::Array(messages)) => {
                let messages = messages.into_iter().enumerate();
                let messages: Vec<_> =
                    messages.map(|(at, raw)| message(at, raw)).collect::<Result<_, _>>()?;
                let body = Self::Chat(messages);
                body.check_placeholders()?;
                Ok(body)
            }
            (PromptKind::Chat, _) => invalid("a chat prompt is an array of messages"),
        }
    }

    /// Reads a stored prompt from [`Self::parse`].
    #[must_use]
    pub fn from_stored(raw: Value) -> Option<Self> {
        match raw {
            Value::String(text) => Some(Self::Text(text)),
            Value::Array(messages) => {
                let member = |message| match message {
                    Value::Object(members) => Some(members),
                    _ => None,
                };
                messages.into_iter().map(member).collect::<Option<_>>().map(Self::Chat)
            }
            _ => None,
        }
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> PromptKind {
        match self {
            Self::Text(_) => PromptKind::Text,
            Self::Chat(_) => PromptKind::Chat,
        }
    }

    /// As it is stored and shown.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Chat(messages) => json!(messages),
        }
    }

    /// Every text in it that may hold variables and references.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let (text, messages) = match self {
            Self::Text(text) => (Some(text.as_str()), &[][..]),
            Self::Chat(messages) => (None, messages.as_slice()),
        };
        let contents = messages.iter().filter_map(|message| message.get("content")?.as_str());
        text.into_iter().chain(contents)
    }

    /// The prompts it includes, in the order of their first place.
    ///
    /// # Errors
    /// [`InvalidPrompt`] for a reference that does not read as one.
    pub fn references(&self) -> Result<Vec<Reference>, InvalidPrompt> {
        let mut found = Vec::new();
        for text in self.texts() {
            for reference in reference::references(text) {
                let reference = reference?;
                if !found.contains(&reference) {
                    found.push(reference);
                }
            }
        }
        Ok(found)
    }

    fn check_placeholders(&self) -> Result<(), InvalidPrompt> {
        let Self::Chat(messages) = self else {
            return Ok(());
        };
        let variables: Vec<&str> = self.texts().flat_map(variables).collect();
        let is_placeholder = |m: &&Map<String, Value>| m.get("type") == Some(&json!("placeholder"));
        let names = messages.iter().filter(is_placeholder).filter_map(|m| m.get("name")?.as_str());
        for name in names {
            if variables.contains(&name) {
                return invalid(format!(
                    "{name:?} is both a placeholder for messages and a {{{{variable}}}}; rename one"
                ));
            }
        }
        Ok(())
    }
}

fn message(at: usize, raw: Value) -> Result<Map<String, Value>, InvalidPrompt> {
    let Value::Object(mut members) = raw else {
        return invalid(format!("message {at} is not an object"));
    };
    let kind = members.get("type").cloned().unwrap_or(Value::Null);
    let is_text = |key: &str| members.get(key).is_some_and(Value::is_string);
    match kind.as_str() {
        Some("placeholder") => {
            let name = members.get("name").and_then(Value::as_str).unwrap_or_default();
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(fits) {
                return invalid(format!(
                    "placeholder {at} needs a name that begins with a letter and has letters, digits and _ only"
                ));
            }
        }
        Some("chatmessage") | None if kind.is_null() || kind.is_string() => {
            for key in ["role", "content"] {
                if !is_text(key) {
                    return invalid(format!("message {at} needs {key}, a string"));
                }
            }
            members.insert("type".to_owned(), "chatmessage".into());
        }
        _ => {
            return invalid(format!(
                "message {at}: `type` must be one of `chatmessage`, `placeholder`"
            ));
        }
    }
    Ok(members)
}

/// Names of the `{{variables}}` of a text.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(name, _)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: Value) -> Result<PromptBody, InvalidPrompt> {
        PromptBody::parse(PromptKind::Chat, messages)
    }

    #[test]
    fn names_may_have_folders_and_nothing_that_breaks_an_address() {
        for good in ["a", "folder/sub/tone", "100% sure", "grüße", "a<b"] {
            assert!(PromptName::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(256);
        let bad = ["", "  ", "/a", "a/", "a//b", "a|b", "<b>", "new", "a\u{0}", long.as_str()];
        for bad in bad {
            assert!(PromptName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn labels_are_short_and_lower_case() {
        assert!(check_label("prod_eu-1.0").is_ok());
        for bad in ["", "Prod", "a b", "ü", &"x".repeat(37)] {
            assert!(check_label(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn messages_get_their_type_and_keep_other_members() {
        let body = chat(json!([
            { "role": "system", "content": "Hi {{name}}", "tool_calls": [1] },
            { "type": "placeholder", "name": "history" },
        ]))
        .unwrap();
        let expected = json!([
            { "type": "chatmessage", "role": "system", "content": "Hi {{name}}", "tool_calls": [1] },
            { "type": "placeholder", "name": "history" },
        ]);
        assert_eq!(body.to_json(), expected);
        assert_eq!(PromptBody::from_stored(expected), Some(body));
    }

    #[test]
    fn a_wrong_message_is_named_by_its_place() {
        let cases = [
            (json!("text"), "array of messages"),
            (json!([1]), "message 0"),
            (json!([{ "role": "user" }]), "content"),
            (json!([{ "role": 1, "content": "" }]), "role"),
            (json!([{ "type": "image", "role": "user", "content": "" }]), "type"),
            (json!([{ "type": 1, "role": "user", "content": "" }]), "type"),
            (json!([{ "type": "placeholder" }]), "placeholder 0"),
            (json!([{ "type": "placeholder", "name": "1a" }]), "placeholder 0"),
        ];
        for (messages, part) in cases {
            let error = chat(messages).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(PromptBody::parse(PromptKind::Text, json!([])).is_err());
    }

    #[test]
    fn a_placeholder_cannot_share_its_name_with_a_variable() {
        let clash = json!([
            { "role": "user", "content": "About {{ history }}" },
            { "type": "placeholder", "name": "history" },
        ]);
        assert!(chat(clash).unwrap_err().to_string().contains("history"));
    }
}
