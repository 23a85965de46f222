//! The chunks of a streamed answer, joined to the message that they make.

use serde_json::{Map, Value};

use crate::content::members::{is_empty, merge};

/// Members whose texts are concatenated over chunks.
const SPOKEN: [&str; 7] =
    ["content", "arguments", "reasoning_content", "reasoning", "refusal", "text", "thinking"];
/// Maximum number of list elements searched for the one that a chunk continues.
const MAX_NUMBERED: usize = 64;

/// Merges a list that has only chunks into one message.
pub(crate) fn join_chunks(items: &mut Vec<Value>) {
    let has_delta = |item: &Value| {
        let mut choices = choices(item).into_iter().flatten();
        choices.any(|choice| choice.get("delta").is_some_and(Value::is_object))
    };
    if !items.iter().all(is_chunk) || !items.iter().any(has_delta) {
        return;
    }
    let mut all = std::mem::take(items).into_iter();
    let Some(mut joined) = all.next() else { return };
    let mut others = Map::new();
    for chunk in all {
        join(&mut joined, chunk, "", &mut others);
    }
    let choices = joined.get_mut("choices").and_then(Value::as_array_mut);
    for choice in choices.into_iter().flatten() {
        if let Some(Value::Object(delta)) = choice.get_mut("delta") {
            let role = delta.entry("role").or_insert(Value::Null);
            if role.is_null() {
                *role = "assistant".into();
            }
        }
    }
    if let Value::Object(joined) = &mut joined {
        merge(joined, others);
    }
    items.push(joined);
}

fn choices(item: &Value) -> Option<&Vec<Value>> {
    item.get("choices")?.as_array()
}

/// The last chunk may count tokens and have no choice.
fn is_chunk(item: &Value) -> bool {
    let is_part = |choice: &Value| choice.is_object() && choice.get("message").is_none();
    choices(item).is_some_and(|choices| choices.iter().all(is_part))
}

/// Merges a later chunk. Further values of a member with differing values are added to `others`.
fn join(into: &mut Value, from: Value, key: &str, others: &mut Map<String, Value>) {
    match (&mut *into, from) {
        (_, from) if is_empty(&from) => {}
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(own) => join(own, value, &key, others),
                    None => {
                        into.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => {
            for item in from {
                let near = into.iter().take(MAX_NUMBERED);
                let is_same = |own: &Value| own.get("index") == item.get("index");
                let at = near.enumerate().find(|(_, own)| is_same(own));
                match at.map(|(at, _)| at).filter(|_| item.get("index").is_some()) {
                    Some(at) => join(&mut into[at], item, key, others),
                    None => into.push(item),
                }
            }
        }
        (Value::String(into), Value::String(from)) if SPOKEN.contains(&key) => into.push_str(&from),
        (own, from) if is_empty(own) => *own = from,
        (own, from) if *own == from => {}
        (_, from) => {
            let list = others.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(from);
            }
        }
    }
}
