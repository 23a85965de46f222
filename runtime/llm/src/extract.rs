//! Finds the JSON in a reply: the whole text, the content of a code fence, or the first object. Values stay unchanged.

use serde_json::Value;

/// Braces at which an object may begin, at most: each costs a look at the rest of the text.
const MAX_BEGINNINGS: usize = 32;

/// Texts of a reply that are JSON, best first, without repetitions.
pub(crate) fn candidates(text: &str) -> Vec<&str> {
    let text = text.trim();
    let tries = [Some(text), unfenced(text), first_object(text)];
    let mut found: Vec<&str> = Vec::new();
    for candidate in tries.into_iter().flatten() {
        if !found.contains(&candidate) && is_json(candidate) {
            found.push(candidate);
        }
    }
    found
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

/// The content of the first code fence.
fn unfenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (_info, body) = after.split_once('\n')?;
    let body = body.split_once("```").map_or(body, |(body, _)| body);
    Some(body.trim())
}

/// The first balanced object that is JSON.
fn first_object(text: &str) -> Option<&str> {
    let mut from = 0;
    for _ in 0..MAX_BEGINNINGS {
        let begin = from + text.get(from..)?.find('{')?;
        let rest = &text[begin..];
        match balanced(rest) {
            Some(object) if is_json(object) => return Some(object),
            Some(object) => from = begin + object.len(),
            None => from = begin + 1,
        }
    }
    None
}

/// An object from its first brace to the one that closes it; braces in strings do not count.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => depth += 1,
            b'}' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[..=at]);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn json_is_found_whatever_is_around_it() {
        let object = r#"{"a": "}{", "b": {"c": "\""}}"#;
        for text in [
            object.to_owned(),
            format!("\n {object} \n"),
            format!("```json\n{object}\n```"),
            format!("Here it is:\n```\n{object}\n```\nAnything else?"),
            format!("```json\n{object}"),
            format!("Sure! {object} Done."),
            format!("{{not json}} {object} {{}}"),
            format!("{{ {object}"),
        ] {
            assert_eq!(candidates(&text).first(), Some(&object), "{text}");
        }
    }

    #[test]
    fn a_text_without_an_object_has_none_and_a_bare_value_is_json() {
        assert!(candidates("The score is 5.").is_empty());
        assert!(candidates("").is_empty());
        assert!(candidates("{\"a\": 1").is_empty());
        assert_eq!(candidates(" 5 "), ["5"]);
    }

    #[test]
    fn many_open_braces_end_soon() {
        assert!(candidates(&"{".repeat(1 << 20)).is_empty());
    }

    proptest! {
        #[test]
        fn any_text_gives_only_json(text in "[{}\"\\\\a:1,`\n é]{0,60}") {
            for candidate in candidates(&text) {
                prop_assert!(serde_json::from_str::<Value>(candidate).is_ok());
            }
        }
    }
}
