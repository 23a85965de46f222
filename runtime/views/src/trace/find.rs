//! The steps of a trace that contain a text.

use crate::format::{count, kind_word, many};
use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::text_search::{FieldMatch, SearchCursor, SearchHit, TraceSearchPage};

use crate::facts::utc_time;
use crate::trace::around::Around;
use crate::{Html, Shell, Text};

/// The steps of a trace that contain a text: one part of the search, and the way to the next one.
#[derive(Debug, Template)]
#[template(path = "find.html")]
pub struct FindPage {
    shell: Shell,
    name: Option<Text>,
    /// The address of the trace.
    trace: String,
    text: String,
    notice: Option<Text>,
    hits: Vec<Row>,
    /// Hits of earlier parts.
    n_before: u64,
    /// Whether the trace itself is the first hit.
    has_trace: bool,
    /// `30,000 of 50,000 steps searched`, where some are left.
    searched: Option<String>,
    /// The next part.
    next: Option<String>,
}

/// What a page of a search is made from.
#[derive(Debug)]
pub struct FindInput {
    /// Around the page.
    pub shell: Shell,
    /// The trace, by its id and its name.
    pub trace: (String, Option<Text>),
    /// The text; nothing is searched when it is empty.
    pub text: String,
    /// What in the address cannot be read.
    pub notice: Option<Text>,
    /// Hits of earlier parts.
    pub n_before: u64,
    /// This part.
    pub part: TraceSearchPage,
}

/// A hit as it is shown.
#[derive(Debug)]
struct Row {
    /// The id of the step, encoded; empty for the trace itself.
    step: String,
    href: String,
    kind: &'static str,
    name: Option<Text>,
    at: Option<Html>,
    /// How often the text occurs in all of them.
    n: u64,
    /// Each with its part, and how often the text occurs there again.
    places: Vec<PartExcerpt>,
}

/// A part that contains a text, what is around its first occurrence, and how often it occurs there again.
pub(crate) type PartExcerpt = (&'static str, Around, String);

pub(crate) fn part_excerpt(place: FieldMatch) -> PartExcerpt {
    let more = match place.n {
        0 | 1 => String::new(),
        n => format!("and {} more", count(n - 1)),
    };
    (place.part.as_str(), Around::from(place.excerpt), more)
}

impl Row {
    fn new(hit: SearchHit, trace: &str, text: &str) -> Self {
        let find = encode(text);
        let n = hit.places.iter().map(|place| place.n.max(1)).sum();
        let places = hit.places.into_iter().map(part_excerpt).collect();
        match hit.step {
            Some(step) => {
                let id = encode(step.id.as_str());
                Self {
                    href: format!("{trace}?observation={id}&find={find}"),
                    step: id,
                    kind: kind_word(step.kind),
                    name: Some(Text::from(step.name)),
                    at: Some(utc_time(step.start)),
                    n,
                    places,
                }
            }
            None => Self {
                href: format!("{trace}?trace&find={find}"),
                step: String::new(),
                kind: "trace",
                name: None,
                at: None,
                n,
                places,
            },
        }
    }
}

impl FindPage {
    /// Lays the page out.
    #[must_use]
    pub fn new(input: FindInput) -> Self {
        let FindInput { shell, trace: (id, name), text, notice, n_before, part } = input;
        let trace = format!("{}/traces/{}", shell.base(), segment(&id));
        let n_hits = n_before + part.hits.len() as u64;
        let next = part.next.map(|after| {
            let after = encode(&written(n_hits, &after));
            format!("{trace}/find?q={}&after={after}", encode(&text))
        });
        let [searched, steps] = [part.n_searched, part.n_steps].map(count);
        let rows = part.hits.into_iter();
        let hits: Vec<Row> = rows.map(|hit| Row::new(hit, &trace, &text)).collect();
        Self {
            searched: next.as_ref().map(|_| format!("{searched} of {steps} observations searched")),
            has_trace: hits.first().is_some_and(|hit| hit.step.is_empty()),
            name,
            trace,
            hits,
            n_before,
            next,
            notice,
            text,
            shell,
        }
    }

    /// `2 observations and the trace`, or `112 found, 101–112 on this page`.
    fn n_hits(&self) -> String {
        let n_here = self.hits.len() as u64;
        let total = self.n_before + n_here;
        match (self.n_before, n_here, self.has_trace) {
            (0, 1, true) => "The trace".to_owned(),
            (0, n, true) => format!("{} and the trace", many(n - 1, "observation")),
            (0, n, false) => many(n, "observation"),
            (n, 0, _) => format!("{} found so far, none on this page", count(n)),
            (n, ..) => {
                format!(
                    "{total} found, {}–{total} on this page",
                    count(n + 1),
                    total = count(total)
                )
            }
        }
    }
}

/// A place in a search as the value of a parameter: hits up to there, and the last step.
fn written(n_hits: u64, (start, id): &SearchCursor) -> String {
    format!("{n_hits}.{}.{id}", start.as_micros())
}
