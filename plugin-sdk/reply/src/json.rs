//! Finds the end of a JSON object or array. The grammar is RFC 8259; values are not decoded.

/// Maximum nesting of objects and arrays.
pub const MAX_DEPTH: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The length in bytes.
    Complete(usize),
    /// The text ends before the value does.
    Cut,
    /// The text does not start with an object or array.
    None,
}

/// The next token that the grammar allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    /// A value, or the end of an empty array.
    FirstEntry,
    /// A key, or the end of an empty object.
    FirstKey,
    Key,
    Colon,
    CommaOrEnd,
}

/// The extent of the object or array at the start of the text.
pub(crate) fn extent(text: &str) -> Extent {
    let bytes = text.as_bytes();
    let mut open: Vec<u8> = Vec::new();
    let mut next = Next::Value;
    let mut at = 0;
    loop {
        let Some(byte) = bytes.get(at).copied() else {
            return Extent::Cut;
        };
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        match (next, byte) {
            (Next::Value | Next::FirstEntry, b'{' | b'[') => {
                if open.len() == MAX_DEPTH {
                    return Extent::None;
                }
                open.push(byte);
                next = match byte {
                    b'{' => Next::FirstKey,
                    _ => Next::FirstEntry,
                };
                at += 1;
            }
            (Next::FirstEntry | Next::CommaOrEnd, b']') if open.last() == Some(&b'[') => {
                open.pop();
                at += 1;
                next = Next::CommaOrEnd;
            }
            (Next::FirstKey | Next::CommaOrEnd, b'}') if open.last() == Some(&b'{') => {
                open.pop();
                at += 1;
                next = Next::CommaOrEnd;
            }
            (Next::CommaOrEnd, b',') => {
                next = match open.last() {
                    Some(b'{') => Next::Key,
                    _ => Next::Value,
                };
                at += 1;
            }
            (Next::Colon, b':') => {
                next = Next::Value;
                at += 1;
            }
            (Next::FirstKey | Next::Key | Next::Value | Next::FirstEntry, b'"') => {
                match string(&bytes[at..]) {
                    Extent::Complete(n_bytes) => at += n_bytes,
                    other => return other,
                }
                next = match next {
                    Next::FirstKey | Next::Key => Next::Colon,
                    _ => Next::CommaOrEnd,
                };
            }
            (Next::Value | Next::FirstEntry, _) => {
                match scalar(&bytes[at..]) {
                    Extent::Complete(n_bytes) => at += n_bytes,
                    other => return other,
                }
                next = Next::CommaOrEnd;
            }
            _ => return Extent::None,
        }
        if open.is_empty() {
            return Extent::Complete(at);
        }
    }
}

fn string(bytes: &[u8]) -> Extent {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Extent::Complete(at + 1),
            b'\\' => match bytes.get(at + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u') => at += 2,
                Some(_) => return Extent::None,
                None => return Extent::Cut,
            },
            0..0x20 => return Extent::None,
            _ => at += 1,
        }
    }
    Extent::Cut
}

fn scalar(bytes: &[u8]) -> Extent {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let end = bytes.iter().position(|byte| !is_part(byte));
    let word = &bytes[..end.unwrap_or(bytes.len())];
    let names: [&[u8]; 3] = [b"true", b"false", b"null"];
    let is_number = |word: &[u8]| match word {
        [b'-', digit, ..] | [digit, ..] if digit.is_ascii_digit() => {
            word.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
        }
        _ => false,
    };
    let is_whole = names.contains(&word) || is_number(word);
    match end {
        Some(n_bytes) if is_whole => Extent::Complete(n_bytes),
        Some(_) => Extent::None,
        None if is_whole || word == b"-" || names.iter().any(|name| name.starts_with(word)) => {
            Extent::Cut
        }
        None => Extent::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_where_its_brackets_close() {
        for whole in [
            "{}",
            "[]",
            r#"{"a": "}{", "b": {"c": "\""}, "d": [1, -2.5e3, true, null]}"#,
            r#"[[], {"a": {}}]"#,
        ] {
            assert_eq!(extent(whole), Extent::Complete(whole.len()), "{whole}");
            let more = format!("{whole}] }} more");
            assert_eq!(extent(&more), Extent::Complete(whole.len()), "{whole}");
            for end in 1..whole.len() {
                assert_eq!(extent(&whole[..end]), Extent::Cut, "{}", &whole[..end]);
            }
        }
    }

    #[test]
    fn invalid_json_in_brackets_is_not_a_value() {
        for text in [
            "{a: 1}",
            "{'a': 1}",
            "{{a}}",
            "[a]",
            r#"{"a": NaN}"#,
            r#"{"a": 1,}"#,
            "{\"a\nb\": 1}",
            "{\"a\" 1}",
            "[1 2]",
            "[,]",
        ] {
            assert_eq!(extent(text), Extent::None, "{text}");
        }
        let deep = "[".repeat(MAX_DEPTH + 1);
        assert_eq!(extent(&deep), Extent::None);
    }
}
