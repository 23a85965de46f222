//! Calibration of evaluators: comparison of their scores with human scores.

use perpend_domain::evaluation::Mapping;
use perpend_domain::ids::EvaluatorId;
use perpend_domain::score::ScoreDataType;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::score::AnyValue;
use crate::trial::TrialItem;

/// The reference of a check: scores on targets, or items with the correct label.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckInput {
    /// A version of the evaluator; the newest when absent.
    pub version: Option<u32>,
    /// The name of scores given by users or sent over the API. Of several scores on one target the majority or the mean is the
    /// label.
    pub against: Option<String>,
    /// Instead: 1 to 200 items.
    pub items: Option<Vec<LabelledItem>>,
    /// The stored name of the score to check; required if the evaluator has several.
    pub score: Option<String>,
    /// Overrides the mapping of the evaluator, for targets.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// Runs per item, 1 to 5; 2 when absent.
    pub runs: Option<u32>,
    /// Most targets, the newest first: 1 to 200; 200 when absent.
    pub limit: Option<u32>,
    /// Whether prompt injections are tested; `true` when absent.
    pub plants: Option<bool>,
    /// Call models again instead of using cached replies.
    pub fresh: Option<bool>,
}

/// An item with its correct label.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelledItem {
    /// The input of the evaluator; no mapping is applied.
    pub item: TrialItem,
    /// A number, a boolean or a category.
    pub label: AnyValue,
}

/// The calibration of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationStatus {
    /// Fewer than 30 labels, or no check.
    Uncalibrated,
    /// The lower end of the interval reaches the threshold: Cohen's kappa of 0.6, or Spearman's rho of 0.7.
    Calibrated,
    /// The lower end is below the threshold.
    Weak,
    /// The check is older than 90 days, or than the newest version.
    Stale,
}

/// A statistic with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figure {
    /// The estimate; `null` if it is undefined, such as the correlation with a constant.
    pub value: Option<f64>,
    /// The lower end; `null` if it is undefined in every resample.
    pub lower: Option<f64>,
    /// The upper end.
    pub upper: Option<f64>,
}

/// The statistics of one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelFigures {
    /// A category, or `true` and `false`.
    pub label: String,
    /// How often it is the correct label.
    pub reference_count: u64,
    /// How often the evaluator gave it.
    pub judge_count: u64,
    /// Share of correct ones among the labels of the evaluator.
    pub precision: f64,
    /// Share of the correct labels that the evaluator found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

/// The agreement of categories or booleans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// The share of equal labels.
    pub agreement: Figure,
    /// Cohen's kappa: agreement beyond chance.
    pub kappa: Figure,
    /// Gwet's AC1, which stays stable where one label dominates.
    pub gwet_ac1: Option<f64>,
    /// Scott's pi.
    pub scott_pi: Option<f64>,
    /// The mean of F1 over the labels.
    pub macro_f1: f64,
    /// The mean of recall over the labels that occur in the reference.
    pub balanced_accuracy: f64,
    /// The Matthews coefficient.
    pub matthews: f64,
    /// Each label.
    pub labels: Vec<LabelFigures>,
    /// The confusion matrix: a row for each correct label, a column for each label of the evaluator, in the order of `labels`.
    pub confusion: Vec<Vec<u64>>,
    /// The most frequent label, as a constant baseline.
    pub constant_label: String,
    /// The agreement of the baseline.
    pub constant_agreement: f64,
}

/// The correlation of numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Correlation {
    /// Spearman's rho.
    pub spearman: Figure,
    /// Pearson's r.
    pub pearson: Option<f64>,
    /// Kendall's tau-b.
    pub kendall_tau_b: Option<f64>,
    /// Mean absolute error.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean difference of the evaluator and the reference.
    pub bias: f64,
    /// The mean of the reference, as a constant baseline.
    pub constant_value: f64,
    /// The mean absolute error of the baseline.
    pub constant_mae: f64,
}

/// The consistency over several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repeatability {
    /// Items with a result in every run.
    pub item_count: u64,
    /// Share of items with equal results in all runs; `null` if there are none.
    pub equal_share: Option<f64>,
    /// For numbers, the mean range over the items.
    pub spread: Option<f64>,
}

/// The results of one kind of prompt injection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlantedInstructions {
    /// `appended_order`, `fake_system_text`, `fence_break`, `praise` or `other_language`.
    pub kind: String,
    /// Number of evaluated injections.
    pub planted_count: u64,
    /// Number of injections that changed the result as instructed.
    pub flipped_count: u64,
    /// Number of failed evaluations.
    pub failed_count: u64,
}

/// The failures of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckFailures {
    /// Failure class, such as `missing_variable`.
    pub class: String,
    /// Number of items.
    pub count: u64,
    /// Human-readable message of the first one.
    pub message: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorCheck {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The version that was checked.
    pub version: u32,
    /// Time of the check.
    pub checked_at: Timestamp,
    /// The calibration of this version.
    pub status: CalibrationStatus,
    /// A human-readable explanation.
    pub explanation: String,
    /// The reference scores; `null` for items.
    pub against: Option<String>,
    /// The checked score of the evaluator; `null` if it gave none.
    pub score: Option<String>,
    /// Its type.
    pub data_type: Option<ScoreDataType>,
    /// Targets or items with a label.
    pub label_count: u64,
    /// Those with a result in the first run.
    pub pair_count: u64,
    /// The failures of the others.
    pub failures: Vec<CheckFailures>,
    /// For categories and booleans.
    pub agreement: Option<Agreement>,
    /// For numbers.
    pub correlation: Option<Correlation>,
    /// Runs per item.
    pub runs: u32,
    /// The consistency; `null` after a single run.
    pub repeatability: Option<Repeatability>,
    /// The results of prompt injections; empty if they were not tested.
    pub plants: Vec<PlantedInstructions>,
    /// Number of evaluator calls.
    pub execution_count: u64,
    /// Cost of their model calls, in US dollars; `null` if a price is unknown.
    pub cost_usd: Option<f64>,
    /// Cost saved by cached replies, in US dollars, as far as prices are known.
    #[serde(default)]
    pub saved_usd: f64,
    /// Median duration of the model calls of an item, or of the evaluator without a model, in milliseconds.
    pub latency_median_ms: Option<u64>,
    /// 95th percentile of the same.
    pub latency_p95_ms: Option<u64>,
}

/// The last check of each version.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluatorChecks {
    /// Of the newest version.
    pub status: CalibrationStatus,
    /// Newest version first.
    pub data: Vec<EvaluatorCheck>,
}
