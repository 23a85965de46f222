//! Whether an evaluator can be trusted: what it gives held against what people say.

use perpend_domain::evaluation::Mapping;
use perpend_domain::ids::EvaluatorId;
use perpend_domain::score::ScoreDataType;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::score::AnyValue;
use crate::trial::TrialItem;

/// What an evaluator is held against: scores on targets, or items with the label that is right.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckInput {
    /// A version of the evaluator; the newest when absent.
    pub version: Option<u32>,
    /// The name of scores that people gave, or that came over the API. Of several on one target the majority, or the mean,
    /// is the label.
    pub against: Option<String>,
    /// Instead: 1 to 200 items.
    pub items: Option<Vec<LabelledItem>>,
    /// Which of its scores, by the name under which it is stored; needed where there are several.
    pub score: Option<String>,
    /// Instead of the evaluator's own mapping; for targets.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// How often each item is judged, 1 to 5; 2 when absent.
    pub runs: Option<u32>,
    /// The most targets that are judged, the newest first: 1 to 200, which it is when absent.
    pub limit: Option<u32>,
    /// Whether instructions are planted into what is judged; they are when absent.
    pub plants: Option<bool>,
    /// Asks models again, where otherwise replies answer that were stored for equal requests.
    pub fresh: Option<bool>,
}

/// An item and the label that is right.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelledItem {
    /// What the evaluator is given; no mapping is applied to it.
    pub item: TrialItem,
    /// A number, a truth value or a category.
    pub label: AnyValue,
}

/// Whether a version may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CalibrationStatus {
    /// There were fewer than 30 labels, or no check.
    Uncalibrated,
    /// The lower end of the interval reaches what is asked for: Cohen's kappa of 0.6, or Spearman's rho of 0.7.
    Calibrated,
    /// It does not.
    Weak,
    /// The check is older than 90 days, or than the newest version.
    Stale,
}

/// A figure with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figure {
    /// The figure; `null` where it is not defined, as a correlation with what never changes.
    pub value: Option<f64>,
    /// The lower end; `null` where no resample defined it.
    pub lower: Option<f64>,
    /// The upper end.
    pub upper: Option<f64>,
}

/// One label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelFigures {
    /// A category, or `true` and `false`.
    pub label: String,
    /// How often it is right.
    pub reference_count: u64,
    /// How often the evaluator gave it.
    pub judge_count: u64,
    /// Of what the evaluator called so, the share that is.
    pub precision: f64,
    /// Of what is so, the share that the evaluator called so.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

/// How categories or truth values agree.
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
    /// The mean of recall over the labels that are right somewhere.
    pub balanced_accuracy: f64,
    /// The Matthews coefficient.
    pub matthews: f64,
    /// Each label.
    pub labels: Vec<LabelFigures>,
    /// How often each pair occurred: a row for each right label, a column for each label of the evaluator, both in the order of
    /// `labels`.
    pub confusion: Vec<Vec<u64>>,
    /// The most frequent label, as a judge would say that always says it.
    pub constant_label: String,
    /// The agreement of that.
    pub constant_agreement: f64,
}

/// How numbers go together.
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
    /// Mean of what the evaluator gave minus what is right.
    pub bias: f64,
    /// The mean of what is right, as a judge would say that always says it.
    pub constant_value: f64,
    /// The mean absolute error of that.
    pub constant_mae: f64,
}

/// Whether it gives the same again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repeatability {
    /// Items that were judged in every run.
    pub item_count: u64,
    /// The share of them with equal verdicts in all runs; `null` where there are none.
    pub equal_share: Option<f64>,
    /// Of numbers, the mean over the items of largest minus smallest.
    pub spread: Option<f64>,
}

/// Instructions of one kind, planted into what is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlantedInstructions {
    /// `appended_order`, `fake_system_text`, `fence_break`, `praise` or `other_language`.
    pub kind: String,
    /// How many were judged.
    pub planted_count: u64,
    /// How many of them moved the verdict to what they demand.
    pub flipped_count: u64,
    /// How many were not judged.
    pub failed_count: u64,
}

/// Why items have no verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CheckFailures {
    /// Such as `missing_variable`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// Of the first, for people.
    pub message: String,
}

/// What a check of an evaluator showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorCheck {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The version that was checked.
    pub version: u32,
    /// When.
    pub checked_at: Timestamp,
    /// Whether this version may be trusted.
    pub status: CalibrationStatus,
    /// The same for people.
    pub explanation: String,
    /// The scores it was held against; `null` for items.
    pub against: Option<String>,
    /// The score of the evaluator that was held against them; `null` where it gave none.
    pub score: Option<String>,
    /// Its type.
    pub data_type: Option<ScoreDataType>,
    /// Targets or items with a label.
    pub label_count: u64,
    /// Those of them that the evaluator judged in the first run.
    pub pair_count: u64,
    /// Why the others have no verdict.
    pub failures: Vec<CheckFailures>,
    /// Of categories and truth values.
    pub agreement: Option<Agreement>,
    /// Of numbers.
    pub correlation: Option<Correlation>,
    /// How often each was judged.
    pub runs: u32,
    /// Whether it gives the same again; `null` after a single run.
    pub repeatability: Option<Repeatability>,
    /// What planted instructions did; none where none were planted.
    pub plants: Vec<PlantedInstructions>,
    /// Calls of the evaluator.
    pub execution_count: u64,
    /// What their model calls cost, in US dollars; `null` where the price of one is not known.
    pub cost_usd: Option<f64>,
    /// What stored replies saved besides, in US dollars, as far as the prices are known.
    #[serde(default)]
    pub saved_usd: f64,
    /// Milliseconds of the model calls of an item, or of the evaluator where it asks no model, median.
    pub latency_median_ms: Option<u64>,
    /// The same, 95th percentile.
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
