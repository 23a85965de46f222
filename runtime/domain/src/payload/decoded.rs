//! Payloads as readers see them: with the escapes decoded in the strings of their JSON, also of JSON inside strings.
//!
//! Nothing else changes, so quotes and brackets stay where they are. A decoded text is never longer than the payload.

use std::borrow::Cow;
use std::iter;

use serde::de::IgnoredAny;

use super::Payload;
use crate::mapping::MAX_OPENINGS;

impl Payload {
    /// Whether the text as it is written passes, or a decoded one does. Only a payload with a backslash is decoded.
    pub fn any_reading(&self, mut passes: impl FnMut(&str) -> bool) -> bool {
        passes(self.as_str()) || self.decoded_readings(usize::MAX).any(|text| passes(&text))
    }

    /// The text as it is written, then decoded texts: each looks into strings in strings one level deeper than the one before,
    /// because what is the text of a string on one level is JSON on the next. Decoded texts end at `max` bytes.
    pub fn readings(&self, max: usize) -> impl Iterator<Item = Cow<'_, str>> {
        iter::once(Cow::Borrowed(self.as_str()))
            .chain(self.decoded_readings(max).map(Cow::<str>::Owned))
    }

    /// The text decoded as deeply as possible; a decoded text ends at `max` bytes.
    #[must_use]
    pub fn decoded(&self, max: usize) -> Cow<'_, str> {
        match self.max_depth(max) {
            Some(depth) => Cow::Owned(Decoder::decode(self.as_str(), depth, max).0),
            None => Cow::Borrowed(self.as_str()),
        }
    }

    fn decoded_readings(&self, max: usize) -> impl Iterator<Item = String> {
        let max_depth = self.max_depth(max);
        let mut next = max_depth.map(|_| 0);
        iter::from_fn(move || {
            let depth = next?;
            let (text, has_deeper) = Decoder::decode(self.as_str(), depth, max);
            next = (has_deeper && Some(depth) < max_depth).then_some(depth + 1);
            Some(text)
        })
    }

    /// The number of nested strings that are parsed as JSON; `None` if there is nothing to decode.
    fn max_depth(&self, max: usize) -> Option<u32> {
        match self {
            _ if !self.as_str().contains('\\') => None,
            Self::Json(_) => Some(MAX_OPENINGS),
            Self::Text(text) => is_json(text, max).then_some(MAX_OPENINGS - 1),
        }
    }
}

/// Whether a text is JSON that may have strings, judging by its first `max` bytes. Builds no tree.
fn is_json(text: &str, max: usize) -> bool {
    let head = &text[..text.floor_char_boundary(max)];
    head.trim_start().starts_with(['{', '[', '"'])
        && match serde_json::from_str::<IgnoredAny>(head) {
            Ok(_) => true,
            Err(error) => head.len() < text.len() && error.is_eof(),
        }
}

struct Decoder {
    text: String,
    max: usize,
    /// A string that is JSON was not read as JSON, because it is too deep.
    has_deeper: bool,
}

impl Decoder {
    fn decode(json: &str, depth: u32, max: usize) -> (String, bool) {
        let mut decoder = Self { text: String::new(), max, has_deeper: false };
        decoder.json(json, depth);
        let mut text = decoder.text;
        text.truncate(text.floor_char_boundary(max));
        (text, decoder.has_deeper)
    }

    /// `depth`: strings inside one another that are still read as JSON. At most [`MAX_OPENINGS`], which bounds the recursion.
    fn json(&mut self, json: &str, depth: u32) {
        let mut rest = json;
        while self.text.len() < self.max {
            let (before, string) = rest.split_at(rest.find('"').unwrap_or(rest.len()));
            self.text.push_str(before);
            if string.is_empty() {
                return;
            }
            let (string, behind) = string.split_at(behind_string(string));
            self.string(string, depth);
            rest = behind;
        }
    }

    /// A string as it is written, with its quotes.
    fn string(&mut self, written: &str, depth: u32) {
        let has_escapes = written.contains('\\');
        let Some(string) =
            has_escapes.then(|| serde_json::from_str::<String>(written).ok()).flatten()
        else {
            self.text.push_str(written);
            return;
        };
        self.text.push('"');
        let is_nested = string.contains('\\') && is_json(&string, usize::MAX);
        if is_nested && 0 < depth {
            self.json(&string, depth - 1);
        } else {
            self.has_deeper |= is_nested;
            self.text.push_str(&string);
        }
        self.text.push('"');
    }
}

/// The end of the string that starts at the first byte: after its closing quote, or at the end of the text.
fn behind_string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn readings(payload: &Payload) -> Vec<String> {
        let readings = payload.readings(usize::MAX);
        readings.map(Cow::into_owned).collect()
    }

    fn json_of(text: &str) -> Payload {
        Payload::Json(text.to_owned())
    }

    fn text_of(text: &str) -> Payload {
        Payload::Text(text.to_owned())
    }

    #[test]
    fn escapes_are_decoded_in_json_and_in_text_that_is_json_and_nowhere_else() {
        let written = r#"{"q":"\u4f60\u597d \ud83d\ude42 C:\\temp\/x","n":[1, true]}"#;
        let decoded = r#"{"q":"你好 🙂 C:\temp/x","n":[1, true]}"#;
        for payload in [json_of(written), text_of(written)] {
            assert_eq!(readings(&payload), [written, decoded]);
            assert_eq!(payload.decoded(usize::MAX), decoded);
            assert_eq!(payload.decoded(8), "{\"q\":\"");
            assert_eq!(payload.decoded(9), "{\"q\":\"你");
        }
        for written in
            [r"C:\temp \u4f60", r"[INFO] C:\temp", r#""quoted" C:\temp"#, r#"{"q":"你好"}"#, ""]
        {
            assert_eq!(readings(&text_of(written)), [written]);
        }
        // An unpaired surrogate stays escaped.
        let half = r#"["\ud83d","\n"]"#;
        assert_eq!(readings(&json_of(half)), [half, "[\"\\ud83d\",\"\n\"]"]);
    }

    #[test]
    fn json_in_strings_is_decoded_level_by_level_and_no_deeper_than_it_is_opened() {
        let inner = json!({ "quote": "say \"quokka\"" }).to_string();
        let outer = json!({ "arguments": inner });
        let expected = [
            outer.to_string(),
            format!("{{\"arguments\":\"{inner}\"}}"),
            "{\"arguments\":\"{\"quote\":\"say \"quokka\"\"}\"}".to_owned(),
        ];
        assert_eq!(readings(&Payload::from_value(outer)), expected);
        let mut deep = "[\"\\n\"]".to_owned();
        for _ in 0..8 {
            deep = json!([deep]).to_string();
        }
        assert_eq!(readings(&json_of(&deep)).len(), 5);
        assert_eq!(readings(&text_of(&deep)).len(), 4);
    }

    #[test]
    fn only_the_beginning_of_a_long_text_has_to_be_json() {
        let long = format!("{{\"q\":\"\\u4f60\",\"x\":\"{}", "x".repeat(100_000));
        assert_eq!(text_of(&long).decoded(20), "{\"q\":\"你\",\"x\":\"xxxx");
        assert_eq!(text_of(&long).decoded(usize::MAX), long);
    }

    /// A string of JSON, each character in one of the ways in which JSON may have it.
    fn escaped(text: &str, ways: &[u8]) -> String {
        let mut json = String::from("\"");
        for (n, c) in text.chars().enumerate() {
            let short = "\"\"\\\\//\u{8}b\u{c}f\nn\rr\tt";
            let pairs: Vec<char> = short.chars().collect();
            let short = pairs.chunks(2).find(|pair| pair[0] == c);
            let is_plain = !matches!(c, '"' | '\\' | '\0'..='\u{1f}');
            match (ways[n % ways.len()] % 4, short) {
                (0, _) if is_plain => json.push(c),
                (1, Some(pair)) => json.extend(['\\', pair[1]]),
                (way, _) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        json.push_str(&match way {
                            2 => format!("\\u{unit:04X}"),
                            _ => format!("\\u{unit:04x}"),
                        });
                    }
                }
            }
        }
        json.push('"');
        json
    }

    proptest! {
        #[test]
        fn each_part_of_a_text_in_json_is_found_however_it_is_escaped(
            text in any::<String>(),
            ways in prop::collection::vec(any::<u8>(), 1..20),
            nested in 0..=MAX_OPENINGS,
            (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        ) {
            let mut json = format!("{{{}: [1, {}]}}", escaped(&text, &ways), escaped(&text, &ways));
            for _ in 0..nested {
                json = format!("{{\"x\" : {}}}", escaped(&json, &ways));
            }
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let (from, to) = (ends[from.index(ends.len())], ends[to.index(ends.len())]);
            let part = &text[from.min(to)..from.max(to)];
            prop_assert!(json_of(&json).any_reading(|text| text.contains(part)), "{}", json);
            if nested < MAX_OPENINGS {
                prop_assert!(text_of(&json).any_reading(|text| text.contains(part)), "{}", json);
            }
            prop_assert_eq!(json_of(&json).any_reading(|text| text == json), true);
        }

        #[test]
        fn any_text_is_read_and_gets_no_longer(text in r#"[\[\]{}":,\\ua0f1é ]{0,60}"#, max in 0..70_usize) {
            for payload in [json_of(&text), text_of(&text)] {
                for reading in payload.readings(max).skip(1) {
                    prop_assert!(reading.len() <= max.min(text.len()));
                }
                prop_assert!(payload.decoded(usize::MAX).len() <= text.len());
            }
        }
    }
}
