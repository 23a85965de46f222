//! The scores and figures of one run.

use std::collections::{BTreeMap, HashSet};

use perpend_domain::experiment::{ItemResult, RunResults};
use perpend_domain::score::{ScoreDataType, ScoreValue};
use serde::{Deserialize, Serialize};

use crate::columns::{Mean, completed_latency, probability};
use crate::comparison::MetricSummary;
use crate::options::ALPHA;
use crate::sample::{Sample, summarize};

/// The values of a score in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreSummary {
    /// The name of the score.
    pub name: String,
    /// The type. A name with scores of several types has a summary for each.
    pub data_type: ScoreDataType,
    /// The values, one per item: the mean of its results. Of categories and texts only the numbers of items.
    pub values: MetricSummary,
    /// Numbers of results by category, most frequent first; empty for other types.
    pub categories: Vec<CategoryCount>,
}

/// Number of results with a category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CategoryCount {
    /// The category.
    pub category: String,
    /// Number of results.
    pub n: u64,
}

/// Figures of a run. Values are one per item: the mean of its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunFigures {
    /// The share of failed results.
    pub errors: MetricSummary,
    /// The duration of the results that did not fail, in milliseconds. Items whose results all failed are not missing.
    pub latency_ms: MetricSummary,
    /// The cost in US dollars.
    pub cost_usd: MetricSummary,
    /// The number of tokens.
    pub tokens: MetricSummary,
    /// The cost of the run in US dollars; `null` if no cost is known.
    pub total_cost_usd: Option<f64>,
    /// The tokens of the run; `null` if no usage is known.
    pub total_tokens: Option<u64>,
}

/// Results that have arrived.
fn arrived(results: &RunResults) -> impl Iterator<Item = &ItemResult> {
    results.items.iter().filter(|result| result.has_arrived)
}

/// Number of items with a result.
fn n_items(results: &RunResults) -> u64 {
    let items: HashSet<&str> = arrived(results).map(|result| result.item_id.as_str()).collect();
    items.len() as u64
}

/// Values by item, with the probabilities of their selection.
#[derive(Default)]
struct ItemValues<'r>(BTreeMap<&'r str, (Mean, Mean)>);

impl<'r> ItemValues<'r> {
    fn add(&mut self, item: &'r str, value: f64, probability: f64) {
        if value.is_finite() {
            let (values, probabilities) = self.0.entry(item).or_default();
            values.add(value);
            probabilities.add(probability);
        }
    }

    fn summary(&self, n_items: u64) -> MetricSummary {
        let mut sample = Sample::default();
        for (values, probabilities) in self.0.values() {
            sample.extend(Some(values.value()), probabilities.value());
        }
        let n_missing = n_items.saturating_sub(sample.values.len() as u64);
        summarize(&sample, None, n_missing, ALPHA)
    }
}

/// The figures of a run.
#[must_use]
pub fn run_figures(results: &RunResults) -> RunFigures {
    let mut errors = ItemValues::default();
    let mut latency = ItemValues::default();
    let mut cost = ItemValues::default();
    let mut tokens = ItemValues::default();
    let mut completed: HashSet<&str> = HashSet::new();
    let (mut total_cost_usd, mut total_tokens) = (None, None);
    for result in arrived(results) {
        let item = result.item_id.as_str();
        errors.add(item, f64::from(u8::from(result.is_error)), 1.0);
        if !result.is_error {
            completed.insert(item);
        }
        if let Some(ms) = completed_latency(result) {
            latency.add(item, ms, 1.0);
        }
        if let Some(usd) = result.cost_usd {
            cost.add(item, usd, 1.0);
            total_cost_usd = Some(total_cost_usd.unwrap_or(0.0) + usd);
        }
        if let Some(n) = result.n_tokens {
            tokens.add(item, n as f64, 1.0);
            total_tokens = Some(total_tokens.unwrap_or(0_u64).saturating_add(n));
        }
    }
    let n_items = n_items(results);
    RunFigures {
        errors: errors.summary(n_items),
        latency_ms: latency.summary(completed.len() as u64),
        cost_usd: cost.summary(n_items),
        tokens: tokens.summary(n_items),
        total_cost_usd,
        total_tokens,
    }
}

/// The scores of the items of a run by name and type.
#[must_use]
pub fn score_summaries(results: &RunResults) -> Vec<ScoreSummary> {
    #[derive(Default)]
    struct Values<'r> {
        numbers: ItemValues<'r>,
        items: HashSet<&'r str>,
        categories: BTreeMap<&'r str, u64>,
    }
    let mut by_name: BTreeMap<(&str, &str), (ScoreDataType, Values<'_>)> = BTreeMap::new();
    for result in arrived(results) {
        let item = result.item_id.as_str();
        for score in &result.scores {
            let data_type = score.value.data_type();
            if data_type == ScoreDataType::Correction {
                continue;
            }
            let key = (score.name.as_str(), data_type.as_str());
            let (_, values) = by_name.entry(key).or_insert_with(|| (data_type, Values::default()));
            values.items.insert(item);
            match &score.value {
                ScoreValue::Numeric(number) => {
                    values.numbers.add(item, *number, probability(score));
                }
                ScoreValue::Boolean(truth) => {
                    let number = f64::from(u8::from(*truth));
                    values.numbers.add(item, number, probability(score));
                }
                ScoreValue::Categorical(category) => {
                    *values.categories.entry(category).or_default() += 1;
                }
                ScoreValue::Text(_) | ScoreValue::Correction(_) => {}
            }
        }
    }
    let n_items = n_items(results);
    let summaries = by_name.into_iter().map(|((name, _), (data_type, values))| {
        let n = values.items.len() as u64;
        let is_number = matches!(data_type, ScoreDataType::Numeric | ScoreDataType::Boolean);
        let mut categories: Vec<CategoryCount> = values
            .categories
            .into_iter()
            .map(|(category, n)| CategoryCount { category: category.to_owned(), n })
            .collect();
        categories.sort_by_key(|count| std::cmp::Reverse(count.n));
        ScoreSummary {
            name: name.to_owned(),
            data_type,
            values: match is_number {
                true => values.numbers.summary(n_items),
                false => MetricSummary {
                    n,
                    n_missing: n_items.saturating_sub(n),
                    ..MetricSummary::default()
                },
            },
            categories,
        }
    });
    summaries.collect()
}

#[cfg(test)]
mod tests {
    use perpend_domain::experiment::{ExperimentRun, ItemScore};
    use perpend_domain::ids::TraceId;
    use perpend_domain::time::Timestamp;
    use serde_json::Value;

    use super::*;

    fn result(item: &str, n: usize, scores: Vec<(&str, ScoreValue)>) -> ItemResult {
        let scores = scores.into_iter().map(|(name, value)| ItemScore {
            name: name.to_owned(),
            value,
            comment: None,
            origin: None,
        });
        ItemResult {
            item_id: item.to_owned(),
            item_version: None,
            expected_output: None,
            trace_id: TraceId::new(&format!("trace {n}")).unwrap(),
            observation_id: None,
            start: Timestamp::from_millis(0),
            has_arrived: true,
            is_error: false,
            latency_ms: Some(100.0),
            cost_usd: (n == 0).then_some(0.5),
            n_tokens: None,
            scores: scores.collect(),
        }
    }

    fn run(items: Vec<ItemResult>) -> RunResults {
        RunResults {
            run: ExperimentRun {
                id: "run".to_owned(),
                name: "run".to_owned(),
                description: None,
                metadata: Value::Null,
                dataset_id: None,
                dataset_name: None,
                created_at: Timestamp::from_millis(0),
                updated_at: Timestamp::from_millis(0),
            },
            expected_items: None,
            items,
            scores: Vec::new(),
        }
    }

    #[test]
    fn repetitions_of_an_item_count_once() {
        let number = |value| vec![("s", ScoreValue::Numeric(value))];
        let run = run(vec![
            result("a", 0, number(0.0)),
            result("a", 1, number(1.0)),
            result("b", 2, number(1.0)),
            result("c", 3, Vec::new()),
        ]);
        let [summary] = &score_summaries(&run)[..] else { unreachable!("one score") };
        assert_eq!((summary.values.n, summary.values.n_missing), (2, 1));
        assert_eq!(summary.values.mean, Some(0.75));
    }

    #[test]
    fn a_name_with_two_types_has_two_summaries() {
        let run = run(vec![
            result("a", 0, vec![("s", ScoreValue::Boolean(true))]),
            result("b", 1, vec![("s", ScoreValue::Categorical("good".to_owned()))]),
        ]);
        let found = score_summaries(&run);
        let found: Vec<_> =
            found.iter().map(|s| (s.data_type, s.values.n, s.values.mean)).collect();
        assert_eq!(
            found,
            [(ScoreDataType::Boolean, 1, Some(1.0)), (ScoreDataType::Categorical, 1, None)]
        );
    }

    #[test]
    fn numbers_that_are_not_finite_are_left_out() {
        let run = run(vec![result("a", 0, vec![("s", ScoreValue::Numeric(f64::NAN))])]);
        let found = score_summaries(&run);
        assert_eq!((found[0].values.n, found[0].values.mean), (0, None));
    }

    #[test]
    fn the_latency_of_failed_results_is_left_out() {
        let mut results = vec![result("a", 0, Vec::new()), result("b", 1, Vec::new())];
        results[1].is_error = true;
        results[1].latency_ms = Some(60_000.0);
        let figures = run_figures(&run(results));
        let latency = figures.latency_ms;
        assert_eq!((latency.n, latency.n_missing, latency.max), (1, 0, Some(100.0)));
        assert_eq!(figures.errors.mean, Some(0.5));
    }

    #[test]
    fn an_unknown_cost_is_absent_and_not_zero() {
        let some = run_figures(&run(vec![result("a", 0, Vec::new()), result("b", 1, Vec::new())]));
        assert_eq!((some.total_cost_usd, some.cost_usd.n), (Some(0.5), 1));
        assert_eq!((some.latency_ms.n, some.latency_ms.mean), (2, Some(100.0)));
        let none = run_figures(&run(Vec::new()));
        assert_eq!((none.total_cost_usd, none.errors.n, none.errors.mean), (None, 0, None));
    }
}
