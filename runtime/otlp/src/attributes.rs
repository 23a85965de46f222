//! The attributes of one span, indexed for many lookups.
//!
//! Most of about two hundred lookups find nothing, so a small filter answers them before any search.

use std::borrow::Cow;

use serde_json::Map;
use serde_json::Value as Json;

use crate::json;
use crate::model::{Pairs, Value};

/// One attribute with its position in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'s> {
    pub(crate) key: &'s str,
    pub(crate) value: &'s Value<'s>,
    order: usize,
    /// The prefix that a native attribute was sent with.
    pub(crate) prefix: &'static str,
}

/// Attributes sorted by key, the last of equal keys. Attributes with a native prefix are separate.
#[derive(Debug, Default)]
pub(crate) struct Attributes<'s> {
    plain: Vec<Entry<'s>>,
    /// Keys without `perpend.` or `langfuse.`; where both are present, the value of `perpend.`.
    native: Vec<Entry<'s>>,
    /// The filter of plain keys.
    filter: [u64; 8],
    /// The filter of native keys.
    native_filter: [u64; 8],
    /// The same for the first four bytes of keys: most prefixes are absent.
    heads: u64,
}

/// A position in the filter, from a few bytes that differ between known keys.
#[inline]
fn filter_bit(key: &str) -> (usize, u64) {
    let bytes = key.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    let len = bytes.len();
    let hash = len * 131 + byte(len.wrapping_sub(1)) * 31 + byte(len / 2) * 17;
    ((hash >> 6) & 7, 1 << (hash & 63))
}

/// A bit for the first four bytes.
fn head_bit(key: &str) -> u64 {
    let head = key.as_bytes().first_chunk::<4>().map_or(0, |head| u32::from_le_bytes(*head));
    1 << (head.wrapping_mul(0x9e37_79b1) >> 26)
}

impl<'s> Attributes<'s> {
    pub(crate) fn new(pairs: &'s Pairs<'s>) -> Self {
        let mut attributes = Self { plain: Vec::with_capacity(pairs.len()), ..Self::default() };
        for (order, (key, value)) in pairs.iter().enumerate() {
            let (list, prefix, key, order) = if let Some(suffix) = key.strip_prefix("perpend.") {
                // Sorted behind every `langfuse.` entry, so that it is the last and wins.
                let order = order + pairs.len();
                (&mut attributes.native, "perpend.", suffix, order)
            } else if let Some(suffix) = key.strip_prefix("langfuse.") {
                (&mut attributes.native, "langfuse.", suffix, order)
            } else {
                (&mut attributes.plain, "", key.as_ref(), order)
            };
            list.push(Entry { key, value, order, prefix });
        }
        for (list, filter) in [
            (&mut attributes.plain, &mut attributes.filter),
            (&mut attributes.native, &mut attributes.native_filter),
        ] {
            list.sort_unstable_by(|a, b| a.key.cmp(b.key).then(b.order.cmp(&a.order)));
            list.dedup_by(|other, kept| keeps_one(other, kept));
            for entry in list.iter() {
                let (word, bit) = filter_bit(entry.key);
                filter[word] |= bit;
            }
        }
        for entry in &attributes.plain {
            attributes.heads |= head_bit(entry.key);
        }
        attributes
    }

    /// The attribute, when it is present in the sense of the specification: not null, not empty.
    #[inline]
    pub(crate) fn get(&self, key: &str) -> Option<&'s Value<'s>> {
        let (word, bit) = filter_bit(key);
        if self.filter[word] & bit == 0 {
            return None;
        }
        find(&self.plain, key)
    }

    /// The first of these keys that is present.
    pub(crate) fn first(&self, keys: &[&str]) -> Option<&'s Value<'s>> {
        keys.iter().find_map(|key| self.get(key))
    }

    /// The attribute `perpend.SUFFIX`, else `langfuse.SUFFIX`.
    pub(crate) fn native(&self, suffix: &str) -> Option<&'s Value<'s>> {
        let (word, bit) = filter_bit(suffix);
        if self.native_filter[word] & bit == 0 {
            return None;
        }
        find(&self.native, suffix)
    }

    /// The first native attribute of these suffixes that is present.
    pub(crate) fn first_native(&self, suffixes: &[&str]) -> Option<&'s Value<'s>> {
        suffixes.iter().find_map(|suffix| self.native(suffix))
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'s str> {
        self.get(key)?.as_str()
    }

    pub(crate) fn first_text(&self, keys: &[&str]) -> Option<&'s str> {
        keys.iter().find_map(|key| self.text(key))
    }

    pub(crate) fn native_text(&self, suffix: &str) -> Option<&'s str> {
        self.native(suffix)?.as_str()
    }

    /// Whether any attribute has this prefix.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        !self.with_prefix(prefix).is_empty()
    }

    /// Attributes with this prefix, sorted by key.
    pub(crate) fn with_prefix(&self, prefix: &str) -> &[Entry<'s>] {
        if prefix.len() >= 4 && self.heads & head_bit(prefix) == 0 {
            return &[];
        }
        slice_of(&self.plain, prefix)
    }

    /// Native attributes whose suffix begins like this, sorted by key.
    pub(crate) fn native_with_prefix(&self, prefix: &str) -> &[Entry<'s>] {
        if self.native.is_empty() {
            return &[];
        }
        slice_of(&self.native, prefix)
    }

    /// All but the native attributes, sorted by key.
    pub(crate) fn plain(&self) -> &[Entry<'s>] {
        &self.plain
    }

    /// The native attributes, sorted by suffix.
    pub(crate) fn natives(&self) -> &[Entry<'s>] {
        &self.native
    }

    /// A JSON-object key: absent unless it holds an object that is not empty.
    pub(crate) fn object(&self, key: &str) -> Option<Map<String, Json>> {
        object_of(self.get(key)?)
    }
}

/// Whether two entries are one attribute. Of equal keys the last stays; of both prefixes the one that is
/// present.
fn keeps_one<'s>(other: &Entry<'s>, kept: &mut Entry<'s>) -> bool {
    if other.key != kept.key {
        return false;
    }
    if other.prefix != kept.prefix && !kept.value.is_present() {
        *kept = *other;
    }
    true
}

fn find<'s>(list: &[Entry<'s>], key: &str) -> Option<&'s Value<'s>> {
    let at = list.binary_search_by(|entry| entry.key.cmp(key)).ok()?;
    Some(list[at].value).filter(|value| value.is_present())
}

fn slice_of<'l, 's>(list: &'l [Entry<'s>], prefix: &str) -> &'l [Entry<'s>] {
    let start = list.partition_point(|entry| entry.key < prefix);
    let n_matching = list[start..].partition_point(|entry| entry.key.starts_with(prefix));
    &list[start..start + n_matching]
}

impl Entry<'_> {
    /// The order of arrival among entries of one span.
    pub(crate) const fn order(&self) -> usize {
        self.order
    }
}

/// An object, structured or as JSON text; none for anything else and for an empty one.
pub(crate) fn object_of(value: &Value<'_>) -> Option<Map<String, Json>> {
    let object = match value {
        Value::Map(members) => crate::model::to_object(members),
        Value::Text(text) => json::object(text)?,
        _ => return None,
    };
    (!object.is_empty()).then_some(object)
}

/// A value as a tree by the default rule: text that holds an object or array is parsed.
pub(crate) fn default_json(value: &Value<'_>) -> Json {
    match value {
        Value::Text(text) => json::value(text),
        other => other.to_json(),
    }
}

/// Key-value pairs as a JSON object whose values follow the default rule.
pub(crate) fn to_content(pairs: &[(Cow<'_, str>, Value<'_>)]) -> Map<String, Json> {
    pairs
        .iter()
        .filter(|(_, value)| *value != Value::Absent)
        .map(|(key, value)| (key.as_ref().to_owned(), default_json(value)))
        .collect()
}

/// A value as a tree by the JSON-any rule.
pub(crate) fn any_json(value: &Value<'_>) -> Json {
    match value {
        Value::Text(text) => json::value_any(text),
        other => other.to_json(),
    }
}

/// The text inside a JSON-any value; other kinds give their JSON.
pub(crate) fn any_text<'s>(value: &'s Value<'s>) -> Option<Cow<'s, str>> {
    let text = match value {
        Value::Text(text) if text.trim_start().starts_with('"') => match json::parse(text) {
            Some(json::Node::Text(inner)) => inner,
            _ => Cow::Borrowed(text.as_ref()),
        },
        Value::Text(text) | Value::Plain(text) => Cow::Borrowed(text.as_ref()),
        Value::Absent => return None,
        other => Cow::Owned(other.to_json().to_string()),
    };
    (!text.is_empty()).then_some(text)
}

/// True, or the text `true`.
pub(crate) fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Text(text) => text.trim().eq_ignore_ascii_case("true"),
        _ => false,
    }
}

/// A finite number that is not negative, as number or decimal text.
pub(crate) fn amount(value: &Value<'_>) -> Option<f64> {
    let number = match value {
        Value::Int(value) => *value as f64,
        Value::Double(value) => *value,
        Value::Text(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// [`amount`] for a JSON value.
pub(crate) fn json_amount(value: &Json) -> Option<f64> {
    let number = match value {
        Json::Number(number) => number.as_f64()?,
        Json::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_equal_keys_and_the_perpend_prefix_win_where_it_is_present() {
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        let pairs: Pairs<'_> = [
            ("perpend.version", text("ours")),
            ("langfuse.version", text("theirs")),
            ("dup", text("first")),
            ("dup", text("last")),
            ("perpend.release", text("")),
            ("langfuse.release", text("old")),
            ("langfuse.release", text("theirs")),
            ("langfuse.tags", text("old")),
            ("langfuse.tags", text("")),
            ("zero", Value::Int(0)),
            ("empty", text("")),
        ]
        .into_iter()
        .map(|(key, value)| (Cow::Borrowed(key), value))
        .collect();
        let attributes = Attributes::new(&pairs);
        assert_eq!(attributes.native_text("version"), Some("ours"));
        assert_eq!(attributes.native_text("release"), Some("theirs"));
        assert_eq!(attributes.native_text("tags"), None);
        assert_eq!(attributes.text("dup"), Some("last"));
        assert!(attributes.get("zero").is_some());
        assert!(attributes.get("empty").is_none());
        assert_eq!(amount(&text("0.25")), Some(0.25));
        assert_eq!(amount(&Value::Int(-1)), None);
    }
}
