//! Scans JSON text without parsing it into a tree: finds the ends of values and counts members.
//!
//! Accepts any text; results are only meaningful for valid JSON. Not recursive, constant memory, reads each byte once.

/// The position of a value in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
    /// Number of members or elements; 0 for scalars.
    pub n: usize,
}

/// The extent of the value at `at`. Skips white space before the value.
#[must_use]
pub fn extent(text: &str, at: usize) -> Extent {
    let bytes = text.as_bytes();
    let start = skip_spaces(bytes, at);
    let (end, n) = match bytes.get(start) {
        Some(b'{' | b'[') => brackets_end(bytes, start),
        Some(b'"') => (string_end(bytes, start), 0),
        Some(_) => (word_end(bytes, start), 0),
        None => (start, 0),
    };
    Extent { start, end, n }
}

/// The offset of the first byte from `at` on that is not white space.
#[must_use]
pub fn skip_spaces(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

/// The offset after a string that starts at `start`.
#[must_use]
pub fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The offset after a number, a literal, or other text; at least one byte.
fn word_end(bytes: &[u8], start: usize) -> usize {
    let ends = |byte: &u8| b" \n\r\t,:{}[]\"".contains(byte);
    let word = bytes[start + 1..].iter().take_while(|byte| !ends(byte));
    match ends(&bytes[start]) {
        true => start + 1,
        false => start + 1 + word.count(),
    }
}

fn brackets_end(bytes: &[u8], start: usize) -> (usize, usize) {
    let (mut at, mut depth) = (start, 0_usize);
    let (mut n_commas, mut has_any) = (0, false);
    while let Some(byte) = bytes.get(at) {
        has_any |= depth == 1 && !b" \n\r\t,}]".contains(byte);
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    at += 1;
                    break;
                }
            }
            b',' if depth == 1 => n_commas += 1,
            _ => {}
        }
        at += 1;
    }
    (at, n_commas + usize::from(has_any))
}

/// Iterates over the members of an object or array. Scans the value of a member only when the next member is requested.
#[derive(Debug)]
pub struct Members<'t> {
    text: &'t str,
    at: usize,
    is_object: bool,
    /// Start of the previous value.
    last: Option<usize>,
}

impl<'t> Members<'t> {
    /// The members of the value whose opening bracket is at `start`.
    #[must_use]
    pub fn of(text: &'t str, start: usize) -> Self {
        Self {
            text,
            at: start + 1,
            is_object: text.as_bytes().get(start) == Some(&b'{'),
            last: None,
        }
    }
}

impl<'t> Iterator for Members<'t> {
    /// The JSON text of the name (empty in an array), and the offset of the value.
    type Item = (&'t str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(last) = self.last.take() {
            self.at = extent(self.text, last).end;
        }
        let bytes = self.text.as_bytes();
        self.at = skip_spaces(bytes, self.at);
        if bytes.get(self.at) == Some(&b',') {
            self.at = skip_spaces(bytes, self.at + 1);
        }
        let mut name = "";
        if self.is_object {
            if bytes.get(self.at) != Some(&b'"') {
                return None;
            }
            let end = string_end(bytes, self.at);
            name = self.text.get(self.at..end)?;
            self.at = skip_spaces(bytes, end);
            if bytes.get(self.at) == Some(&b':') {
                self.at = skip_spaces(bytes, self.at + 1);
            }
        }
        if matches!(bytes.get(self.at), None | Some(b']' | b'}')) {
            return None;
        }
        self.last = Some(self.at);
        Some((name, self.at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn extents_and_member_counts() {
        for (text, value, n) in [
            (r#"{"a":[1,2],"b":"}\""} x"#, r#"{"a":[1,2],"b":"}\""}"#, 2),
            (" [ ] ,", "[ ]", 0),
            ("[1]", "[1]", 1),
            (r#""a\\" ,"#, r#""a\\""#, 0),
            ("-1.5e3,2", "-1.5e3", 0),
            ("true}", "true", 0),
        ] {
            let found = extent(text, 0);
            assert_eq!((&text[found.start..found.end], found.n), (value, n));
        }
    }

    #[test]
    fn ten_million_brackets_are_scanned() {
        let deep = "[".repeat(10_000_000);
        assert_eq!(extent(&deep, 0).end, deep.len());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_accepted(text in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let found = extent(&text, 0);
            proptest::prop_assert!(text.get(found.start..found.end).is_some());
            let n = Members::of(&text, found.start).take(100).count();
            proptest::prop_assert!(n < 100);
        }

        #[test]
        fn member_count_matches_the_parsed_value(text in r#"[\[\]{}":,\\a1é ]{0,12}"#) {
            let Ok(value) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
            let n = match &value {
                Value::Array(items) => items.len(),
                Value::Object(members) if text.matches(':').count() == members.len() => members.len(),
                _ => return Ok(()),
            };
            let found = extent(&text, 0);
            proptest::prop_assert_eq!(found.n, n);
            proptest::prop_assert_eq!(Members::of(&text, found.start).count(), n);
        }
    }
}
