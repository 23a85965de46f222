//! Estimates of memory, for limits.

use serde_json::{Map, Value};

/// Bytes of a value.
#[must_use]
pub fn of_value(value: &Value) -> usize {
    let own = size_of::<Value>();
    own + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(members) => of_members(members),
        _ => 0,
    }
}

/// Bytes of the members of an object.
#[must_use]
pub fn of_members(members: &Map<String, Value>) -> usize {
    // Name, hash, place in the table, and half as much again for growth.
    const ENTRY: usize = 96;
    let each = members.iter();
    each.map(|(key, value)| ENTRY + key.len() + of_value(value)).sum()
}
