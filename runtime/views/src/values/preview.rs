//! What a value says, on one line of a list.

use perpend_domain::payload::Payload;
use perpend_domain::text_search::{Excerpt, first};

use crate::Text;
use crate::trace::around::Around;

/// Bytes of a beginning, or a word more.
const BEGINNING: usize = 200;
/// Characters before what was looked for: few, so that it is not cut off.
const BEFORE: usize = 24;
/// Bytes in which it is looked for.
const SEARCHED: usize = 8 * 1024;
/// Bytes of a payload that are decoded: what is shown behind a place at the end of those.
const DECODED: usize = SEARCHED + 512;
/// Bytes of a conversation that is taken apart for a line.
const READ: usize = 64 * 1024;
/// Texts that are looked for.
const MAX_SOUGHT: usize = 5;

/// How a value begins, or what stands around a text that was looked for in it.
#[derive(Clone, Debug)]
pub struct Preview {
    pub(crate) before: Text,
    pub(crate) found: Text,
    pub(crate) behind: Text,
}

impl Preview {
    /// What stands around the first of these texts that is in the value, else its beginning; nothing of an empty value.
    #[must_use]
    pub fn of(value: &str, sought: &[&str]) -> Option<Self> {
        let Some((from, to)) = place(value, sought) else {
            let before = first_words(value);
            return (!before.is_empty()).then(|| Self {
                before: Text::lines(before),
                found: Text::default(),
                behind: Text::default(),
            });
        };
        let around = Around::from(Excerpt::of(value, (from, to)));
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

    /// The same of a payload, with the strings of its JSON decoded as far as one of the texts is still found.
    #[must_use]
    pub fn of_payload(value: &Payload, sought: &[&str]) -> Option<Self> {
        let found = value.readings(DECODED).filter(|text| place(text, sought).is_some()).last();
        let shown = found.unwrap_or_else(|| value.decoded(DECODED));
        Self::of(&shown, sought)
    }

    pub(crate) fn is_found(&self) -> bool {
        !self.found.is_empty()
    }
}

/// Where the first of these texts is that is found.
fn place(value: &str, sought: &[&str]) -> Option<(usize, usize)> {
    let searched = value.get(..value.floor_char_boundary(SEARCHED));
    let mut sought = sought.iter().take(MAX_SOUGHT);
    sought.find_map(|text| first(searched.unwrap_or(value), text))
}

/// How a payload begins, with the strings of its JSON decoded, and its words apart by one space; of a conversation that is
/// not long, how what was asked last begins.
#[must_use]
pub fn beginning(value: &Payload) -> String {
    let raw = Some(value.as_str()).filter(|raw| raw.len() <= READ);
    let said = raw.and_then(perpend_domain::content::last_message_text);
    first_words(&said.map_or_else(|| value.decoded(DECODED), Into::into))
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

    fn said(value: &str, sought: &[&str]) -> Option<[String; 3]> {
        let said = Preview::of(value, sought)?;
        Some([said.before, said.found, said.behind].map(|part| part.raw().to_owned()))
    }

    fn parts(parts: [&str; 3]) -> Option<[String; 3]> {
        Some(parts.map(str::to_owned))
    }

    #[test]
    fn a_preview_begins_with_the_value_or_shortly_before_what_was_looked_for() {
        let none: &[&str] = &[];
        assert_eq!(said(" \n ", none), None);
        assert_eq!(said("Where  is\nit?", none), parts(["Where is it?", "", ""]));
        assert_eq!(said("Where is it?", &["refund"]), parts(["Where is it?", "", ""]));
        let long = format!("{} Your REFUND is on its way.", "word ".repeat(30));
        let found = said(&long, &["nothing", "your refund"]);
        assert_eq!(found, parts(["…rd word word word word  ", "Your REFUND", " is on its way."]));
        assert_eq!(said("A refund", &["refund"]), parts(["A ", "refund", ""]));
    }

    #[test]
    fn a_preview_of_json_has_its_characters_and_marks_what_is_found_as_written_too() {
        let escaped = r#"{"q":"\u4f60\u597d \u00c4pfel","args":"{\"a\":\"\\n\"}"}"#;
        let said = |value: Payload, sought: &[&str]| {
            let said = Preview::of_payload(&value, sought)?;
            Some([said.before, said.found, said.behind].map(|part| part.raw().to_owned()))
        };
        for payload in [Payload::Json, Payload::Text] {
            let said = |sought: &[&str]| said(payload(escaped.to_owned()), sought);
            let begins = "{\"q\":\"你好 Äpfel\",\"args\":\"{\"a\":\" \"}\"}";
            assert_eq!(said(&[]), parts([begins, "", ""]));
            assert_eq!(said(&["nothing"]), parts([begins, "", ""]));
            let behind = "\",\"args\":\"{\"a\":\"\n\"}\"}";
            let found = parts(["{\"q\":\"你好 ", "Äpfel", behind]);
            assert_eq!(said(&["nothing", "äpfel"]), found);
            let before = "…你好 Äpfel\",\"args\":\"{\"a\":\"";
            assert_eq!(said(&["\n"]), parts([before, "\n", "\"}\"}"]));
            assert_eq!(said(&["\\n"]).unwrap()[1], "\\n");
            assert_eq!(said(&["u4f60"]).unwrap()[1], "u4f60");
        }
        let long = format!("[\"\\u4f60{}\"]", "\\n".repeat(1_000_000));
        let said = said(Payload::Text(long), &["你"]);
        assert_eq!(said.unwrap()[..2], ["[\"", "你"]);
    }
}
