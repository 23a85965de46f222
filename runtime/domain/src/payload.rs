//! JSON values kept as text: most of them are stored and shown without being parsed.

mod decoded;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value that may be any JSON value. Mirrors `payload` of the plug-in contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Payload {
    /// A JSON string, unescaped and without quotes.
    Text(String),
    /// Any other kind of value as one complete, compact JSON document.
    Json(String),
}

impl Payload {
    /// From a parsed value. A string becomes text, everything else compact JSON.
    #[must_use]
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            other => Self::Json(other.to_string()),
        }
    }

    /// The parsed value. Invalid JSON, which only a corrupt store can contain, is text.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::String(text.clone()),
            Self::Json(json) => {
                serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.clone()))
            }
        }
    }

    /// The text as it was sent.
    #[must_use]
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }

    /// The content: the text itself, or the JSON document. The raw form of `/v2/observations`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }

    /// Truncates it to `max_bytes` and appends `…` if it is longer. JSON becomes text then.
    pub fn cut(&mut self, max_bytes: usize) {
        if self.as_str().len() <= max_bytes {
            return;
        }
        let text = self.as_str();
        let beginning = text.get(..text.floor_char_boundary(max_bytes));
        *self = Self::Text(format!("{}…", beginning.unwrap_or_default()));
    }

    /// One JSON document, strings quoted.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Text(text) => Value::String(text.clone()).to_string(),
            Self::Json(json) => json.clone(),
        }
    }
}
