//! JSON values in text areas. Without a script they are plain fields of a form.

use serde_json::Value;

use crate::Text;
use crate::markup::is_hidden;

/// Lines of the smallest and the largest text area.
const MIN_LINES: usize = 4;
const MAX_LINES: usize = 24;

/// A text area with a JSON value.
#[derive(Clone, Debug)]
pub struct JsonEditor {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// Expectation below the label.
    pub(crate) hint: &'static str,
    pub(crate) text: String,
    pub(crate) problems: Vec<Text>,
}

impl JsonEditor {
    /// An editor of a field of a form with a stored value; `null` is an empty text.
    #[must_use]
    pub fn of_value((name, label): (&'static str, &'static str), value: &Value) -> Self {
        let text = match value {
            Value::Null => String::new(),
            value => serde_json::to_string_pretty(value).unwrap_or_default(),
        };
        Self::of_text((name, label), &text)
    }

    /// An editor with a typed text.
    #[must_use]
    pub fn of_text((name, label): (&'static str, &'static str), text: &str) -> Self {
        Self { name, label, hint: "", text: with_escapes(text), problems: Vec::new() }
    }

    /// With a sentence below the label.
    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// With the problems at this field.
    #[must_use]
    pub fn with_problems(self, problems: &[(&'static str, Text)]) -> Self {
        let own = problems.iter().filter(|(field, _)| *field == self.name);
        let own = own.map(|(_, problem)| problem.clone()).collect();
        Self { problems: own, ..self }
    }

    pub(crate) fn n_lines(&self) -> usize {
        self.text.lines().count().clamp(MIN_LINES, MAX_LINES)
    }
}

/// The text with invisible characters as JSON escapes. In valid JSON such characters occur only in strings, where the escape
/// means the same.
fn with_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\r' {
            continue;
        }
        if !is_hidden(c) {
            out.push(c);
            continue;
        }
        let mut units = [0_u16; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_of_a_value_is_the_same_value_without_invisible_characters() {
        let value = json!({ "a\u{202e}": "\u{0}\u{e0041}\u{feff} \n\t\r", "b": [1, 2.5, null] });
        let editor = JsonEditor::of_value(("input", "Input"), &value);
        assert!(!editor.text.chars().any(|c| c != '\n' && is_hidden(c)), "{}", editor.text);
        assert_eq!(serde_json::from_str::<Value>(&editor.text).unwrap(), value);
        assert_eq!(JsonEditor::of_value(("input", "Input"), &Value::Null).text, "");
    }

    #[test]
    fn line_breaks_of_a_form_are_those_of_the_page() {
        assert_eq!(JsonEditor::of_text(("a", "A"), "{\r\n\t\"b\": 1}").text, "{\n\t\"b\": 1}");
    }
}
