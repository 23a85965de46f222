//! The steps of a trace that contain a text.

use askama::Template;
use perpend_domain::observation::Observation;

use crate::format::{clock, count};
use crate::shell::encode;
use crate::{Shell, Text};

/// Characters shown before and behind a hit.
const AROUND: usize = 80;

/// The steps of a trace that contain a text.
#[derive(Clone, Debug, Template)]
#[template(path = "find.html")]
pub struct FindPage {
    /// Around the page.
    pub shell: Shell,
    /// The trace, by its id and its name.
    pub trace: (String, Option<Text>),
    /// What was looked for.
    pub text: String,
    /// Steps that hold it, in the order of their start.
    pub hits: Vec<Hit>,
    /// There are more.
    pub has_more: bool,
    /// Only the last steps of the trace were looked through.
    pub is_partial: bool,
}

/// A step that holds the text.
#[derive(Clone, Debug)]
pub struct Hit {
    id: String,
    kind: &'static str,
    name: Text,
    at: String,
    places: Vec<Place>,
}

/// One part of a step that holds the text, with what stands around its first occurrence.
#[derive(Clone, Debug)]
struct Place {
    part: &'static str,
    before: Text,
    found: Text,
    behind: Text,
    /// How often it stands there.
    n: usize,
}

impl Hit {
    /// Where a step holds the text, in any case.
    #[must_use]
    pub fn of(step: &Observation, text: &str) -> Self {
        let content = &step.content;
        let payload = |value: &Option<perpend_domain::payload::Payload>| {
            value.as_ref().map(|value| value.as_str().to_owned())
        };
        let parts = [
            ("id", Some(step.id.to_string())),
            ("name", Some(step.name.clone())),
            ("input", payload(&content.input)),
            ("output", payload(&content.output)),
        ];
        let places = parts
            .into_iter()
            .filter_map(|(part, whole)| Place::of(part, &whole?, text));
        Self {
            id: step.id.to_string(),
            kind: crate::words::kind_word(step.kind),
            name: Text::from(step.name.as_str()),
            at: clock(step.start),
            places: places.collect(),
        }
    }
}

impl Place {
    fn of(part: &'static str, whole: &str, text: &str) -> Option<Self> {
        let (from, to) = first(whole, text)?;
        let before = whole.get(..from).unwrap_or_default();
        let behind = whole.get(to..).unwrap_or_default();
        let start = before.char_indices().rev().nth(AROUND - 1);
        let start = start.map_or(0, |(at, _)| at);
        let end = behind.char_indices().nth(AROUND);
        let end = end.map_or(behind.len(), |(at, _)| at);
        Some(Self {
            part,
            before: Text::from(before.get(start..).unwrap_or_default()),
            found: Text::from(whole.get(from..to).unwrap_or_default()),
            behind: Text::from(behind.get(..end).unwrap_or_default()),
            n: whole.to_lowercase().matches(&text.to_lowercase()).count(),
        })
    }

    fn more(&self) -> usize {
        self.n.saturating_sub(1)
    }
}

/// Where `text` first stands in `whole`, in any case: a character may have another length in the other case.
fn first(whole: &str, text: &str) -> Option<(usize, usize)> {
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let (first, _) = wanted.split_first()?;
    let starts = whole
        .char_indices()
        .filter(|(_, c)| c.to_lowercase().next() == Some(*first));
    starts.into_iter().find_map(|(from, _)| {
        let mut left = wanted.as_slice();
        for (at, c) in whole.get(from..)?.char_indices() {
            for lower in c.to_lowercase() {
                left = match left.split_first() {
                    Some((next, rest)) if *next == lower => rest,
                    _ => return None,
                };
            }
            if left.is_empty() {
                return Some((from, from + at + c.len_utf8()));
            }
        }
        None
    })
}

impl FindPage {
    pub(crate) fn trace_href(&self) -> String {
        format!("{}/traces/{}", self.shell.base(), encode(&self.trace.0))
    }

    pub(crate) fn hit_href(&self, hit: &Hit) -> String {
        format!("{}?observation={}", self.trace_href(), encode(&hit.id))
    }

    pub(crate) fn n_hits(&self) -> String {
        let n = count(self.hits.len() as u64);
        match (self.has_more && !self.is_partial, self.hits.len()) {
            (true, _) => format!("more than {n} steps; the last of them"),
            (false, 1) => "1 step".to_owned(),
            (false, _) => format!("{n} steps"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_any_case_with_what_stands_around_it() {
        let long = "x".repeat(500);
        let whole = format!("{long} ÄPFEL und Birnen {long} äpfel");
        let place = Place::of("input", &whole, "äpfel").unwrap();
        assert_eq!((place.found.raw(), place.more()), ("ÄPFEL", 1));
        assert!(place.before.raw().chars().count() == AROUND);
        assert!(place.behind.raw().starts_with(" und Birnen "));
        assert!(Place::of("input", &whole, "Kirschen").is_none());
        assert!(Place::of("input", &whole, "").is_none());
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_found_where_it_was_put(before in ".{0,100}", text in ".{1,9}", behind in ".{0,100}") {
            let whole = format!("{before}{text}{behind}");
            let (from, to) = first(&whole, &text).unwrap();
            // Of a whole text the lower case depends on what is around a letter.
            let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
            proptest::prop_assert_eq!(lower(&whole[from..to]), lower(&text));
        }
    }
}
