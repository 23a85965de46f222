//! Backtests: a version of an evaluator over stored targets, compared with their live scores. Results of a backtest are
//! no scores.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backfill::BackfillState;
use crate::evaluation::{EvaluatorVersion, Mapping, OnMissing, Target, TargetKind};
use crate::filter::WrittenFilter;
use crate::ids::{EvaluatorId, ObservationId, ProjectId, RuleId};
use crate::model_call::ModelCall;
use crate::named::named_enum;
use crate::score::ScoreValue;
use crate::time::Timestamp;

/// Most running backtests of a project. The backtests of all projects share one job.
pub const MAX_RUNNING_BACKTESTS: u64 = 4;
/// Numbers that differ by less are equal.
const EQUAL_WITHIN: f64 = 1e-9;

named_enum!(
    /// Why a backtest ended before the end of its range, or failed.
    BacktestReason {
        /// `maxItems` targets are evaluated.
        MaxItems = "max_items",
        /// The next calls could exceed `maxUsd`.
        MaxUsd = "max_usd",
        /// The evaluator was deleted.
        EvaluatorDeleted = "evaluator_deleted",
    }
);

named_enum!(
    /// The property by which a segment of results is formed.
    SegmentKind {
        Model = "model",
        Environment = "environment",
        /// Name and version of the prompt.
        PromptVersion = "promptVersion",
    }
);

/// What a backtest evaluates.
#[derive(Clone, Debug, PartialEq)]
pub struct BacktestPlan {
    /// The evaluator whose live scores are the baseline.
    pub evaluator: EvaluatorId,
    /// Its name when the backtest was created.
    pub evaluator_name: String,
    /// The tested version. The number of a draft is 0.
    pub version: EvaluatorVersion,
    /// Restricts the baseline to the scores of this rule.
    pub rule: Option<RuleId>,
    /// The kind of the targets.
    pub target: TargetKind,
    /// Targets that started at or after this time. For sessions the start of the newest trace counts.
    pub from: Timestamp,
    /// Targets that started before this time.
    pub to: Timestamp,
    /// Conditions on the targets.
    pub filter: WrittenFilter,
    /// Replaces the mapping of the version.
    pub mapping: Option<Vec<Mapping>>,
    /// Action when a mapped part is absent.
    pub on_missing: OnMissing,
    /// Cached replies of models are not used.
    pub is_fresh: bool,
    /// Most targets to evaluate.
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars.
    pub max_usd: Option<f64>,
    /// Targets in the range when the backtest was created, whether they match or not; absent if unknown.
    pub n_in_range: Option<u64>,
    /// Estimated cost of a target when the backtest was created, US dollars; absent if unknown.
    pub usd_per_target: Option<f64>,
}

impl BacktestPlan {
    /// Whether the version was not saved when the backtest was created.
    #[must_use]
    pub const fn is_draft(&self) -> bool {
        self.version.number == 0
    }
}

/// Model calls of one side of a backtest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallTotals {
    /// Requests that were sent. Cached replies do not count.
    pub n_calls: u64,
    /// Time of these requests, milliseconds.
    pub latency_ms: u64,
    /// Cost, including that of calls answered by cached replies, US dollars.
    pub cost_usd: f64,
    /// Answered requests whose price is unknown.
    pub n_unpriced: u64,
}

impl CallTotals {
    /// The totals of some calls.
    pub fn of<'c>(calls: impl IntoIterator<Item = &'c ModelCall>) -> Self {
        let mut totals = Self::default();
        for call in calls {
            if !call.is_from_cache {
                totals.n_calls += 1;
                totals.latency_ms += call.latency_ms;
            }
            totals.cost_usd += call.cost.unwrap_or_default() + call.saved.unwrap_or_default();
            totals.n_unpriced += u64::from(call.cost.is_none() && call.error.is_none());
        }
        totals
    }

    /// Adds totals.
    pub fn add(&mut self, more: Self) {
        self.n_calls += more.n_calls;
        self.latency_ms += more.latency_ms;
        self.cost_usd += more.cost_usd;
        self.n_unpriced += more.n_unpriced;
    }
}

/// Numbers of targets of a backtest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BacktestCounts {
    /// Examined targets: the sum of the next four counts.
    pub n_examined: u64,
    /// Evaluated targets.
    pub n_items: u64,
    /// Targets without a live score, which are not evaluated.
    pub n_unscored: u64,
    /// Targets that the filter does not take.
    pub n_refused: u64,
    /// Targets that were not complete when they were examined.
    pub n_left_out: u64,
    /// Evaluated targets with scores.
    pub n_completed: u64,
    /// Evaluated targets to which the version does not apply.
    pub n_skipped: u64,
    /// Evaluated targets on which the version failed.
    pub n_failed: u64,
    /// Compared pairs of scores.
    pub n_pairs: u64,
    /// Scores that only one of both sides has.
    pub n_unpaired: u64,
    /// Spent on model calls, US dollars, without calls whose price is unknown.
    pub cost_usd: f64,
    /// Model calls of the compared live scores of the targets that the version evaluated with scores.
    pub before: CallTotals,
    /// Model calls of the version on these targets.
    pub after: CallTotals,
}

/// Failures of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacktestFailures {
    /// The class, such as `missing_variable`.
    pub class: String,
    /// Number of targets.
    pub n: u64,
    /// The first message.
    pub message: String,
}

/// A backtest.
#[derive(Clone, Debug, PartialEq)]
pub struct Backtest {
    /// The tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: String,
    /// What it evaluates.
    pub plan: BacktestPlan,
    /// The states are those of backfills.
    pub state: BackfillState,
    /// Why it ended before the end of its range.
    pub reason: Option<BacktestReason>,
    /// The position after the last examined target; absent before the first one.
    pub cursor: Option<String>,
    /// Start of the last examined target.
    pub reached_at: Option<Timestamp>,
    /// The counts.
    pub counts: BacktestCounts,
    /// Failures by class.
    pub failures: Vec<BacktestFailures>,
    /// The number of the version that was made current by adopting the backtest.
    pub adopted_version: Option<u32>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// When it was completed, cancelled or failed.
    pub ended_at: Option<Timestamp>,
}

impl Backtest {
    /// Share of the range that is examined, from 0 to 1; absent if unknown.
    #[must_use]
    pub fn examined_share(&self) -> Option<f64> {
        if self.state == BackfillState::Completed {
            return Some(1.0);
        }
        if let Some(n) = self.plan.n_in_range.filter(|n| 0 < *n) {
            return Some((self.counts.n_examined as f64 / n as f64).min(1.0));
        }
        let (from, to) = (self.plan.from.as_micros() as f64, self.plan.to.as_micros() as f64);
        let reached = self.reached_at?.as_micros() as f64;
        (from < to).then(|| ((to - reached) / (to - from)).clamp(0.0, 1.0))
    }

    /// Counts a failed target.
    pub fn note_failure(&mut self, class: &str, message: &str) {
        self.counts.n_failed += 1;
        match self.failures.iter_mut().find(|each| each.class == class) {
            Some(each) => each.n += 1,
            None => self.failures.push(BacktestFailures {
                class: class.to_owned(),
                n: 1,
                message: message.to_owned(),
            }),
        }
    }
}

/// One side of a pair of scores.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedValue {
    /// The value.
    pub value: ScoreValue,
    /// The comment.
    pub comment: Option<String>,
}

impl PairedValue {
    /// The number of a numeric value.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self.value {
            ScoreValue::Numeric(number) => Some(number),
            _ => None,
        }
    }

    /// The value as a text.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.value {
            ScoreValue::Numeric(number) => number.to_string(),
            ScoreValue::Boolean(truth) => truth.to_string(),
            ScoreValue::Categorical(text)
            | ScoreValue::Text(text)
            | ScoreValue::Correction(text) => text.clone(),
        }
    }
}

/// The live score of a target and the result of the tested version under the same name.
#[derive(Clone, Debug, PartialEq)]
pub struct ScorePair {
    /// The target.
    pub target: Target,
    /// The observation of both scores, if it is not the target.
    pub observation: Option<ObservationId>,
    /// The name of the score.
    pub name: String,
    /// The live score.
    pub live: PairedValue,
    /// The result of the tested version.
    pub tested: PairedValue,
    /// The model of the target.
    pub model: Option<String>,
    /// The environment of the live score.
    pub environment: String,
    /// Name and version of the prompt of the target, such as `greeting v3`.
    pub prompt: Option<String>,
}

impl ScorePair {
    /// The size of the change: the distance of two numbers; 1 if labels differ; 0 if the values are equal.
    #[must_use]
    pub fn change(&self) -> f64 {
        match (self.live.number(), self.tested.number()) {
            (Some(live), Some(tested)) => {
                let distance = (tested - live).abs();
                if distance <= EQUAL_WITHIN { 0.0 } else { distance.min(f64::MAX) }
            }
            _ => f64::from(u8::from(self.live.value != self.tested.value)),
        }
    }

    /// Whether both values are numbers.
    #[must_use]
    pub const fn is_numeric(&self) -> bool {
        self.live.number().is_some() && self.tested.number().is_some()
    }
}

/// The number of pairs with the same labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelPairs {
    /// The name of the score.
    pub name: String,
    /// The segment of the targets; absent if its property is.
    pub segment: Option<String>,
    /// The label of the live scores, after the data type and a space if the types of both sides differ.
    pub live: String,
    /// The label of the results, likewise.
    pub tested: String,
    /// Number of pairs.
    pub n: u64,
}

/// A pair of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPair {
    /// The name of the score.
    pub name: String,
    /// The model of the target.
    pub model: Option<String>,
    /// The environment.
    pub environment: String,
    /// Name and version of the prompt.
    pub prompt: Option<String>,
    /// The live score.
    pub live: f64,
    /// The result of the tested version.
    pub tested: f64,
}

impl NumberPair {
    /// The segment of a kind.
    #[must_use]
    pub fn segment(&self, kind: SegmentKind) -> Option<&str> {
        match kind {
            SegmentKind::Model => self.model.as_deref(),
            SegmentKind::Environment => Some(&self.environment),
            SegmentKind::PromptVersion => self.prompt.as_deref(),
        }
    }

    /// Whether both numbers are equal.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        (self.live - self.tested).abs() <= EQUAL_WITHIN
    }
}

/// An estimate with its interval of 95 %.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalEstimate {
    /// The estimate.
    pub value: f64,
    /// The lower end of the interval; `null` if there are too few pairs.
    pub lower: Option<f64>,
    /// The upper end of the interval; `null` if there are too few pairs.
    pub upper: Option<f64>,
}

/// The result of a backtest for one score name.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BacktestScore {
    /// The name of the score.
    pub name: String,
    /// Whether the figures are those of numbers. A name with pairs of numbers and of labels has two results.
    pub is_numeric: bool,
    /// Compared pairs.
    pub pair_count: u64,
    /// Pairs with different values.
    pub flip_count: u64,
    /// Share of pairs with equal values, with Wilson's interval.
    pub agreement: IntervalEstimate,
    /// Cohen's kappa; `null` for numbers, if one label was given only, or with more than 100 labels.
    pub kappa: Option<f64>,
    /// The labels of `confusion`; empty for numbers, or with more than 100 labels.
    pub labels: Vec<String>,
    /// Number of pairs by label: rows are live scores, columns results of the tested version.
    pub confusion: Vec<Vec<u64>>,
    /// Mean of tested minus live value; `null` for labels.
    pub mean_difference: Option<IntervalEstimate>,
    /// Mean of the distances of both values; `null` for labels.
    pub mean_absolute_difference: Option<f64>,
    /// Pearson's correlation; `null` for labels, or if one side is constant.
    pub pearson: Option<f64>,
    /// Spearman's correlation; `null` for labels, or if one side is constant.
    pub spearman: Option<f64>,
    /// Segments with the most pairs first, at most 20 of each kind.
    pub segments: Vec<BacktestSegment>,
}

/// The result of a backtest in a segment.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BacktestSegment {
    /// `model`, `environment` or `promptVersion`.
    pub by: SegmentKind,
    /// The value; `null` for targets without one.
    pub value: Option<String>,
    /// Compared pairs.
    pub pair_count: u64,
    /// Pairs with different values.
    pub flip_count: u64,
    /// Share of pairs with equal values, with Wilson's interval.
    pub agreement: IntervalEstimate,
    /// Mean of tested minus live value; `null` for labels.
    pub mean_difference: Option<f64>,
}

/// The members of a version that a backtest may change.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TestedVersion {
    /// The number of the version; `null` for a draft.
    pub number: Option<u32>,
    /// The plug-in, as `vendor/name@version`.
    pub plugin: String,
    /// The evaluator of the plug-in.
    pub evaluator: String,
    /// The configuration.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub config: Value,
    /// Names of its models.
    pub models: Vec<String>,
}

impl From<&EvaluatorVersion> for TestedVersion {
    fn from(version: &EvaluatorVersion) -> Self {
        let models = version.slots.iter().filter_map(|slot| slot.model.as_ref());
        Self {
            number: (version.number != 0).then_some(version.number),
            plugin: format!("{}@{}", version.plugin_name, version.plugin_version),
            evaluator: version.plugin_evaluator.clone(),
            config: version.config.clone(),
            models: models.map(|choice| choice.model.clone()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(live: ScoreValue, tested: ScoreValue) -> ScorePair {
        let side = |value| PairedValue { value, comment: None };
        ScorePair {
            target: Target::Trace("t".parse().unwrap()),
            observation: None,
            name: "right".to_owned(),
            live: side(live),
            tested: side(tested),
            model: None,
            environment: "default".to_owned(),
            prompt: None,
        }
    }

    #[test]
    fn a_change_is_a_distance_of_numbers_or_1_for_other_labels() {
        let numbers =
            |live, tested| pair(ScoreValue::Numeric(live), ScoreValue::Numeric(tested)).change();
        assert_eq!((numbers(0.25, 1.0), numbers(0.3, 0.1 + 0.2)), (0.75, 0.0));
        let truths =
            |live, tested| pair(ScoreValue::Boolean(live), ScoreValue::Boolean(tested)).change();
        assert_eq!((truths(true, false), truths(true, true)), (1.0, 0.0));
        let text = ScoreValue::Categorical("1".to_owned());
        assert_eq!(pair(ScoreValue::Numeric(1.0), text).change(), 1.0);
    }
}
