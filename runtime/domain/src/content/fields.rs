//! The members of a JSON object, with a record of the ones that were rendered: the rest is shown as JSON, so that nothing
//! recorded is hidden.

use serde_json::{Map, Value};

use crate::content::members::is_empty;

/// The members of an object, and which of them were rendered.
pub struct Fields<'v> {
    object: &'v Map<String, Value>,
    used: Vec<&'v str>,
}

impl<'v> Fields<'v> {
    /// All members are unused at first.
    pub fn of(object: &'v Map<String, Value>) -> Self {
        Self { object, used: Vec::new() }
    }

    /// The object.
    #[must_use]
    pub fn all(&self) -> &'v Map<String, Value> {
        self.object
    }

    /// The first of these members for which `read` returns a value.
    pub fn take<T>(&mut self, keys: &[&str], read: impl Fn(&'v Value) -> Option<T>) -> Option<T> {
        let found = keys.iter().find_map(|key| {
            let (key, value) = self.object.get_key_value(*key)?;
            let is_free = !self.used.contains(&key.as_str());
            Some((key.as_str(), read(value).filter(|_| is_free)?))
        });
        let (key, value) = found?;
        self.used.push(key);
        Some(value)
    }

    /// The first of these members that is text and not empty.
    pub fn text(&mut self, keys: &[&str]) -> Option<&'v str> {
        self.take(keys, |value| value.as_str().filter(|text| !text.is_empty()))
    }

    /// The first of these members that is an object.
    pub fn object(&mut self, keys: &[&str]) -> Option<&'v Map<String, Value>> {
        self.take(keys, Value::as_object)
    }

    /// The first of these members that is not empty.
    pub fn any(&mut self, keys: &[&str]) -> Option<&'v Value> {
        self.take(keys, |value| (!is_empty(value)).then_some(value))
    }

    /// Whether the member has one of these values; it is marked as used then.
    pub fn is_one_of(&mut self, key: &str, words: &[&str]) -> bool {
        let word = |value: &'v Value| value.as_str().filter(|word| words.contains(word));
        self.take(&[key], word).is_some()
    }

    /// Short members of these names, with their names.
    pub fn facts(&mut self, keys: &[&'static str]) -> Vec<(&'static str, String)> {
        let facts = keys.iter().filter_map(|key| {
            let fact = self.take(&[*key], short)?;
            Some((*key, fact))
        });
        facts.collect()
    }

    /// The unused members that are not empty.
    pub fn rest(self) -> Map<String, Value> {
        let rest = self.object.iter().filter(|(key, value)| {
            let is_shown = self.used.contains(&key.as_str());
            !is_shown && !is_empty(value)
        });
        rest.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// A scalar of at most 80 bytes as text.
pub fn short(value: &Value) -> Option<String> {
    const MAX_BYTES: usize = 80;
    match value {
        Value::String(text) if text.is_empty() || MAX_BYTES < text.len() => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        _ => None,
    }
}
