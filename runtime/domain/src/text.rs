//! Repairs received text: invalid UTF-8, U+0000, lone surrogates.
//!
//! A wrongly cut text must not lose the rest of a request, and PostgreSQL does not store U+0000 in text. It is removed from
//! payloads and replaced by U+FFFD in names and ids, so that distinct ids stay distinct. All readers of external text use
//! these functions.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Text of a payload from bytes: U+FFFD for invalid UTF-8, without U+0000.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    without_nul(String::from_utf8_lossy(bytes))
}

/// Text of a payload without U+0000.
#[must_use]
pub fn without_nul(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) { Cow::Owned(text.replace('\0', "")) } else { text }
}

/// Text with U+FFFD in place of U+0000, which both databases keep.
#[must_use]
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// As [`storable`], for every text and name in a JSON value.
#[must_use]
pub fn storable_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text).into_owned()),
        Value::Array(list) => list.iter().map(storable_value).collect(),
        Value::Object(members) => Value::Object(storable_members(members)),
        other => other.clone(),
    }
}

/// As [`storable_value`], for an object.
#[must_use]
pub fn storable_members(members: &Map<String, Value>) -> Map<String, Value> {
    let member =
        |(key, value): (&String, &Value)| (storable(key).into_owned(), storable_value(value));
    members.iter().map(member).collect()
}

/// The character of one UTF-16 unit or of a surrogate pair. `None` for a lone surrogate.
#[must_use]
pub fn of_units(first: u16, second: Option<u16>) -> Option<char> {
    let units = std::iter::once(first).chain(second);
    char::decode_utf16(units).next()?.ok()
}

/// The JSON with U+FFFD in place of each lone surrogate, which clients send that cut texts by UTF-16 units.
#[must_use]
pub fn whole_characters(json: &[u8]) -> Cow<'_, [u8]> {
    let mut mended = Cow::Borrowed(json);
    let is_likely = |text: &str| text.contains("\\ud") || text.contains("\\uD");
    if !str::from_utf8(json).is_ok_and(is_likely) {
        return mended;
    }
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        at += match (half(json, at), half(json, at + ESCAPE)) {
            (Some(Half::First), Some(Half::Second)) => 2 * ESCAPE,
            (Some(_), _) => {
                mended.to_mut()[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                ESCAPE
            }
            (None, _) => 2,
        };
    }
    mended
}

/// Bytes of an escape such as `\ud83d`.
const ESCAPE: usize = 6;

/// A lone surrogate.
enum Half {
    First,
    Second,
}

fn half(json: &[u8], at: usize) -> Option<Half> {
    let escape = json.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    let unit = u16::from_str_radix(str::from_utf8(escape).ok()?, 16).ok()?;
    match unit {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_characters_are_replaced_and_whole_ones_stay() {
        let mended =
            |json: &str| String::from_utf8(whole_characters(json.as_bytes()).into()).unwrap();
        assert_eq!(
            mended(r#"["\ud83d","\uDE00\ud83d\ude00","\ud83d\u0041","\\ud83d\n"]"#),
            r#"["\ufffd","\ufffd\ud83d\ude00","\ufffd\u0041","\\ud83d\n"]"#
        );
        for cut in [r#"["\"#, r#"["\ud8"#, r#"["\ud83d\u"#, ""] {
            mended(cut);
        }
    }

    #[test]
    fn payloads_lose_nul_and_what_is_stored_by_name_shows_it() {
        assert_eq!(of_bytes(b"a\0b\xffc"), "ab\u{fffd}c");
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
        let value = serde_json::json!({ "k\0": ["\0", 1, { "n": "x\0" }] });
        let stored = serde_json::json!({ "k\u{fffd}": ["\u{fffd}", 1, { "n": "x\u{fffd}" }] });
        assert_eq!(storable_value(&value), stored);
    }

    #[test]
    fn two_units_are_one_character_and_half_a_one_is_none() {
        assert_eq!(of_units(0xd83d, Some(0xde00)), Some('\u{1f600}'));
        assert_eq!(of_units(0xd83d, Some(0x41)), None);
        assert_eq!(of_units(0xde00, None), None);
        assert_eq!(of_units(0x41, None), Some('A'));
    }
}
