//! The steps of a trace that contain a text.

use std::borrow::Cow;

use askama::Template;
use perpend_domain::observation::Observation;

use crate::address::{encode, segment};
use perpend_words::{clock, count, first};

use crate::around::Around;
use crate::{Shell, Text};

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

/// One part of a step or of a trace that holds the text, with what stands around its first occurrence.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) part: &'static str,
    pub(crate) around: Around,
    /// How often it stands there.
    n: usize,
}

impl Hit {
    /// Where a step holds the text, in any case.
    #[must_use]
    pub fn of(step: &Observation, text: &str) -> Self {
        let content = &step.content;
        // As a reader sees it, where the text is in that too.
        let payload = |value: &Option<perpend_domain::payload::Payload>| {
            let readings = value.as_ref()?.readings(usize::MAX);
            let found = readings.filter(|whole| first(whole, text).is_some()).last();
            found.map(Cow::into_owned)
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
            kind: perpend_words::kind_word(step.kind),
            name: Text::from(step.name.as_str()),
            at: clock(step.start),
            places: places.collect(),
        }
    }
}

impl Place {
    pub(crate) fn of(part: &'static str, whole: &str, text: &str) -> Option<Self> {
        let found = first(whole, text)?;
        Some(Self {
            part,
            around: Around::of(whole, found),
            n: whole.to_lowercase().matches(&text.to_lowercase()).count(),
        })
    }

    pub(crate) fn more(&self) -> usize {
        self.n.saturating_sub(1)
    }
}

impl FindPage {
    pub(crate) fn trace_href(&self) -> String {
        format!("{}/traces/{}", self.shell.base(), segment(&self.trace.0))
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
        assert_eq!((place.around.found.raw(), place.more()), ("ÄPFEL", 1));
        assert!(place.around.before.raw().chars().count() == 80);
        assert!(place.around.behind.raw().starts_with(" und Birnen "));
        assert!(Place::of("input", &whole, "Kirschen").is_none());
        assert!(Place::of("input", &whole, "").is_none());
    }
}
