//! Selects values from JSON, and parses JSON inside text.

use serde_json::{Number, Value};

use super::budget::{LimitExceeded, MappingBudget};
use crate::json_path::JsonPath;

/// Levels of JSON inside strings that are parsed.
pub const MAX_OPENINGS: u32 = 3;
/// Longer text is not parsed.
const MAX_OPENED_BYTES: usize = 500_000;

/// The value with JSON inside its strings parsed, up to three levels. A bare number in a string stays text: it may be a
/// large id.
///
/// # Errors
/// [`LimitExceeded::Read`].
pub fn open(value: Value, budget: &mut MappingBudget) -> Result<Value, LimitExceeded> {
    open_to(value, MAX_OPENINGS, budget)
}

fn open_to(
    mut value: Value,
    n_left: u32,
    budget: &mut MappingBudget,
) -> Result<Value, LimitExceeded> {
    match &mut value {
        Value::String(text) => {
            if n_left == 0 || !may_be_json(text) {
                return Ok(value);
            }
            return match budget.parse(text)? {
                Some(Value::Number(_)) | None => Ok(value),
                Some(inner) => open_to(inner, n_left - 1, budget),
            };
        }
        Value::Array(list) => {
            for element in list {
                *element = open_to(element.take(), n_left, budget)?;
            }
        }
        Value::Object(members) => {
            for (_, member) in members {
                *member = open_to(member.take(), n_left, budget)?;
            }
        }
        _ => {}
    }
    Ok(value)
}

/// Whether [`open`] parses a text as JSON when `n_left` levels remain.
#[must_use]
pub fn opens(text: &str, n_left: u32) -> bool {
    !matches!(parse_text(text, n_left), None | Some(Value::Number(_)))
}

/// The JSON in a text, if it is JSON.
fn parse_text(text: &str, n_left: u32) -> Option<Value> {
    (0 < n_left && may_be_json(text)).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Whether the first character allows JSON: most texts are prose and need no parser.
fn may_be_json(text: &str) -> bool {
    let first = text.bytes().find(|byte| !byte.is_ascii_whitespace());
    text.len() <= MAX_OPENED_BYTES
        && matches!(first, Some(b'{' | b'[' | b'"' | b't' | b'f' | b'n' | b'-' | b'0'..=b'9'))
}

/// The part of an opened value that a path selects: the value of one node, an array of several, `None` for no node. A
/// scalar is returned unchanged for every path.
///
/// # Errors
/// [`LimitExceeded`], by the steps of the path or by what it selects.
pub fn extract(
    value: &Value,
    path: Option<&JsonPath>,
    budget: &mut MappingBudget,
) -> Result<Option<Value>, LimitExceeded> {
    let mut nodes = match (value, path) {
        (Value::Array(_) | Value::Object(_), Some(path)) => {
            path.select(value, &mut budget.steps)?
        }
        _ => vec![value],
    };
    for node in &nodes {
        budget.selected(node)?;
    }
    if let (Value::String(text), Some(_)) = (value, path) {
        return Ok(Some(bare_number(text).unwrap_or_else(|| value.clone())));
    }
    Ok(match nodes.len() {
        0 => None,
        1 => nodes.pop().cloned(),
        _ => Some(Value::Array(nodes.into_iter().cloned().collect())),
    })
}

/// With a path, a text that is a number becomes that number, in the precision of a double.
fn bare_number(text: &str) -> Option<Value> {
    match parse_text(text, 1)? {
        Value::Number(number) => Some(Value::Number(match number.as_f64() {
            Some(double) if 9_007_199_254_740_992.0 <= double.abs() => Number::from_f64(double)?,
            _ => number,
        })),
        _ => None,
    }
}

/// A value as text in a prompt: empty for null, text unchanged, numbers and booleans in their JSON form, objects and arrays
/// as compact JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // 1.0 and 1 are the same number and print the same.
        Value::Number(number) => match number.as_f64() {
            Some(double) if number.is_f64() && double.fract() == 0.0 && double.abs() < 1e21 => {
                format!("{double}")
            }
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
