//! Two scores on the same subjects.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use perpend_domain::score::{ScoreDataType, Subject};
use perpend_domain::score_analytics::{AnalyzedScore, ScoreSelection};

use super::axis::Axis;
use super::figures::{Compared, agreement, correlation};
use super::sample::{Distinct, main_type, number_of};
use super::{ComparedScore, ScoreComparison};
use crate::number::number;

/// Pairs from which statistics are computed; of more, a fixed sample.
const MAX_PAIRS: usize = 100_000;
/// Categories of a matrix.
const MAX_LABELS: usize = 50;
/// Listed pairs of a cell.
const MAX_LISTED: usize = 100;
/// The largest usable number.
pub(super) const LARGEST: f64 = 1e100;

/// A number that identifies a subject.
#[must_use]
pub fn subject_number(subject: &Subject) -> u64 {
    let mut hasher = DefaultHasher::new();
    match subject {
        Subject::Trace(trace) => (0_u8, trace.as_str()).hash(&mut hasher),
        Subject::Observation(trace, observation) => {
            (1_u8, trace.as_str(), observation.as_str()).hash(&mut hasher);
        }
        Subject::Session(session) => (2_u8, session).hash(&mut hasher),
        Subject::Experiment(experiment) => (3_u8, experiment).hash(&mut hasher),
    }
    hasher.finish()
}

/// A score of a subject.
#[derive(Clone, Copy, Debug)]
struct Entry {
    subject: u64,
    at: i64,
    value: f64,
    data_type: ScoreDataType,
}

/// The scores of one name by subject.
#[derive(Clone, Debug, Default)]
pub struct SubjectScores {
    entries: Vec<Entry>,
    labels: Distinct<String>,
}

/// The value of a subject.
#[derive(Clone, Copy, Debug)]
struct SubjectValue {
    subject: u64,
    /// The time of the newest score.
    at: i64,
    value: f64,
}

/// The values of the subjects in the order of their numbers.
struct Side {
    data_type: Option<ScoreDataType>,
    n_scores: u64,
    n_other_types: u64,
    labels: Vec<String>,
    values: Vec<SubjectValue>,
}

impl SubjectScores {
    /// Adds a score and returns the bytes that it takes, together with its later copies.
    pub fn add(&mut self, score: AnalyzedScore) -> usize {
        let data_type = score.value.data_type();
        let subject = subject_number(&score.subject);
        let (value, n_bytes) = number_of(score.value, &mut self.labels);
        self.entries.push(Entry { subject, at: score.timestamp.as_micros(), value, data_type });
        n_bytes + size_of::<Entry>() + size_of::<SubjectValue>() + size_of::<Pair>()
    }

    /// Number of scores.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One value for each subject.
    fn reduce(mut self) -> Side {
        const TYPES: [ScoreDataType; 3] =
            [ScoreDataType::Numeric, ScoreDataType::Boolean, ScoreDataType::Categorical];
        let counts = TYPES.map(|data_type| {
            let n = self.entries.iter().filter(|entry| entry.data_type == data_type).count();
            (data_type, n as u64)
        });
        let data_type = main_type(&counts);
        let n_all = self.entries.len();
        self.entries.retain(|entry| {
            let is_usable = entry.value.is_finite() && entry.value.abs() <= LARGEST;
            Some(entry.data_type) == data_type && is_usable
        });
        self.entries.sort_by_key(|entry| (entry.subject, entry.at));
        let of_subject = self.entries.chunk_by(|one, other| one.subject == other.subject);
        let is_number = data_type == Some(ScoreDataType::Numeric);
        let values = of_subject.filter_map(|entries| {
            let newest = entries.last()?;
            let value = match is_number {
                true => entries.iter().map(|entry| entry.value).sum::<f64>() / entries.len() as f64,
                false => most_frequent(entries),
            };
            Some(SubjectValue { subject: newest.subject, at: newest.at, value })
        });
        Side {
            values: values.collect(),
            data_type,
            n_scores: self.entries.len() as u64,
            n_other_types: (n_all - self.entries.len()) as u64,
            labels: self.labels.values,
        }
    }
}

/// The most frequent value of entries in the order of time; of equally frequent ones the newest.
fn most_frequent(entries: &[Entry]) -> f64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.value.to_bits()).or_default() += 1;
    }
    let most = counts.values().max();
    let mut newest_first = entries.iter().rev().map(|entry| entry.value);
    newest_first.find(|value| counts.get(&value.to_bits()) == most).unwrap_or_default()
}

/// A cell of the matrix, by the keys of its row and column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairCell {
    /// The key of the row.
    pub row: String,
    /// The key of the column.
    pub column: String,
}

/// A pair of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellPair {
    /// The number of the subject.
    pub subject: u64,
    /// The value of `a` as text.
    pub a: String,
    /// The value of `b` as text.
    pub b: String,
}

/// The comparison, and the pairs of the requested cell.
#[derive(Clone, Debug)]
pub struct PairedScores {
    /// The comparison, with an absent cell.
    pub comparison: ScoreComparison,
    /// Number of pairs of the cell and the newest of them; `None` if none was requested.
    pub cell: Option<(u64, Vec<CellPair>)>,
}

/// A subject with both values.
#[derive(Clone, Copy, Debug)]
struct Pair {
    subject: u64,
    at: i64,
    a: f64,
    b: f64,
}

/// Both axes with pairs whose values are indexes of labels, or numbers.
struct Matched {
    pairs: Vec<Pair>,
    axes: [Axis; 2],
}

impl PairedScores {
    /// Compares the scores of two selections.
    #[must_use]
    pub fn new(
        selections: [&ScoreSelection; 2],
        [a, b]: [SubjectScores; 2],
        cell: Option<&PairCell>,
    ) -> Self {
        let [a, b] = [a.reduce(), b.reduce()];
        let mut pairs = join(&a.values, &b.values);
        let n_pairs = pairs.len() as u64;
        let side = |selection: &ScoreSelection, side: &Side| ComparedScore {
            name: selection.name.clone(),
            source: selection.source,
            data_type: side.data_type,
            n_scores: side.n_scores,
            n_other_types: side.n_other_types,
            n_subjects: side.values.len() as u64,
            n_unpaired: side.values.len() as u64 - n_pairs,
        };
        let mut comparison = ScoreComparison {
            a: side(selections[0], &a),
            b: side(selections[1], &b),
            n_pairs,
            n_sampled: None,
            obstacle: None,
            rows: Vec::new(),
            columns: Vec::new(),
            counts: Vec::new(),
            agreement: None,
            correlation: None,
            sentence: String::new(),
            cell: None,
        };
        if MAX_PAIRS < pairs.len() {
            // The numbers of subjects are as good as random, and always the same.
            pairs.truncate(MAX_PAIRS);
            comparison.n_sampled = Some(MAX_PAIRS as u64);
        }
        let listed = match Matched::new([&a, &b], pairs) {
            Ok(matched) => {
                matched.describe(&mut comparison);
                cell.map(|cell| matched.cell(&comparison, cell))
            }
            Err(obstacle) => {
                comparison.sentence = format!("Nothing can be compared: {obstacle}.");
                comparison.obstacle = Some(obstacle);
                cell.map(|_| (0, Vec::new()))
            }
        };
        Self { comparison, cell: listed }
    }
}

/// The subjects that are in both lists, in the order of their numbers.
fn join(a: &[SubjectValue], b: &[SubjectValue]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut others = b.iter().peekable();
    for one in a {
        while others.next_if(|other| other.subject < one.subject).is_some() {}
        if let Some(other) = others.next_if(|other| other.subject == one.subject) {
            let at = one.at.max(other.at);
            pairs.push(Pair { subject: one.subject, at, a: one.value, b: other.value });
        }
    }
    pairs
}

impl Matched {
    fn new([a, b]: [&Side; 2], mut pairs: Vec<Pair>) -> Result<Self, String> {
        use ScoreDataType::{Boolean, Categorical, Numeric};
        let (Some(first), Some(second)) = (a.data_type, b.data_type) else {
            return Err("one of the scores has no values in this selection".to_owned());
        };
        if pairs.is_empty() {
            return Err("no subject has both scores".to_owned());
        }
        let is_binary = |number: f64| number == 0.0 || number == 1.0;
        let are_binary = |side: fn(&Pair) -> f64| pairs.iter().all(|pair| is_binary(side(pair)));
        let (a_is_binary, b_is_binary) = (are_binary(|pair| pair.a), are_binary(|pair| pair.b));
        let binary = |[no, yes]: [&str; 2]| {
            let axis = Axis::Labels(vec![no.to_owned(), yes.to_owned()]);
            [axis.clone(), axis]
        };
        let axes = match (first, second) {
            (Numeric, Numeric) if a_is_binary && b_is_binary => binary(["0", "1"]),
            (Boolean, Boolean) => binary(["false", "true"]),
            (Boolean, Numeric) if b_is_binary => binary(["false", "true"]),
            (Numeric, Boolean) if a_is_binary => binary(["false", "true"]),
            (Numeric | Boolean, Numeric | Boolean) => {
                let axis = |value: fn(&Pair) -> f64| {
                    let numbers: Vec<f64> = pairs.iter().map(value).collect();
                    Axis::of_numbers(&numbers)
                };
                [axis(|pair| pair.a), axis(|pair| pair.b)]
            }
            (Categorical | Boolean, Categorical | Boolean) => {
                let axis = common_labels([a, b], &mut pairs)?;
                [axis.clone(), axis]
            }
            _ => return Err("one score is categorical and the other one numeric".to_owned()),
        };
        Ok(Self { pairs, axes })
    }

    /// Adds the matrix and the statistics.
    fn describe(&self, comparison: &mut ScoreComparison) {
        let [rows, columns] = &self.axes;
        let mut counts = vec![vec![0_u64; columns.len()]; rows.len()];
        for pair in &self.pairs {
            counts[rows.place(pair.a)][columns.place(pair.b)] += 1;
        }
        (comparison.rows, comparison.columns) = (rows.bins(), columns.bins());
        comparison.counts.clone_from(&counts);
        let compared = Compared {
            a: self.pairs.iter().map(|pair| pair.a).collect(),
            b: self.pairs.iter().map(|pair| pair.b).collect(),
            names: [&comparison.a.name, &comparison.b.name].map(String::clone),
        };
        match rows {
            Axis::Labels(labels) => {
                if let Some((agreement, sentence)) = agreement(&compared, labels, counts) {
                    comparison.agreement = Some(agreement);
                    comparison.sentence = sentence;
                }
            }
            _ => {
                if let Some((correlation, sentence)) = correlation(&compared) {
                    comparison.correlation = Some(correlation);
                    comparison.sentence = sentence;
                }
            }
        }
    }

    /// The number of pairs of a cell, and the newest of them.
    fn cell(&self, comparison: &ScoreComparison, cell: &PairCell) -> (u64, Vec<CellPair>) {
        let [rows, columns] = &self.axes;
        let row = comparison.rows.iter().position(|values| values.key == cell.row);
        let column = comparison.columns.iter().position(|values| values.key == cell.column);
        let (Some(row), Some(column)) = (row, column) else {
            return (0, Vec::new());
        };
        let is_in = |pair: &&Pair| rows.place(pair.a) == row && columns.place(pair.b) == column;
        let mut pairs: Vec<&Pair> = self.pairs.iter().filter(is_in).collect();
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.at), pair.subject));
        let n = pairs.len() as u64;
        pairs.truncate(MAX_LISTED);
        let text = |axis: &Axis, value: f64| match axis {
            Axis::Labels(labels) => labels.get(value as usize).cloned().unwrap_or_default(),
            _ => number(value),
        };
        let listed = pairs.into_iter().map(|pair| CellPair {
            subject: pair.subject,
            a: text(rows, pair.a),
            b: text(columns, pair.b),
        });
        (n, listed.collect())
    }
}

/// The categories of both sides in alphabetical order. Values become their indexes.
fn common_labels(sides: [&Side; 2], pairs: &mut [Pair]) -> Result<Axis, String> {
    let truths = ["false", "true"].map(str::to_owned);
    let [a, b] = sides.map(|side| match side.data_type {
        Some(ScoreDataType::Boolean) => truths.as_slice(),
        _ => side.labels.as_slice(),
    });
    let name = |labels: &'_ [String], value: f64| labels.get(value as usize).cloned();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for pair in &*pairs {
        for label in [name(a, pair.a), name(b, pair.b)].into_iter().flatten() {
            places.entry(label).or_default();
        }
    }
    if MAX_LABELS < places.len() {
        let n = places.len();
        return Err(format!("there are {n} categories, more than {MAX_LABELS}"));
    }
    for (at, place) in places.values_mut().enumerate() {
        *place = at;
    }
    let place = |label: Option<String>| {
        let place = label.and_then(|label| places.get(&label).copied());
        place.unwrap_or_default() as f64
    };
    for pair in pairs {
        (pair.a, pair.b) = (place(name(a, pair.a)), place(name(b, pair.b)));
    }
    Ok(Axis::Labels(places.into_keys().collect()))
}

#[cfg(test)]
mod tests {
    use perpend_domain::ids::TraceId;
    use perpend_domain::score::{ScoreSource, ScoreValue};
    use perpend_domain::time::Timestamp;

    use super::*;

    fn score(trace: &str, value: ScoreValue, seconds: i64) -> AnalyzedScore {
        AnalyzedScore {
            value,
            subject: Subject::Trace(TraceId::new(trace).unwrap()),
            timestamp: Timestamp::from_millis(seconds * 1_000),
            environment: "default".to_owned(),
            version: None,
            probability: 1.0,
            model: None,
            prompt: None,
            release: None,
            trace_start: None,
        }
    }

    fn scores(values: &[(&str, ScoreValue)]) -> SubjectScores {
        let mut scores = SubjectScores::default();
        for (at, (trace, value)) in (0..).zip(values) {
            scores.add(score(trace, value.clone(), at));
        }
        scores
    }

    fn compare(a: SubjectScores, b: SubjectScores, cell: Option<&PairCell>) -> PairedScores {
        let judge = ScoreSelection { name: "judge".to_owned(), source: None };
        let human =
            ScoreSelection { name: "human".to_owned(), source: Some(ScoreSource::Annotation) };
        PairedScores::new([&human, &judge], [a, b], cell)
    }

    fn label(text: &str) -> ScoreValue {
        ScoreValue::Categorical(text.to_owned())
    }

    #[test]
    fn labels_are_counted_in_a_matrix_and_a_cell_has_its_pairs() {
        let human = scores(&[
            ("1", label("good")),
            ("2", label("good")),
            ("3", label("bad")),
            ("4", label("good")),
            ("5", label("bad")),
        ]);
        let judge = scores(&[
            ("1", label("good")),
            ("2", label("bad")),
            ("3", label("bad")),
            ("4", label("good")),
            ("6", label("good")),
        ]);
        let cell = PairCell { row: "good".to_owned(), column: "bad".to_owned() };
        let PairedScores { comparison, cell } = compare(human, judge, Some(&cell));
        assert_eq!(
            (comparison.n_pairs, comparison.a.n_unpaired, comparison.b.n_unpaired),
            (4, 1, 1)
        );
        assert_eq!(comparison.counts, [[1, 0], [1, 2]]);
        let agreement = comparison.agreement.unwrap();
        assert_eq!(agreement.agreement.value, Some(0.75));
        // By chance they agree on 1/4 · 2/4 + 3/4 · 2/4 of the pairs.
        assert_eq!(agreement.kappa.value, Some(0.5));
        assert_eq!((agreement.constant.as_str(), agreement.constant_agreement), ("good", 0.75));
        assert_eq!(agreement.categories[1].recall, Some(2.0 / 3.0));
        let (n, pairs) = cell.unwrap();
        assert_eq!((n, pairs.len()), (1, 1));
        let two = subject_number(&Subject::Trace(TraceId::new("2").unwrap()));
        assert_eq!(
            (pairs[0].subject, pairs[0].a.as_str(), pairs[0].b.as_str()),
            (two, "good", "bad")
        );
    }

    #[test]
    fn several_scores_of_a_subject_are_their_majority_or_mean() {
        let truths = [true, false, false, true].map(ScoreValue::Boolean);
        let human: Vec<(&str, ScoreValue)> = truths.into_iter().map(|truth| ("1", truth)).collect();
        let human = scores(&human).reduce();
        assert_eq!((human.values.len(), human.values[0].value), (1, 1.0), "the newest of a tie");
        let numbers = [1.0, 2.0, 6.0].map(ScoreValue::Numeric);
        let numbers: Vec<(&str, ScoreValue)> = numbers.into_iter().map(|n| ("1", n)).collect();
        assert_eq!(scores(&numbers).reduce().values[0].value, 3.0);
    }

    #[test]
    fn an_undefined_statistic_has_a_reason() {
        let all = |values: [f64; 3]| {
            let numbers = values.map(ScoreValue::Numeric);
            let traces = ["1", "2", "3"].into_iter().zip(numbers);
            scores(&traces.collect::<Vec<_>>())
        };
        let constant = compare(all([5.0; 3]), all([1.0, 2.0, 3.0]), None).comparison;
        let pearson = constant.correlation.unwrap().pearson;
        assert_eq!(pearson.value, None);
        assert_eq!(pearson.undefined.as_deref(), Some("every value of human is 5"));
        let one = || scores(&[("1", label("good"))]);
        let kappa = compare(one(), one(), None).comparison.agreement.unwrap().kappa;
        assert_eq!(kappa.undefined.as_deref(), Some("there is only one pair"));
        let same = || scores(&[("1", label("good")), ("2", label("good"))]);
        let kappa = compare(same(), same(), None).comparison.agreement.unwrap().kappa;
        assert_eq!(kappa.undefined.as_deref(), Some("every value of human is good"));
        let mixed = compare(one(), all([1.0, 2.0, 3.0]), None).comparison;
        assert!(mixed.obstacle.is_some() && mixed.agreement.is_none());
        let apart = compare(one(), scores(&[("2", label("good"))]), None).comparison;
        assert_eq!(apart.obstacle.as_deref(), Some("no subject has both scores"));
    }

    #[test]
    fn numbers_have_correlations_and_a_bias() {
        let pairs = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0), (4.0, 8.0)];
        let of = |side: fn(&(f64, f64)) -> f64| {
            let mut all = SubjectScores::default();
            for (at, pair) in (0..).zip(&pairs) {
                all.add(score(&format!("t{at}"), ScoreValue::Numeric(side(pair)), at));
            }
            all
        };
        let found = compare(of(|pair| pair.0), of(|pair| pair.1), None).comparison;
        let correlation = found.correlation.unwrap();
        for statistic in [&correlation.pearson, &correlation.spearman] {
            let value = statistic.value.unwrap();
            assert!((value - 1.0).abs() < 1e-12, "{statistic:?}");
        }
        assert_eq!((correlation.bias.value, correlation.mae), (Some(2.5), 2.5));
        assert_eq!(found.counts.len(), 4);
    }
}
