//! Full-text search in a trace: the fields of an observation that contain a text, the number of occurrences and their context.

use std::ops::ControlFlow;

use crate::ids::ObservationId;
use crate::observation::{Observation, ObservationKind, TraceFacts};
use crate::payload::Payload;
use crate::time::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Characters of context before and after an occurrence.
const AROUND: usize = 80;
/// The member of the metadata with the events of a span.
const EVENTS: &str = "events";

/// A searched field of an observation or its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchField {
    /// Its id.
    Id,
    /// Its name.
    Name,
    /// The message of its status.
    Status,
    /// Its input.
    Input,
    /// Its output.
    Output,
    /// Its metadata without the events.
    Metadata,
    /// Its events.
    Events,
    /// A comment on a score.
    Comment,
}

impl SearchField {
    /// Every value, in order.
    pub const ALL: &'static [Self] = &[
        Self::Id,
        Self::Name,
        Self::Status,
        Self::Input,
        Self::Output,
        Self::Metadata,
        Self::Events,
        Self::Comment,
    ];

    /// The name used in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Status => "status",
            Self::Input => "input",
            Self::Output => "output",
            Self::Metadata => "metadata",
            Self::Events => "events",
            Self::Comment => "comment",
        }
    }
}

/// An occurrence of a text with its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// At most 80 characters.
    pub before: String,
    /// The text as it occurs.
    pub matched: String,
    /// At most 80 characters.
    pub after: String,
}

impl Excerpt {
    /// The excerpt around a byte range of a text.
    #[must_use]
    pub fn of(whole: &str, (from, to): (usize, usize)) -> Self {
        let before = whole.get(..from).unwrap_or_default();
        let after = whole.get(to..).unwrap_or_default();
        let start = before.char_indices().rev().nth(AROUND - 1);
        let start = start.map_or(0, |(at, _)| at);
        let end = after.char_indices().nth(AROUND);
        let end = end.map_or(after.len(), |(at, _)| at);
        let owned = |part: Option<&str>| part.unwrap_or_default().to_owned();
        Self {
            before: owned(before.get(start..)),
            matched: owned(whole.get(from..to)),
            after: owned(after.get(..end)),
        }
    }
}

/// A field that contains the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMatch {
    /// The field.
    pub field: SearchField,
    /// The first occurrence.
    pub excerpt: Excerpt,
    /// Number of non-overlapping occurrences.
    pub n: u64,
}

/// The observation of a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitObservation {
    /// Its id.
    pub id: ObservationId,
    /// Its kind.
    pub kind: ObservationKind,
    /// Its name.
    pub name: String,
    /// Its start.
    pub start: Timestamp,
}

/// An observation, or the trace itself, that contains the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// `None` for the trace itself.
    pub observation: Option<HitObservation>,
    /// At least one; each field once.
    pub matches: Vec<FieldMatch>,
}

/// The position after an observation: its start and id.
pub type SearchCursor = (Timestamp, ObservationId);

/// A page of search results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSearchPage {
    /// The trace itself, then observations by start and id.
    pub hits: Vec<SearchHit>,
    /// Observations searched, including earlier pages.
    pub n_searched: u64,
    /// Observations of the trace.
    pub n_observations: u64,
    /// The position of the next page; `None` if all observations were searched.
    pub next: Option<SearchCursor>,
}

/// A pattern for the Knuth-Morris-Pratt search: linear time for every text.
#[derive(Clone, Debug)]
struct Pattern {
    wanted: Vec<char>,
    /// For each prefix the length of its longest proper border.
    borders: Vec<usize>,
}

/// A character with its case folded, including the final sigma of Greek.
fn folded(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|lower| match lower {
        'ς' => 'σ',
        other => other,
    })
}

impl Pattern {
    /// `None` for an empty text.
    fn new(text: &str) -> Option<Self> {
        let wanted: Vec<char> = text.chars().flat_map(folded).collect();
        if wanted.is_empty() {
            return None;
        }
        let mut borders = vec![0; wanted.len()];
        let mut n_same = 0;
        for at in 1..wanted.len() {
            while 0 < n_same && wanted[n_same] != wanted[at] {
                n_same = borders[n_same - 1];
            }
            n_same += usize::from(wanted[n_same] == wanted[at]);
            borders[at] = n_same;
        }
        Some(Self { wanted, borders })
    }

    /// Passes the byte range of each non-overlapping occurrence to `take`, until it breaks.
    fn each(&self, whole: &str, mut take: impl FnMut((usize, usize)) -> ControlFlow<()>) {
        let n_wanted = self.wanted.len();
        // Start positions of the latest folded characters.
        let mut begins = vec![0; n_wanted];
        let (mut n_read, mut n_same) = (0_usize, 0);
        for (at, c) in whole.char_indices() {
            for (nth, lower) in folded(c).enumerate() {
                // An occurrence that starts in the middle of a character does not count.
                begins[n_read % n_wanted] = if nth == 0 { at } else { usize::MAX };
                n_read += 1;
                while 0 < n_same && (n_same == n_wanted || self.wanted[n_same] != lower) {
                    n_same = self.borders[n_same - 1];
                }
                n_same += usize::from(self.wanted[n_same] == lower);
                if n_same < n_wanted {
                    continue;
                }
                let from = begins[(n_read - n_same) % n_wanted];
                if from == usize::MAX {
                    continue;
                }
                if take((from, at + c.len_utf8())).is_break() {
                    return;
                }
                n_same = 0;
            }
        }
    }
}

/// The byte range of the first occurrence of `text` in `whole`, ignoring case. Its length may differ from that of `text`.
#[must_use]
pub fn first(whole: &str, text: &str) -> Option<(usize, usize)> {
    TextPattern::new(text)?.first(whole)
}

/// A text to search for, ignoring case.
#[derive(Clone, Debug)]
pub struct TextPattern(Pattern);

/// The metadata of an observation without its events.
struct WithoutEvents<'a>(&'a Map<String, Value>);

impl Serialize for WithoutEvents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != EVENTS))
    }
}

impl TextPattern {
    /// `None` for an empty text.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Pattern::new(text).map(Self)
    }

    /// The byte range of the first occurrence.
    #[must_use]
    pub fn first(&self, whole: &str) -> Option<(usize, usize)> {
        let mut found = None;
        self.0.each(whole, |place| {
            found = Some(place);
            ControlFlow::Break(())
        });
        found
    }

    /// The match in a field.
    #[must_use]
    pub fn field_match(&self, field: SearchField, whole: &str) -> Option<FieldMatch> {
        let (mut first, mut n) = (None, 0);
        self.0.each(whole, |place| {
            first = first.or(Some(place));
            n += 1;
            ControlFlow::Continue(())
        });
        let excerpt = Excerpt::of(whole, first?);
        Some(FieldMatch { field, excerpt, n })
    }

    /// The fields of an observation that contain the text.
    #[must_use]
    pub fn field_matches(&self, observation: &Observation) -> Vec<FieldMatch> {
        let content = &observation.content;
        let status = observation.status_message.as_deref();
        let own = [
            self.field_match(SearchField::Id, observation.id.as_str()),
            self.field_match(SearchField::Name, &observation.name),
            status.and_then(|status| self.field_match(SearchField::Status, status)),
            self.in_payload(SearchField::Input, content.input.as_ref()),
            self.in_payload(SearchField::Output, content.output.as_ref()),
            self.in_metadata(&content.metadata),
            self.in_events(&content.metadata),
        ];
        let mut matches: Vec<FieldMatch> = own.into_iter().flatten().collect();
        // Trace attributes of a span count as its own fields.
        let of_trace = observation.trace.iter().flat_map(|facts| self.trace_matches(facts));
        for field_match in of_trace {
            if matches.iter().all(|own| own.field != field_match.field) {
                matches.push(field_match);
            }
        }
        matches
    }

    /// The fields of trace attributes that contain the text.
    #[must_use]
    pub fn trace_matches(&self, facts: &TraceFacts) -> Vec<FieldMatch> {
        let name = facts.name.as_deref();
        let matches = [
            name.and_then(|name| self.field_match(SearchField::Name, name)),
            self.in_payload(SearchField::Input, facts.input.as_ref()),
            self.in_payload(SearchField::Output, facts.output.as_ref()),
            self.in_metadata(&facts.metadata),
            self.in_events(&facts.metadata),
        ];
        matches.into_iter().flatten().collect()
    }

    /// The match in a payload, as sent or with its escapes decoded.
    #[must_use]
    pub fn in_payload(&self, field: SearchField, value: Option<&Payload>) -> Option<FieldMatch> {
        // The deepest decoded text that contains it.
        let readings = value?.readings(usize::MAX);
        readings.filter_map(|whole| self.field_match(field, &whole)).last()
    }

    fn in_metadata(&self, metadata: &Map<String, Value>) -> Option<FieldMatch> {
        if metadata.keys().all(|key| key == EVENTS) {
            return None;
        }
        let json = serde_json::to_string(&WithoutEvents(metadata)).unwrap_or_default();
        self.in_payload(SearchField::Metadata, Some(&Payload::Json(json)))
    }

    fn in_events(&self, metadata: &Map<String, Value>) -> Option<FieldMatch> {
        let events = metadata.get(EVENTS)?.to_string();
        self.in_payload(SearchField::Events, Some(&Payload::Json(events)))
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::TraceId;
    use serde_json::json;

    use super::*;

    fn lower(text: &str) -> String {
        text.chars().flat_map(folded).collect()
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_found_where_it_was_put(before in ".{0,100}", text in ".{1,9}", behind in ".{0,100}") {
            let whole = format!("{before}{text}{behind}");
            let (from, to) = first(&whole, &text).unwrap();
            proptest::prop_assert_eq!(lower(&whole[from..to]), lower(&text));
        }

        #[test]
        fn matches_that_do_not_overlap_are_counted(whole in "[abA]{0,60}", text in "[ab]{1,4}") {
            let counted = TextPattern::new(&text).unwrap().field_match(SearchField::Input, &whole);
            let expected = whole.to_lowercase().matches(&text).count() as u64;
            proptest::prop_assert_eq!(counted.map_or(0, |place| place.n), expected);
        }
    }

    #[test]
    fn a_text_that_repeats_itself_is_found_in_time() {
        assert_eq!(first("aabaabaac", "AABAAC"), Some((3, 9)));
        assert_eq!(first("aaa", "aa"), Some((0, 2)));
        assert_eq!(first("İx", "x"), Some((2, 3)));
        assert_eq!(first("ΟΔΟΣ", "οδος"), Some((0, 8)));
        assert_eq!(first("abc", ""), None);
        let whole = "a".repeat(1_000_000);
        assert_eq!(first(&whole, &format!("{}b", "a".repeat(199))), None);
    }

    #[test]
    fn matches_ignore_case_and_include_their_context() {
        let long = "x".repeat(500);
        let whole = format!("{long} ÄPFEL und Birnen {long} äpfel");
        let sought = TextPattern::new("äpfel").unwrap();
        let place = sought.field_match(SearchField::Input, &whole).unwrap();
        assert_eq!((place.excerpt.matched.as_str(), place.n), ("ÄPFEL", 2));
        assert_eq!(place.excerpt.before.chars().count(), AROUND);
        assert!(place.excerpt.after.starts_with(" und Birnen "));
        let other = TextPattern::new("Kirschen").unwrap();
        assert_eq!(other.field_match(SearchField::Input, &whole), None);
        assert!(TextPattern::new("").is_none());
    }

    #[test]
    fn quotation_marks_and_line_breaks_are_found_in_json() {
        let json = json!({"quote": "he wrote \"no\",\nthen left"}).to_string();
        let json = Payload::Json(json);
        for text in ["wrote \"no\"", ",\nthen", "{\"quote\":"] {
            let sought = TextPattern::new(text).unwrap();
            let place = sought.in_payload(SearchField::Output, Some(&json));
            assert!(place.is_some(), "{text}");
        }
    }

    #[test]
    fn each_field_of_an_observation_is_searched_separately() {
        let (trace, id) = (TraceId::new("t1").unwrap(), ObservationId::new("w-id").unwrap());
        let at = Timestamp::from_millis(0);
        let mut step = Observation::ended(trace, id, ObservationKind::Tool, (at, at));
        step.name = "w-name".to_owned();
        step.status_message = Some("w-status".to_owned());
        step.content.input = Some(Payload::Text("w-in W-in".to_owned()));
        step.content.output = Some(Payload::Json("{\"w-out\":1}".to_owned()));
        let metadata = json!({"w-key": "w-value", "events": [{"name": "w-event"}]});
        step.content.metadata = metadata.as_object().unwrap().clone();
        let places = |text: &str| -> Vec<(SearchField, u64)> {
            let places = TextPattern::new(text).unwrap().field_matches(&step);
            places.iter().map(|place| (place.field, place.n)).collect()
        };
        let all = [
            (SearchField::Id, 1),
            (SearchField::Name, 1),
            (SearchField::Status, 1),
            (SearchField::Input, 2),
            (SearchField::Output, 1),
            (SearchField::Metadata, 2),
            (SearchField::Events, 1),
        ];
        assert_eq!(places("W-"), all);
        assert_eq!(places("w-event"), [(SearchField::Events, 1)]);
        assert!(places("events").is_empty());
    }

    #[test]
    fn a_place_is_written_by_its_name() {
        for part in SearchField::ALL {
            assert_eq!(json!(part), json!(part.as_str()));
        }
    }
}
