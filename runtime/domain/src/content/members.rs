//! The members of JSON objects.

use serde_json::{Map, Value};

/// Longest text that is parsed as JSON inside JSON.
const MAX_TWICE_BYTES: usize = 500_000;

/// Most values of a JSON text that is parsed: each takes about 100 bytes of memory.
pub(crate) const MAX_VALUES: usize = 300_000;

/// Whether a value is null, empty, or an object whose members are all empty.
#[must_use]
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The object or list that a text contains as JSON, or as a JSON string of JSON.
#[must_use]
pub fn parsed(text: &str) -> Option<Value> {
    let start = text.trim_start();
    if start.starts_with('"') && text.len() <= MAX_TWICE_BYTES {
        return structure(&serde_json::from_str::<String>(start).ok()?);
    }
    structure(start)
}

fn structure(text: &str) -> Option<Value> {
    let start = text.trim_start();
    start.starts_with(['{', '[']).then(|| serde_json::from_str(start).ok()).flatten()
}

/// Adds members; `'` is appended to a name that exists.
pub fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (mut name, value) in from {
        while into.contains_key(&name) {
            name.push('\'');
        }
        into.insert(name, value);
    }
}

/// Renames members and keeps their order.
pub(crate) fn rename(members: &mut Map<String, Value>, names: &[(&str, &str)]) {
    for (name, value) in std::mem::take(members) {
        let new = names.iter().find(|(old, _)| *old == name);
        let name = new.map_or(name, |(_, new)| (*new).to_owned());
        merge(members, Map::from_iter([(name, value)]));
    }
}

/// The text of a member; empty if it is not a text.
pub(crate) fn text<'v>(members: &'v Map<String, Value>, name: &str) -> &'v str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The first `max` bytes of a text, up to a character boundary.
#[must_use]
pub fn beginning(raw: &str, max: usize) -> &str {
    let mut end = max.min(raw.len());
    while !raw.is_char_boundary(end) {
        end -= 1;
    }
    &raw[..end]
}

/// An upper bound of the number of values in a JSON text.
pub(crate) fn n_values(json: &str) -> usize {
    let begins = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    json.bytes().filter(begins).count() + 1
}
