//! The account of a run: counts of its items, and the values of its scores by item.

use std::collections::{BTreeMap, HashSet};

use perpend_domain::experiment::{ItemResult, RunResults};
use perpend_domain::score::ScoreValue;
use perpend_stats::{proportion, summary};
use perpend_views::{Estimate, ItemCounts, Unit};

/// Confidence level of intervals.
pub(crate) const LEVEL: f64 = 0.95;

/// Counts, figures and scores of a run.
#[derive(Debug)]
pub(crate) struct RunAccount {
    pub(crate) counts: ItemCounts,
    pub(crate) n_results: u64,
    /// Whether each item has a result and no result is open.
    pub(crate) is_complete: bool,
    /// The sum of the known costs; absent if none is known.
    pub(crate) cost_usd: Option<f64>,
    /// The mean of the items.
    pub(crate) latency: Option<Estimate>,
    pub(crate) scores: Vec<NamedScores>,
}

/// The scores with one name.
#[derive(Debug)]
pub(crate) struct NamedScores {
    pub(crate) name: String,
    /// The mean of each item with a number or truth value.
    pub(crate) values: Vec<f64>,
    /// Counts of categories, most frequent first.
    pub(crate) categories: Vec<(String, u64)>,
    /// Number of items with and without the score.
    pub(crate) n_scored: u64,
    pub(crate) n_missing: u64,
    unit: Unit,
}

impl NamedScores {
    /// The mean with its interval; absent without numbers.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        estimate(&self.values, self.unit)
    }

    /// The standard error of the mean.
    pub(crate) fn stderr(&self) -> Option<f64> {
        summary::summarize(&self.values, None, LEVEL).ok()?.stderr
    }
}

/// The mean of values with the interval of Wilson if all are 0 or 1, and else that of t.
pub(crate) fn estimate(values: &[f64], unit: Unit) -> Option<Estimate> {
    let all = summary::summarize(values, None, LEVEL).ok()?;
    let n = values.len() as u64;
    let is_share = values.iter().all(|value| *value == 0.0 || *value == 1.0);
    let interval = match is_share && 1 < n {
        true => {
            let n_ones = values.iter().filter(|value| **value == 1.0).count() as u64;
            proportion::wilson(n_ones, n, LEVEL).ok()
        }
        false => all.interval,
    };
    let interval = interval.map(|ends| [ends.lower, ends.upper]);
    Some(Estimate { mean: all.mean?, interval, n, unit })
}

/// Scores with one name while they are collected.
#[derive(Default)]
struct Collected<'r> {
    numbers: BTreeMap<&'r str, Vec<f64>>,
    categories: BTreeMap<&'r str, u64>,
    scored: HashSet<&'r str>,
    has_number: bool,
}

impl<'r> Collected<'r> {
    fn add(&mut self, item: &'r str, value: &'r ScoreValue) {
        self.scored.insert(item);
        match value {
            ScoreValue::Numeric(number) => {
                self.has_number = true;
                self.numbers.entry(item).or_default().push(*number);
            }
            ScoreValue::Boolean(truth) => {
                let number = f64::from(u8::from(*truth));
                self.numbers.entry(item).or_default().push(number);
            }
            ScoreValue::Categorical(text) => *self.categories.entry(text).or_default() += 1,
            ScoreValue::Text(_) | ScoreValue::Correction(_) => {}
        }
    }

    fn named(self, name: &str, n_items: u64) -> NamedScores {
        let means = self.numbers.values().map(|values| mean(values));
        let categories = self.categories.into_iter().map(|(text, n)| (text.to_owned(), n));
        let mut categories: Vec<(String, u64)> = categories.collect();
        categories.sort_by(|a, b| b.1.cmp(&a.1));
        let n_scored = self.scored.len() as u64;
        NamedScores {
            name: name.to_owned(),
            values: means.collect(),
            categories,
            n_scored,
            n_missing: n_items.saturating_sub(n_scored),
            unit: if self.has_number { Unit::Number } else { Unit::Share },
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl RunAccount {
    pub(crate) fn new(results: &RunResults) -> Self {
        let mut latencies: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut by_name: BTreeMap<&str, Collected<'_>> = BTreeMap::new();
        let mut failed: HashSet<&str> = HashSet::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for item in &results.items {
            let id = item.item_id.as_str();
            seen.insert(id);
            if item.is_error {
                failed.insert(id);
            }
            if let Some(ms) = item.latency_ms {
                latencies.entry(id).or_default().push(ms);
            }
            for score in &item.scores {
                by_name.entry(&score.name).or_default().add(id, &score.value);
            }
        }
        let expected = results.expected_items.as_ref();
        let is_missing = |id: &&String| !seen.contains(id.as_str());
        let n_missing = expected.map_or(0, |ids| ids.iter().filter(is_missing).count() as u64);
        let n_seen = seen.len() as u64;
        let costs = results.items.iter().filter_map(|item| item.cost_usd);
        let latencies: Vec<f64> = latencies.values().map(|values| mean(values)).collect();
        let scores = by_name.into_iter().map(|(name, scores)| scores.named(name, n_seen));
        Self {
            counts: ItemCounts {
                n_expected: expected.map(|ids| ids.len() as u64),
                n_seen,
                n_failed: failed.len() as u64,
                n_missing,
            },
            n_results: results.items.len() as u64,
            is_complete: 0 < n_seen && n_missing == 0 && results.items.iter().all(is_over),
            cost_usd: costs.fold(None, |sum: Option<f64>, cost| Some(sum.unwrap_or(0.0) + cost)),
            latency: estimate(&latencies, Unit::Milliseconds),
            scores: scores.collect(),
        }
    }

    /// The scores with a name.
    pub(crate) fn score(&self, name: &str) -> Option<&NamedScores> {
        self.scores.iter().find(|scores| scores.name == name)
    }
}

/// Whether the trace of a result has arrived and ended.
fn is_over(item: &ItemResult) -> bool {
    item.has_arrived && (item.latency_ms.is_some() || item.is_error)
}

#[cfg(test)]
mod tests {
    use perpend_domain::experiment::{ExperimentRun, ItemScore};
    use perpend_domain::ids::TraceId;
    use perpend_domain::time::Timestamp;
    use serde_json::Value;

    use super::*;

    fn result(item: &str, value: Option<ScoreValue>) -> ItemResult {
        let scores = value.map(|value| ItemScore {
            name: "exact".to_owned(),
            value,
            comment: None,
            origin: None,
        });
        ItemResult {
            item_id: item.to_owned(),
            item_version: None,
            expected_output: None,
            trace_id: TraceId::new("t").unwrap(),
            observation_id: None,
            start: Timestamp::from_millis(0),
            has_arrived: true,
            is_error: scores.is_none(),
            latency_ms: Some(100.0),
            cost_usd: Some(0.25),
            n_tokens: None,
            scores: scores.into_iter().collect(),
        }
    }

    fn run(items: Vec<ItemResult>, expected: Option<&[&str]>) -> RunResults {
        let at = Timestamp::from_millis(0);
        RunResults {
            run: ExperimentRun {
                id: "r".to_owned(),
                name: "r".to_owned(),
                description: None,
                metadata: Value::Null,
                dataset_id: None,
                dataset_name: None,
                created_at: at,
                updated_at: at,
            },
            expected_items: expected.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
            items,
            scores: Vec::new(),
        }
    }

    #[test]
    fn every_item_is_accounted_for_and_repetitions_are_one_item() {
        let truth = |truth| Some(ScoreValue::Boolean(truth));
        let items = vec![
            result("a", truth(true)),
            result("a", truth(false)),
            result("b", truth(true)),
            result("c", None),
        ];
        let account = RunAccount::new(&run(items, Some(&["a", "b", "c", "d"])));
        let ItemCounts { n_expected, n_seen, n_failed, n_missing } = account.counts;
        assert_eq!((n_expected, n_seen, n_failed, n_missing), (Some(4), 3, 1, 1));
        assert_eq!((account.n_results, account.is_complete), (4, false));
        assert_eq!(account.cost_usd, Some(1.0));
        let exact = account.score("exact").unwrap();
        assert_eq!((exact.n_scored, exact.n_missing), (2, 1));
        assert_eq!(exact.estimate().map(|exact| (exact.mean, exact.n)), Some((0.75, 2)));
        let empty = RunAccount::new(&run(Vec::new(), None));
        assert!(!empty.is_complete && empty.scores.is_empty() && empty.latency.is_none());
    }

    #[test]
    fn the_interval_of_zeros_and_ones_stays_within_them() {
        let all = estimate(&[1.0; 10], Unit::Number).unwrap();
        assert_eq!(all.interval.map(|ends| ends[1]), Some(1.0));
        assert!(all.interval.is_some_and(|ends| ends[0] < 0.8));
        assert_eq!(estimate(&[], Unit::Number), None);
        assert_eq!(estimate(&[0.3], Unit::Number).and_then(|one| one.interval), None);
    }
}
