//! Observations of a trace that contain a text.

use crate::format::{count, kind_label, plural};
use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::text_search::{FieldMatch, SearchCursor, SearchHit, TraceSearchPage};

use crate::facts::utc_time;
use crate::trace::match_excerpt::MatchExcerpt;
use crate::{Html, Shell, Text};

/// One page of the observations of a trace that contain a text.
#[derive(Debug, Template)]
#[template(path = "find.html")]
pub struct FindPage {
    shell: Shell,
    name: Option<Text>,
    /// URL of the trace.
    trace: String,
    text: String,
    notice: Option<Text>,
    hits: Vec<HitRow>,
    /// Number of hits on earlier pages.
    n_before: u64,
    /// Whether the trace itself is the first hit.
    has_trace: bool,
    /// `30,000 of 50,000 observations searched`, unless all were searched.
    searched: Option<String>,
    /// URL of the next page.
    next: Option<String>,
}

/// Input of [`FindPage`].
#[derive(Debug)]
pub struct FindInput {
    /// Page frame.
    pub shell: Shell,
    /// Id and name of the trace.
    pub trace: (String, Option<Text>),
    /// Text to find; nothing is searched if it is empty.
    pub text: String,
    /// Errors in the query string.
    pub notice: Option<Text>,
    /// Number of hits on earlier pages.
    pub n_before: u64,
    /// Hits of this page.
    pub part: TraceSearchPage,
}

/// A hit on the page.
#[derive(Debug)]
struct HitRow {
    /// URL-encoded id of the observation; empty for the trace itself.
    observation_id: String,
    href: String,
    kind: &'static str,
    name: Option<Text>,
    at: Option<Html>,
    /// Number of occurrences in all fields.
    n: u64,
    /// One excerpt for each field.
    places: Vec<FieldExcerpt>,
}

/// Field, excerpt around the first occurrence, and the number of further occurrences in words.
pub(crate) type FieldExcerpt = (&'static str, MatchExcerpt, String);

pub(crate) fn field_excerpt(field_match: FieldMatch) -> FieldExcerpt {
    let more = match field_match.n {
        0 | 1 => String::new(),
        n => format!("and {} more", count(n - 1)),
    };
    (field_match.field.as_str(), MatchExcerpt::from(field_match.excerpt), more)
}

impl HitRow {
    fn new(hit: SearchHit, trace: &str, text: &str) -> Self {
        let find = encode(text);
        let n = hit.matches.iter().map(|found| found.n.max(1)).sum();
        let places = hit.matches.into_iter().map(field_excerpt).collect();
        match hit.observation {
            Some(observation) => {
                let id = encode(observation.id.as_str());
                Self {
                    href: format!("{trace}?observation={id}&find={find}"),
                    observation_id: id,
                    kind: kind_label(observation.kind),
                    name: Some(Text::from(observation.name)),
                    at: Some(utc_time(observation.start)),
                    n,
                    places,
                }
            }
            None => Self {
                href: format!("{trace}?trace&find={find}"),
                observation_id: String::new(),
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
    /// Builds the page.
    #[must_use]
    pub fn new(input: FindInput) -> Self {
        let FindInput { shell, trace: (id, name), text, notice, n_before, part } = input;
        let trace = format!("{}/traces/{}", shell.base(), segment(&id));
        let n_hits = n_before + part.hits.len() as u64;
        let next = part.next.map(|after| {
            let after = encode(&cursor_value(n_hits, &after));
            format!("{trace}/find?q={}&after={after}", encode(&text))
        });
        let [searched, n_observations] = [part.n_searched, part.n_observations].map(count);
        let rows = part.hits.into_iter();
        let hits: Vec<HitRow> = rows.map(|hit| HitRow::new(hit, &trace, &text)).collect();
        Self {
            searched: next
                .as_ref()
                .map(|_| format!("{searched} of {n_observations} observations searched")),
            has_trace: hits.first().is_some_and(|hit| hit.observation_id.is_empty()),
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
            (0, n, true) => format!("{} and the trace", plural(n - 1, "observation")),
            (0, n, false) => plural(n, "observation"),
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

/// A search cursor as query parameter: number of hits so far, start and id of the last observation.
fn cursor_value(n_hits: u64, (start, id): &SearchCursor) -> String {
    format!("{n_hits}.{}.{id}", start.as_micros())
}
