//! The account of a run: each item that was expected and each result that came, by outcome (evaluation.md 5.1).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ExperimentRun, ItemResult, RunResults};
use crate::evaluation::{Rule, TargetKind};
use crate::filter::{Cell, Row};
use crate::ids::EvaluatorId;
use crate::score::ScoreDataType;

/// The scores that each result of a run is expected to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedScores {
    /// Evaluators that score every result.
    pub evaluators: Vec<EvaluatorId>,
    /// Names of scores from any source.
    pub names: Vec<String>,
}

/// Columns of filters with the same value for each item of a run.
const OF_RUN: [&str; 3] = ["experimentId", "datasetId", "isExperimentItemRootSpan"];

impl Row for ExperimentRun {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match column {
            "experimentId" => Cell::text(Some(&self.id)),
            "name" => Cell::text(Some(&self.name)),
            "datasetId" => Cell::text(self.dataset_id.as_deref()),
            "isExperimentItemRootSpan" => Cell::Bool(true),
            "metadata" => match &self.metadata {
                Value::Object(members) => Cell::Object(Cow::Borrowed(members)),
                _ => Cell::Null,
            },
            _ => Cell::Null,
        }
    }
}

/// Whether a rule scores each item of the run: its filter reads only the run, nothing is sampled out, and it
/// existed before the last item came.
fn scores_each_item(rule: &Rule, run: &ExperimentRun) -> bool {
    let filter = rule.filter.filter();
    let mut conditions = filter.conditions.iter();
    rule.enabled
        && rule.target == TargetKind::Experiment
        && 1.0 <= rule.sampling
        && rule.created_at <= run.updated_at
        && conditions.all(|each| each.column.is_some_and(|column| OF_RUN.contains(&column.id)))
        && filter.matches(run)
}

impl ExpectedScores {
    /// The evaluators of the rules that score each item of the run.
    #[must_use]
    pub fn of_rules<'r>(rules: impl IntoIterator<Item = &'r Rule>, run: &ExperimentRun) -> Self {
        let rules = rules.into_iter().filter(|rule| scores_each_item(rule, run));
        let assignments = rules.flat_map(|rule| &rule.assignments);
        let mut evaluators: Vec<EvaluatorId> =
            assignments.map(|assignment| assignment.evaluator_id.clone()).collect();
        evaluators.sort_unstable();
        evaluators.dedup();
        Self { evaluators, names: Vec::new() }
    }
}

/// The results of a run that have scores of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreCount {
    /// The name of the score.
    pub name: String,
    /// Number of results with the score.
    pub n_scored: u64,
    /// Number of results that neither have the score nor failed.
    pub n_missing: u64,
}

/// The results of a run that an evaluator has scored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EvaluatorCount {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Number of results with a score of the evaluator.
    pub n_scored: u64,
    /// Number of results that neither have one nor failed.
    pub n_missing: u64,
}

/// The account of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunAccount {
    /// Number of items that the dataset had in the version that the run used; `null` if the items are the
    /// client's own or the dataset is deleted.
    pub n_expected: Option<u64>,
    /// Number of items with a result.
    pub n_seen: u64,
    /// Number of items with a failed result.
    pub n_failed: u64,
    /// Number of expected items without a result; `null` if none are expected.
    pub n_missing: Option<u64>,
    /// Number of items with a result that are not expected; `null` if none are expected.
    pub n_unexpected: Option<u64>,
    /// Number of results: items times repetitions.
    pub n_results: u64,
    /// Number of linked results whose trace has not arrived.
    pub n_pending_results: u64,
    /// The number of results that most items have; 0 without results.
    pub repetitions: u64,
    /// Number of results by which items have more than `repetitions`.
    pub n_duplicate_results: u64,
    /// Number of results by which items with a result have fewer than `repetitions`.
    pub n_missing_results: u64,
    /// The expected items without a result.
    pub missing_items: Vec<String>,
    /// The items with a result that are not expected.
    pub unexpected_items: Vec<String>,
    /// By name: expected scores, and scores that some result has.
    pub scores: Vec<ScoreCount>,
    /// Expected evaluators, and evaluators that have scored some result.
    pub evaluators: Vec<EvaluatorCount>,
    /// Whether the run is accounted for: no expected item and no repetition lacks a result, the trace of each
    /// result has arrived, and each result has failed or has all expected scores.
    pub is_complete: bool,
}

impl RunAccount {
    /// The account of a run.
    #[must_use]
    pub fn of(results: &RunResults, expected: &ExpectedScores) -> Self {
        let (arrived, pending): (Vec<&ItemResult>, Vec<&ItemResult>) =
            results.items.iter().partition(|result| result.has_arrived);
        let mut account = Self {
            n_results: arrived.len() as u64,
            n_pending_results: pending.len() as u64,
            ..Self::default()
        };
        account.count_items(&arrived, results.expected_items.as_deref());
        account.count_repetitions(&arrived);
        account.count_scores(&arrived, expected);
        account.is_complete = account.is_accounted_for(expected);
        account
    }

    fn count_items(&mut self, arrived: &[&ItemResult], expected: Option<&[String]>) {
        let seen: HashSet<&str> = arrived.iter().map(|result| result.item_id.as_str()).collect();
        let failed = arrived.iter().filter(|result| result.is_error);
        let failed: HashSet<&str> = failed.map(|result| result.item_id.as_str()).collect();
        self.n_seen = seen.len() as u64;
        self.n_failed = failed.len() as u64;
        let Some(expected) = expected else {
            return;
        };
        let known: HashSet<&str> = expected.iter().map(String::as_str).collect();
        let mut listed = HashSet::new();
        let missing = expected.iter().filter(|id| !seen.contains(id.as_str()));
        self.missing_items = missing.filter(|id| listed.insert(id.as_str())).cloned().collect();
        let mut unexpected: Vec<String> =
            seen.iter().filter(|id| !known.contains(*id)).map(|id| (*id).to_owned()).collect();
        unexpected.sort_unstable();
        self.unexpected_items = unexpected;
        self.n_expected = Some(known.len() as u64);
        self.n_missing = Some(self.missing_items.len() as u64);
        self.n_unexpected = Some(self.unexpected_items.len() as u64);
    }

    fn count_repetitions(&mut self, arrived: &[&ItemResult]) {
        let mut per_item: HashMap<&str, u64> = HashMap::new();
        for result in arrived {
            *per_item.entry(&result.item_id).or_default() += 1;
        }
        let mut n_items_by_count: BTreeMap<u64, u64> = BTreeMap::new();
        for n in per_item.values() {
            *n_items_by_count.entry(*n).or_default() += 1;
        }
        // Of equally frequent numbers the smallest one.
        let most = n_items_by_count.iter().rev().max_by_key(|(_, n_items)| **n_items);
        self.repetitions = most.map_or(0, |(n, _)| *n);
        for n in per_item.values() {
            self.n_duplicate_results += n.saturating_sub(self.repetitions);
            self.n_missing_results += self.repetitions.saturating_sub(*n);
        }
    }

    fn count_scores(&mut self, arrived: &[&ItemResult], expected: &ExpectedScores) {
        /// Scored results, and of these the failed ones.
        type Counts = (u64, u64);
        let mut names: BTreeMap<&str, Counts> =
            expected.names.iter().map(|name| (name.as_str(), (0, 0))).collect();
        let mut evaluators: BTreeMap<&str, (&EvaluatorId, Counts)> =
            expected.evaluators.iter().map(|id| (id.as_str(), (id, (0, 0)))).collect();
        let n_failed = arrived.iter().filter(|result| result.is_error).count() as u64;
        for result in arrived {
            let failed = u64::from(result.is_error);
            let scores = result.scores.iter();
            let scores =
                scores.filter(|score| score.value.data_type() != ScoreDataType::Correction);
            let (mut of_names, mut of_evaluators) = (HashSet::new(), HashSet::new());
            for score in scores {
                if of_names.insert(score.name.as_str()) {
                    let counts = names.entry(&score.name).or_default();
                    *counts = (counts.0 + 1, counts.1 + failed);
                }
                let Some(origin) = &score.origin else {
                    continue;
                };
                let id = &origin.evaluator_id;
                if of_evaluators.insert(id.as_str()) {
                    let (_, counts) = evaluators.entry(id.as_str()).or_insert((id, (0, 0)));
                    *counts = (counts.0 + 1, counts.1 + failed);
                }
            }
        }
        let n_results = self.n_results;
        let missing = |(scored, failed): Counts| n_results - n_failed - (scored - failed);
        self.scores = names
            .into_iter()
            .map(|(name, counts)| ScoreCount {
                name: name.to_owned(),
                n_scored: counts.0,
                n_missing: missing(counts),
            })
            .collect();
        self.evaluators = evaluators
            .into_values()
            .map(|(id, counts)| EvaluatorCount {
                evaluator_id: id.clone(),
                n_scored: counts.0,
                n_missing: missing(counts),
            })
            .collect();
    }

    fn is_accounted_for(&self, expected: &ExpectedScores) -> bool {
        let names_are_missing = self
            .scores
            .iter()
            .any(|count| 0 < count.n_missing && expected.names.contains(&count.name));
        let evaluators_are_missing = self
            .evaluators
            .iter()
            .any(|count| 0 < count.n_missing && expected.evaluators.contains(&count.evaluator_id));
        let has_items = 0 < self.n_results || self.n_expected == Some(0);
        has_items
            && self.missing_items.is_empty()
            && self.n_pending_results == 0
            && self.n_missing_results == 0
            && !names_are_missing
            && !evaluators_are_missing
    }
}

#[cfg(test)]
mod tests;
