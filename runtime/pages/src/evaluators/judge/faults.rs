//! Values of fields and their problems, as far as they are found before a request is sent.

use std::str::FromStr;

use perpend_views::Text;
use serde_json::{Map, Value};

/// Names of fields and their problems.
pub(super) type FieldProblems = Vec<(&'static str, Text)>;

/// A number as text; empty if it is absent.
pub(super) fn number_text(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { String::new() }
}

/// Problems that are found before a request is sent.
#[derive(Debug, Default)]
pub(super) struct Faults(pub(super) FieldProblems);

impl Faults {
    pub(super) fn add(&mut self, field: &'static str, message: impl Into<String>) {
        self.0.push((field, Text::from(message.into())));
    }

    /// The number in a field; absent if the field is empty.
    pub(super) fn number<T: FromStr>(&mut self, field: &'static str, text: &str) -> Option<T> {
        if text.is_empty() {
            return None;
        }
        let number = text.parse().ok();
        if number.is_none() {
            self.add(field, format!("must be a number, got `{text}`"));
        }
        number
    }

    /// The JSON object in a field; without members if the field is empty.
    pub(super) fn object(&mut self, field: &'static str, text: &str) -> Map<String, Value> {
        if text.is_empty() {
            return Map::new();
        }
        serde_json::from_str(text).unwrap_or_else(|error| {
            self.add(field, format!("must be a JSON object: {error}"));
            Map::new()
        })
    }
}
