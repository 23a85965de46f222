//! Case folding and trimming of words.

use std::borrow::Cow;

/// Full case folding, so that `STRASSE` equals `straße`.
///
/// The standard library has no case folding, but lower case of upper case of lower case is the same for
/// every character except the dotless i, which folds to itself. (The standard folds Cherokee letters
/// to upper case; here both sides become lower case, which is equivalent for comparisons.)
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        let has_upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return if has_upper { Cow::Owned(text.to_ascii_lowercase()) } else { Cow::Borrowed(text) };
    }
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        if character == 'ı' {
            folded.push(character);
            continue;
        }
        let lower = character.to_lowercase();
        folded.extend(lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    }
    Cow::Owned(folded)
}

/// The folded text, or the unchanged text.
pub(crate) fn folded_if(ignore_case: bool, text: &str) -> Cow<'_, str> {
    if ignore_case { fold(text) } else { Cow::Borrowed(text) }
}

/// The text without white space and ASCII punctuation at both ends.
pub(crate) fn trim_punctuation(text: &str) -> &str {
    text.trim_matches(|character: char| {
        character.is_whitespace() || character.is_ascii_punctuation()
    })
}

/// The number in a text of digits with optional sign, fraction and exponent; `None` for `inf`, `nan` and surrounding text.
pub(crate) fn finite_number(text: &str) -> Option<f64> {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let is_plain =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    if !has_digit || !is_plain {
        return None;
    }
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_is_full_case_folding() {
        for (text, same_as) in [
            ("straße", "STRASSE"),
            ("ẞ", "ss"),
            ("ﬁn", "FIN"),
            ("ΣΑΣ", "σας"),
            ("İ", "i̇"),
            ("µ", "μ"),
        ] {
            assert_eq!(fold(text), fold(same_as), "{text}");
        }
        assert_ne!(fold("ı"), fold("i"));
    }
}
