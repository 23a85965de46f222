//! What a value says, on one line of a list.

use crate::Text;
use perpend_words::first;

use crate::around::Around;

/// Bytes of a beginning, or a word more.
const BEGINNING: usize = 200;
/// Characters before what was looked for: few, so that it is not cut off.
const BEFORE: usize = 24;
/// Bytes in which it is looked for.
const SEARCHED: usize = 8 * 1024;
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
        let searched = value
            .get(..value.floor_char_boundary(SEARCHED))
            .unwrap_or(value);
        let place = sought
            .iter()
            .take(MAX_SOUGHT)
            .find_map(|text| first(searched, text));
        let Some((from, to)) = place else {
            let before = beginning(value);
            return (!before.is_empty()).then(|| Self {
                before: Text::from(before),
                found: Text::default(),
                behind: Text::default(),
            });
        };
        let around = Around::of(value, (from, to));
        let before = around.before.raw();
        let start = before.char_indices().rev().nth(BEFORE - 1);
        let start = start.map_or(0, |(at, _)| at);
        let is_cut = 0 < start || before.len() < from;
        let lead = if is_cut { "…" } else { "" };
        Some(Self {
            before: Text::from(format!("{lead}{}", before.get(start..).unwrap_or_default())),
            found: around.found,
            behind: around.behind,
        })
    }

    pub(crate) fn is_found(&self) -> bool {
        !self.found.is_empty()
    }
}

/// How a text begins, its words apart by one space.
#[must_use]
pub fn beginning(text: &str) -> String {
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
        assert_eq!(
            said("Where  is\nit?", none),
            parts(["Where is it?", "", ""])
        );
        assert_eq!(
            said("Where is it?", &["refund"]),
            parts(["Where is it?", "", ""])
        );
        let long = format!("{} Your REFUND is on its way.", "word ".repeat(30));
        let found = said(&long, &["nothing", "your refund"]);
        assert_eq!(
            found,
            parts([
                "…rd word word word word  ",
                "Your REFUND",
                " is on its way."
            ])
        );
        assert_eq!(said("A refund", &["refund"]), parts(["A ", "refund", ""]));
    }
}
