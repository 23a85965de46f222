//! JSON text, read without making a tree of it: where its values end, and how many members they have.
//!
//! Total: any text gives an answer, which is right for JSON. Nothing here recurses, takes memory or looks at a byte twice.

/// A value in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte.
    pub start: usize,
    /// The byte behind it.
    pub end: usize,
    /// Members of an object, elements of an array.
    pub n: usize,
}

/// Where the value at this place, or behind spaces there, begins and ends.
#[must_use]
pub fn extent(text: &str, at: usize) -> Extent {
    let bytes = text.as_bytes();
    let start = behind_spaces(bytes, at);
    let (end, n) = match bytes.get(start) {
        Some(b'{' | b'[') => behind_brackets(bytes, start),
        Some(b'"') => (behind_string(bytes, start), 0),
        Some(_) => (behind_word(bytes, start), 0),
        None => (start, 0),
    };
    Extent { start, end, n }
}

/// The first byte from this place on that is no space.
#[must_use]
pub fn behind_spaces(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).count()
}

/// The byte behind a string whose opening quote is here.
#[must_use]
pub fn behind_string(bytes: &[u8], start: usize) -> usize {
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

/// A number, a literal, or whatever else stands here; at least one byte.
fn behind_word(bytes: &[u8], start: usize) -> usize {
    let ends = |byte: &u8| b" \n\r\t,:{}[]\"".contains(byte);
    let word = bytes[start + 1..].iter().take_while(|byte| !ends(byte));
    match ends(&bytes[start]) {
        true => start + 1,
        false => start + 1 + word.count(),
    }
}

fn behind_brackets(bytes: &[u8], start: usize) -> (usize, usize) {
    let (mut at, mut depth) = (start, 0_usize);
    let (mut n_commas, mut has_any) = (0, false);
    while let Some(byte) = bytes.get(at) {
        has_any |= depth == 1 && !b" \n\r\t,}]".contains(byte);
        match byte {
            b'"' => {
                at = behind_string(bytes, at);
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

/// The members of the object or array that begins at a place, one after the other. What a member holds is looked at
/// only when the next one is asked for.
#[derive(Debug)]
pub struct Members<'t> {
    text: &'t str,
    at: usize,
    is_object: bool,
    /// The value that was given last.
    last: Option<usize>,
}

impl<'t> Members<'t> {
    /// Of the value whose opening bracket is here.
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
    /// The name as it is written, with its quotes and empty in an array, and where the value begins.
    type Item = (&'t str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(last) = self.last.take() {
            self.at = extent(self.text, last).end;
        }
        let bytes = self.text.as_bytes();
        self.at = behind_spaces(bytes, self.at);
        if bytes.get(self.at) == Some(&b',') {
            self.at = behind_spaces(bytes, self.at + 1);
        }
        let mut name = "";
        if self.is_object {
            if bytes.get(self.at) != Some(&b'"') {
                return None;
            }
            let end = behind_string(bytes, self.at);
            name = self.text.get(self.at..end)?;
            self.at = behind_spaces(bytes, end);
            if bytes.get(self.at) == Some(&b':') {
                self.at = behind_spaces(bytes, self.at + 1);
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
    fn values_end_where_they_end_and_members_are_counted() {
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
    fn ten_million_brackets_do_not_hurt() {
        let deep = "[".repeat(10_000_000);
        assert_eq!(extent(&deep, 0).end, deep.len());
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_an_answer(text in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let found = extent(&text, 0);
            proptest::prop_assert!(text.get(found.start..found.end).is_some());
            let n = Members::of(&text, found.start).take(100).count();
            proptest::prop_assert!(n < 100);
        }

        #[test]
        fn members_are_those_of_the_value(text in r#"[\[\]{}":,\\a1é ]{0,12}"#) {
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
