//! Chips: the scores of a trace, aggregated by name.

use std::collections::BTreeMap;

use crate::markup::{encode, segment, with_query};
use askama::Template;
use perpend_domain::score::{Score, ScoreSource, ScoreValue, Subject};
use serde_json::Value;

use crate::Text;
use crate::format::count;
use crate::lists::column::{Cell, CellContext};
use crate::scores::score::{Tone, aggregate, anchor, score_value, shown};

/// Symbol and label of each score source.
const SOURCES: [(ScoreSource, &str, &str); 3] = [
    (ScoreSource::Eval, "ƒ", "evaluator"),
    (ScoreSource::Annotation, "✎", "person"),
    (ScoreSource::Api, "→", "API"),
];

/// Why chips distinguish scores of observations.
const UNTESTED: &str = "filters by score name test only scores of the trace";

/// The scores with one name.
#[derive(Clone, Debug)]
pub struct ScoreChip {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) tone: Tone,
    sources: Vec<ScoreSource>,
    /// Number of scores of the trace itself. If there are any, the value aggregates only these.
    n_own: usize,
    n_of_observations: usize,
    /// Id and observation of the score, if the value is of a single one.
    only: Option<(String, Option<String>)>,
    worth: f64,
    /// Mean in percent, if all values are between 0 and 1.
    pub(crate) share: Option<f64>,
}

/// A chip for each name: first scores of the trace itself, then scores of observations, each sorted from worst to best.
#[must_use]
pub fn score_chips(scores: &[&Score]) -> Vec<ScoreChip> {
    let mut by_name: BTreeMap<&str, Vec<&Score>> = BTreeMap::new();
    for score in scores {
        let named = by_name.entry(&score.written.name).or_default();
        named.push(score);
    }
    let chips = by_name.into_values();
    let mut chips: Vec<ScoreChip> = chips.filter_map(|named| ScoreChip::of(&named)).collect();
    // The sort is stable: equal values stay sorted by name.
    chips.sort_by(|a, b| {
        let by_subject = a.is_of_observations().cmp(&b.is_of_observations());
        by_subject.then_with(|| a.worth.total_cmp(&b.worth))
    });
    chips
}

/// The scores of an observation.
#[derive(Template)]
#[template(path = "observation_scores.html")]
struct ScoresCell<'a> {
    chips: Vec<ScoreChip>,
    trace: &'a str,
    base: &'a str,
}

/// The cell with the scores of an observation of this trace.
pub(crate) fn scores_cell(scores: &[Score], trace: &str, context: &CellContext<'_>) -> Cell {
    if scores.is_empty() {
        return Cell::Empty;
    }
    let chips = score_chips(&scores.iter().collect::<Vec<_>>());
    Cell::html(&ScoresCell { chips, trace, base: context.base })
}

/// The newest value of each score name. `scores` are newest first.
pub(crate) fn newest_values(scores: &[Score]) -> Value {
    let mut newest: BTreeMap<&str, &ScoreValue> = BTreeMap::new();
    for score in scores.iter().rev() {
        newest.insert(&score.written.name, &score.written.value);
    }
    newest.into_iter().map(|(name, of)| (name.to_owned(), score_value(of))).collect()
}

impl ScoreChip {
    /// The chip of all scores with one name.
    fn of(scores: &[&Score]) -> Option<Self> {
        let is_own = |score: &&Score| matches!(score.written.subject, Subject::Trace(_));
        let (own, of_observations): (Vec<&Score>, Vec<&Score>) =
            scores.iter().copied().partition(is_own);
        let counted = if own.is_empty() { &of_observations } else { &own };
        let first = &counted.first()?.written;
        let values: Vec<&ScoreValue> = counted.iter().map(|score| &score.written.value).collect();
        let tone = |value: &ScoreValue| shown(value, 1).1;
        let is_alike = values.iter().all(|value| tone(value) == tone(&first.value));
        let sources = SOURCES.iter().map(|(source, ..)| *source);
        let has =
            |source: &ScoreSource| counted.iter().any(|score| score.written.source == *source);
        let observation = match &first.subject {
            Subject::Observation(_, observation) => Some(observation.to_string()),
            _ => None,
        };
        let worths: Vec<f64> = values.iter().map(|value| worth(value)).collect();
        let mean = worths.iter().sum::<f64>() / worths.len() as f64;
        let has_range = worths.iter().all(|worth| *worth <= 1.0);
        Some(Self {
            name: Text::from(first.name.as_str()),
            value: aggregate(&values)?,
            tone: if is_alike { tone(&first.value) } else { Tone::Plain },
            sources: sources.filter(has).collect(),
            n_own: own.len(),
            n_of_observations: of_observations.len(),
            only: (values.len() == 1).then(|| (first.id.to_string(), observation)),
            worth: mean,
            share: has_range.then(|| (mean * 100.0).round()),
        })
    }

    /// Whether the value is of scores of observations.
    pub(crate) fn is_of_observations(&self) -> bool {
        self.n_own == 0
    }

    /// Symbol and label of each source of these scores.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = SOURCES.iter();
        let made = all.filter(move |(source, ..)| self.sources.contains(source));
        made.map(|(_, sign, words)| (*sign, *words))
    }

    /// Tooltip.
    pub(crate) fn title(&self) -> String {
        let [own, of_observations] = [self.n_own, self.n_of_observations].map(|n| count(n as u64));
        let own = match self.n_own {
            1 => "Score of the trace".to_owned(),
            _ => format!("{own} scores of the trace"),
        };
        match (self.n_own, self.n_of_observations) {
            (0, 1) => format!("Score of an observation: {UNTESTED}"),
            (0, _) => format!("{of_observations} scores of observations: {UNTESTED}"),
            (_, 0) => own,
            _ => format!("{own}; {of_observations} of observations not included"),
        }
    }

    /// URL fragment of the card, if the value is of a single score.
    pub(crate) fn card(&self) -> Option<String> {
        self.only.as_ref().map(|(id, _)| anchor(id))
    }

    /// URL of the list of scores with this name of a trace.
    pub(crate) fn list_href(&self, base: &str, trace: &str) -> String {
        let name = ("name", self.name.raw().to_owned());
        let pairs = [("trace", trace.to_owned()), name];
        with_query(&format!("{base}/scores"), &pairs)
    }

    /// URL of the card of the score on the page of the trace, or of the list of scores if the value is of several. `within`
    /// is a query string with the list of the trace.
    pub(crate) fn href(&self, trace: &str, base: &str, within: &str) -> String {
        let Some((id, observation)) = &self.only else {
            return self.list_href(base, trace);
        };
        let sign = if within.is_empty() { '?' } else { '&' };
        let observation = observation.as_deref().map_or_else(String::new, |observation| {
            format!("{sign}observation={}", encode(observation))
        });
        let trace = segment(trace);
        format!("{base}/traces/{trace}{within}{observation}{}", anchor(id))
    }
}

/// Sort key: booleans and numbers between 0 and 1 by value, all other values last.
fn worth(value: &ScoreValue) -> f64 {
    match value {
        ScoreValue::Boolean(truth) => f64::from(u8::from(*truth)),
        ScoreValue::Numeric(number) if (0.0..=1.0).contains(number) => *number,
        _ => 2.0,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use perpend_domain::ids::{ObservationId, ScoreId, TraceId};
    use perpend_domain::score::NewScore;
    use perpend_domain::time::Timestamp;

    use super::*;
    use crate::pages_tests::hostile_line;

    /// A score of the trace `t`, or of one of its observations.
    pub(crate) fn scored(name: &str, value: ScoreValue, observation: Option<&str>) -> Score {
        let trace = TraceId::new("t").unwrap();
        let subject = match observation {
            Some(observation) => {
                Subject::Observation(trace, ObservationId::new(observation).unwrap())
            }
            None => Subject::Trace(trace),
        };
        Score {
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
            written: NewScore {
                id: ScoreId::new("s").unwrap(),
                name: name.to_owned(),
                value,
                subject,
                source: ScoreSource::Api,
                timestamp: Timestamp::from_millis(0),
                environment: "default".to_owned(),
                comment: None,
                metadata: serde_json::Map::new(),
                config_id: None,
                queue_id: None,
                author_user_id: None,
                origin: None,
            },
        }
    }

    fn of(scores: &[Score]) -> Vec<ScoreChip> {
        score_chips(&scores.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_name_has_one_chip_and_trace_scores_come_before_observation_scores_worst_first() {
        let number =
            |name, value, observation| scored(name, ScoreValue::Numeric(value), observation);
        let truth =
            |name, value, observation| scored(name, ScoreValue::Boolean(value), observation);
        let chips = of(&[
            number("overlap", 0.25, Some("a")),
            number("overlap", 0.5, Some("b")),
            truth("cites", false, Some("a")),
            number("both", 0.1, Some("a")),
            number("both", 0.75, None),
            truth("polite", true, None),
            number("length", 120.0, None),
        ]);
        let shown = chips.iter().map(|chip| format!("{} {}", chip.name, chip.value));
        let expected =
            ["both 0.75", "polite true", "length 120", "cites false", "overlap 0.375 (n = 2)"];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(chips[0].title(), "Score of the trace; 1 of observations not included");
        assert!(chips[4].title().starts_with("2 scores of observations: "));
        assert_eq!((chips[1].tone, chips[3].tone), (Tone::Good, Tone::Bad));
        let shares = chips.iter().map(|chip| chip.share);
        let expected = [Some(75.0), Some(100.0), None, Some(0.0), Some(38.0)];
        assert_eq!(shares.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_chip_links_to_the_card_of_one_score_or_to_the_list_of_several() {
        let line = hostile_line();
        let trace = line.href("/p");
        let truth = |value, observation| scored("is <ok>", ScoreValue::Boolean(value), observation);
        let chips = of(&[truth(true, Some("a b"))]);
        let there = format!("{trace}?in=x&observation=a%20b#score-s");
        assert_eq!(chips[0].href(&line.id, "/p", "?in=x"), there);
        let chips = of(&[truth(true, None), truth(false, None)]);
        assert_eq!(chips[0].tone, Tone::Plain);
        let list = format!("/p/scores?trace={}&name=is%20%3Cok%3E", encode(&line.id));
        assert_eq!(chips[0].href(&line.id, "/p", ""), list);
    }

    #[test]
    fn a_chip_names_each_source_once() {
        let mut scores = vec![scored("x", ScoreValue::Boolean(true), None); 3];
        scores[1].written.source = ScoreSource::Eval;
        let words = of(&scores)[0].sources().map(|(_, words)| words).collect::<Vec<_>>();
        assert_eq!(words, ["evaluator", "API"]);
    }
}
