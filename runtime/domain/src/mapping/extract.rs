//! Values out of JSON, and JSON out of text.

use serde_json::{Number, Value};

/// Deeper text in text stays text.
pub const MAX_OPENINGS: u32 = 3;
/// Longer text is not looked into.
const MAX_OPENED_BYTES: usize = 500_000;

/// An RFC 9535 path.
#[derive(Clone, Debug)]
pub struct JsonPath(serde_json_path::JsonPath);

/// The text is no RFC 9535 path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is no JSONPath (RFC 9535): {problem}")]
pub struct InvalidPath {
    path: String,
    problem: String,
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// [`InvalidPath`], with the place where reading stopped.
    pub fn parse(raw: &str) -> Result<Self, InvalidPath> {
        serde_json_path::JsonPath::parse(raw)
            .map(Self)
            .map_err(|error| InvalidPath {
                path: raw.to_owned(),
                problem: error.to_string(),
            })
    }
}

/// The value with JSON text inside its strings parsed, up to three texts deep. A bare number in a
/// text stays text: it may be a large id.
#[must_use]
pub fn open(value: Value) -> Value {
    open_to(value, MAX_OPENINGS)
}

fn open_to(value: Value, n_left: u32) -> Value {
    match value {
        Value::String(text) => match parse_text(&text, n_left) {
            Some(Value::Number(_)) | None => Value::String(text),
            Some(inner) => open_to(inner, n_left - 1),
        },
        Value::Array(mut list) => {
            for element in &mut list {
                *element = open_to(element.take(), n_left);
            }
            Value::Array(list)
        }
        Value::Object(mut members) => {
            for (_, member) in &mut members {
                *member = open_to(member.take(), n_left);
            }
            Value::Object(members)
        }
        other => other,
    }
}

/// Whether [`open`] reads a text as JSON where this many texts may still be opened.
#[must_use]
pub fn opens(text: &str, n_left: u32) -> bool {
    !matches!(parse_text(text, n_left), None | Some(Value::Number(_)))
}

/// The JSON in a text, when there is any.
fn parse_text(text: &str, n_left: u32) -> Option<Value> {
    if n_left == 0 || MAX_OPENED_BYTES < text.len() {
        return None;
    }
    // Most texts are prose; one look at the first character spares them a parser.
    let first = text.bytes().find(|byte| !byte.is_ascii_whitespace())?;
    let may_be_json = matches!(
        first,
        b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9'
    );
    may_be_json
        .then(|| serde_json::from_str(text).ok())
        .flatten()
}

/// The part of an opened value that a path selects: one node gives its value, several an array, none
/// nothing. A value that is neither object nor array is returned as it is, whatever the path.
#[must_use]
pub fn extract(value: Value, path: Option<&JsonPath>) -> Option<Value> {
    let Some(path) = path else {
        return Some(value);
    };
    if let Value::String(text) = &value {
        return Some(bare_number(text).unwrap_or(value));
    }
    if !value.is_object() && !value.is_array() {
        return Some(value);
    }
    let mut nodes = path.0.query(&value).all();
    match nodes.len() {
        0 => None,
        1 => nodes.pop().cloned(),
        _ => Some(Value::Array(nodes.into_iter().cloned().collect())),
    }
}

/// With a path, a text that is a number counts as that number, in the precision of a double.
fn bare_number(text: &str) -> Option<Value> {
    match parse_text(text, 1)? {
        Value::Number(number) => Some(Value::Number(match number.as_f64() {
            Some(double) if 9_007_199_254_740_992.0 <= double.abs() => Number::from_f64(double)?,
            _ => number,
        })),
        _ => None,
    }
}

/// A value as it stands in a prompt: nothing for null, text as it is, numbers and truth values in
/// their JSON form, anything else as compact JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // 1.0 and 1 are one number and print alike.
        Value::Number(number) => match number.as_f64() {
            Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < 1e21 => {
                format!("{double}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
