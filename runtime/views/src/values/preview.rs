//! The beginning of a value, or its first match, on one line of a list.

use perpend_domain::payload::Payload;
use perpend_domain::text_search::{Excerpt, first};

use crate::Text;
use crate::trace::match_excerpt::MatchExcerpt;

/// Length in bytes after which a beginning is truncated at the next word boundary.
const BEGINNING: usize = 200;
/// Maximum number of characters before a match, so that the match stays visible.
const BEFORE: usize = 24;
/// Length in bytes of the searched part of a value.
const SEARCHED: usize = 8 * 1024;
/// Length in bytes of the decoded part of a payload: includes the context of a match at the end of the searched part.
const DECODED: usize = SEARCHED + 512;
/// Maximum length in bytes of a conversation that is parsed for a preview.
const READ: usize = 64 * 1024;
/// Maximum number of search terms.
const MAX_TERMS: usize = 5;

/// The beginning of a value, or the context of a match.
#[derive(Clone, Debug)]
pub struct Preview {
    pub(crate) before: Text,
    pub(crate) found: Text,
    pub(crate) behind: Text,
}

impl Preview {
    /// The context of the first text of `terms` that the value contains, or the beginning of the value. `None` for an empty
    /// value.
    #[must_use]
    pub fn of(value: &str, terms: &[&str]) -> Option<Self> {
        let Some((from, to)) = first_match(value, terms) else {
            let before = first_words(value);
            return (!before.is_empty()).then(|| Self {
                before: Text::lines(before),
                found: Text::default(),
                behind: Text::default(),
            });
        };
        let around = MatchExcerpt::from(Excerpt::of(value, (from, to)));
        let before = around.before.raw();
        let start = before.char_indices().rev().nth(BEFORE - 1);
        let start = start.map_or(0, |(at, _)| at);
        let is_cut = 0 < start || before.len() < from;
        let lead = if is_cut { "…" } else { "" };
        Some(Self {
            before: Text::lines(format!("{lead}{}", before.get(start..).unwrap_or_default())),
            found: around.found,
            behind: around.behind,
        })
    }

    /// Like [`Self::of`], with JSON strings decoded as long as one of the texts still matches.
    #[must_use]
    pub fn of_payload(value: &Payload, terms: &[&str]) -> Option<Self> {
        let found =
            value.readings(DECODED).filter(|text| first_match(text, terms).is_some()).last();
        let shown = found.unwrap_or_else(|| value.decoded(DECODED));
        Self::of(&shown, terms)
    }

    pub(crate) fn is_found(&self) -> bool {
        !self.found.is_empty()
    }
}

/// Position of the first text of `terms` that the value contains.
fn first_match(value: &str, terms: &[&str]) -> Option<(usize, usize)> {
    let searched = value.get(..value.floor_char_boundary(SEARCHED));
    let mut terms = terms.iter().take(MAX_TERMS);
    terms.find_map(|text| first(searched.unwrap_or(value), text))
}

/// The beginning of a payload with JSON strings decoded and white space collapsed. For a short conversation, the beginning of
/// the last message.
#[must_use]
pub fn beginning(value: &Payload) -> String {
    let raw = Some(value.as_str()).filter(|raw| raw.len() <= READ);
    let last_message = raw.and_then(perpend_domain::content::last_message_text);
    first_words(&last_message.map_or_else(|| value.decoded(DECODED), Into::into))
}

fn first_words(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.extend(word.chars().take(BEGINNING));
        if BEGINNING < words.len() {
            words.push('…');
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(value: &str, terms: &[&str]) -> Option<[String; 3]> {
        let preview = Preview::of(value, terms)?;
        Some([preview.before, preview.found, preview.behind].map(|part| part.raw().to_owned()))
    }

    fn parts(parts: [&str; 3]) -> Option<[String; 3]> {
        Some(parts.map(str::to_owned))
    }

    #[test]
    fn preview_starts_with_the_value_or_shortly_before_the_match() {
        let none: &[&str] = &[];
        assert_eq!(preview(" \n ", none), None);
        assert_eq!(preview("Where  is\nit?", none), parts(["Where is it?", "", ""]));
        assert_eq!(preview("Where is it?", &["refund"]), parts(["Where is it?", "", ""]));
        let long = format!("{} Your REFUND is on its way.", "word ".repeat(30));
        let found = preview(&long, &["nothing", "your refund"]);
        assert_eq!(found, parts(["…rd word word word word  ", "Your REFUND", " is on its way."]));
        assert_eq!(preview("A refund", &["refund"]), parts(["A ", "refund", ""]));
    }

    #[test]
    fn preview_decodes_json_strings_and_matches_escaped_text_too() {
        let escaped = r#"{"q":"\u4f60\u597d \u00c4pfel","args":"{\"a\":\"\\n\"}"}"#;
        let preview = |value: Payload, terms: &[&str]| {
            let preview = Preview::of_payload(&value, terms)?;
            Some([preview.before, preview.found, preview.behind].map(|part| part.raw().to_owned()))
        };
        for payload in [Payload::Json, Payload::Text] {
            let preview = |terms: &[&str]| preview(payload(escaped.to_owned()), terms);
            let begins = "{\"q\":\"你好 Äpfel\",\"args\":\"{\"a\":\" \"}\"}";
            assert_eq!(preview(&[]), parts([begins, "", ""]));
            assert_eq!(preview(&["nothing"]), parts([begins, "", ""]));
            let behind = "\",\"args\":\"{\"a\":\"\n\"}\"}";
            let found = parts(["{\"q\":\"你好 ", "Äpfel", behind]);
            assert_eq!(preview(&["nothing", "äpfel"]), found);
            let before = "…你好 Äpfel\",\"args\":\"{\"a\":\"";
            assert_eq!(preview(&["\n"]), parts([before, "\n", "\"}\"}"]));
            assert_eq!(preview(&["\\n"]).unwrap()[1], "\\n");
            assert_eq!(preview(&["u4f60"]).unwrap()[1], "u4f60");
        }
        let long = format!("[\"\\u4f60{}\"]", "\\n".repeat(1_000_000));
        let preview = preview(Payload::Text(long), &["你"]);
        assert_eq!(preview.unwrap()[..2], ["[\"", "你"]);
    }
}
