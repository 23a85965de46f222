//! Statistics of stored scores (evaluation.md 5.4 and 6): the distribution of one score, and the agreement of two scores on
//! the same subjects.

mod axis;
mod corrected;
mod distribution;
mod figures;
mod pairs;
mod sample;
mod thresholds;

use perpend_domain::score::{ScoreDataType, ScoreSource};
use perpend_domain::time::Timestamp;
use serde::Serialize;

use crate::comparison::{ConfidenceInterval, MetricSummary};

pub use corrected::CorrectedShare;
pub use pairs::{CellPair, PairCell, PairedScores, SubjectScores, subject_number};
pub use sample::ScoreSample;
pub use thresholds::{
    ReferenceVerdicts, ScoreThreshold, ScoreThresholds, ThresholdAgreement, ThresholdSample,
};

/// The level of all intervals.
pub(crate) const LEVEL: f64 = 0.95;

/// The statistics of one score, or of two.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreAnalysis {
    /// The distribution of the score `a`; `null` if two scores are compared.
    pub distribution: Option<ScoreDistribution>,
    /// The comparison of `a` and `b`; `null` for one score.
    pub comparison: Option<ScoreComparison>,
}

/// The distribution of a score. Scores of other types than most are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreDistribution {
    /// The type of most scores; `null` without scores.
    pub data_type: Option<ScoreDataType>,
    /// Number of scores of this type.
    pub n: u64,
    /// Number of scores of other types.
    pub n_other_types: u64,
    /// Whether subjects were sampled with different probabilities, so that means and shares weight scores with the
    /// reciprocals. Counts are never weighted.
    pub is_weighted: bool,
    /// The category whose share the means are; `null` for numbers and booleans.
    pub category: Option<String>,
    /// The mean of the numbers, the share of true values, or the share of the most frequent category.
    pub summary: MetricSummary,
    /// Counts by value or by range; of categories the most frequent 100.
    pub bins: Vec<ScoreBin>,
    /// Number of further categories.
    pub n_more_categories: u64,
    /// Means by time, oldest first; periods without scores are included.
    pub over_time: Vec<ScorePeriod>,
    /// Means by evaluator version, in the order of their first scores.
    pub versions: Vec<ScoreVersion>,
    /// Means by environment, most frequent first.
    pub environments: ScoreGroups,
    /// Means by model of the scored observation, most frequent first.
    pub models: ScoreGroups,
    /// Means by version of the prompt of the scored observation, most frequent first.
    pub prompts: ScoreGroups,
    /// Means by release of the trace, most frequent first.
    pub releases: ScoreGroups,
    /// Traces without a score of the name; `null` if no score is about a trace, or if the traces are not counted.
    pub missing: Option<MissingScores>,
    /// The share of true values, corrected for the errors of the evaluator against people; `null` unless the scores are
    /// boolean, of the source `EVAL`, and on subjects with scores of this name by people.
    pub corrected: Option<CorrectedShare>,
}

/// Traces that started in the time range and environments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MissingScores {
    /// Number of traces.
    pub n_traces: u64,
    /// Traces without a score of the name on them or on one of their observations.
    pub n_missing: u64,
    /// Their share.
    pub share: f64,
}

/// A value or a range of values, with its number of scores.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreBin {
    /// The value or range.
    pub values: BinValues,
    /// Number of scores.
    pub count: u64,
    /// Weighted share of all scores.
    pub share: f64,
}

/// A category, or a range of numbers. A range with equal ends is a number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BinValues {
    /// The text by which a request names it.
    pub key: String,
    /// The category, `true` or `false`; `null` for numbers.
    pub label: Option<String>,
    /// The smallest number of the range; `null` for categories.
    pub from: Option<f64>,
    /// The end of the range; `null` for categories.
    pub to: Option<f64>,
    /// Whether the range includes its end.
    pub includes_end: bool,
}

/// The scores of a period.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScorePeriod {
    /// The start.
    pub from: Timestamp,
    /// The end, exclusive.
    pub to: Timestamp,
    /// The scores.
    pub summary: MetricSummary,
}

/// The scores of an evaluator version.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreVersion {
    /// The evaluator; `null` for scores of clients and people.
    pub evaluator_id: Option<String>,
    /// The version; `null` for scores of clients and people.
    pub evaluator_version_id: Option<String>,
    /// The time of its first score.
    pub first_at: Timestamp,
    /// The scores.
    pub summary: MetricSummary,
}

/// The scores by a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreGroups {
    /// The largest groups.
    pub groups: Vec<ScoreGroup>,
    /// Number of further groups.
    pub n_more: u64,
}

/// The scores with a value of a property.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreGroup {
    /// The value; `null` for scores without one.
    pub value: Option<String>,
    /// The version of the prompt `value`; `null` for other properties.
    pub version: Option<i64>,
    /// The scores.
    pub summary: MetricSummary,
}

/// The comparison of two scores on the same subjects. Several scores of one name on a subject are one value: the mean of
/// numbers, the most frequent category, or the newest of equally frequent ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreComparison {
    /// The first score: the rows of the matrix.
    pub a: ComparedScore,
    /// The second score: the columns of the matrix.
    pub b: ComparedScore,
    /// Number of subjects with both scores.
    pub n_pairs: u64,
    /// Number of pairs in the fixed sample from which the statistics are computed; `null` if they use all pairs.
    pub n_sampled: Option<u64>,
    /// The reason why there are no statistics; `null` if there are.
    pub obstacle: Option<String>,
    /// The values of `a` in the order of the rows of `counts`.
    pub rows: Vec<BinValues>,
    /// The values of `b` in the order of the columns of `counts`.
    pub columns: Vec<BinValues>,
    /// Number of pairs by row and column.
    pub counts: Vec<Vec<u64>>,
    /// Statistics of categories and booleans; `null` for numbers.
    pub agreement: Option<ScoreAgreement>,
    /// Statistics of numbers; `null` for categories.
    pub correlation: Option<ScoreCorrelation>,
    /// The result as a sentence.
    pub sentence: String,
    /// The pairs of the requested cell; `null` if none was requested.
    pub cell: Option<ScoreCell>,
}

/// A score that is compared with another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ComparedScore {
    /// The name.
    pub name: String,
    /// The source; `null` for all.
    pub source: Option<ScoreSource>,
    /// The type of most scores; `null` without scores.
    pub data_type: Option<ScoreDataType>,
    /// Number of scores of this type.
    pub n_scores: u64,
    /// Number of scores of other types, which are left out.
    pub n_other_types: u64,
    /// Number of scored subjects.
    pub n_subjects: u64,
    /// Number of subjects without the other score.
    pub n_unpaired: u64,
}

/// A statistic with its 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreStatistic {
    /// The value; `null` if it is undefined.
    pub value: Option<f64>,
    /// The lower end of the interval; `null` without one.
    pub lower: Option<f64>,
    /// The upper end of the interval; `null` without one.
    pub upper: Option<f64>,
    /// The reason why the value is undefined; `null` if it is defined.
    pub undefined: Option<String>,
}

/// The agreement of categories.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreAgreement {
    /// The share of pairs with equal categories, with the Wilson interval.
    pub agreement: ScoreStatistic,
    /// Cohen's kappa.
    pub kappa: ScoreStatistic,
    /// Gwet's AC1, which stays stable if one category dominates.
    pub gwet_ac1: ScoreStatistic,
    /// The most frequent category of `a`.
    pub constant: String,
    /// The agreement with `a` if `b` were always this category.
    pub constant_agreement: f64,
    /// By category, in the order of the rows.
    pub categories: Vec<CategoryAgreement>,
}

/// The agreement on one category.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CategoryAgreement {
    /// The category.
    pub label: String,
    /// Number of pairs with this category in `a`.
    pub n_a: u64,
    /// Number of pairs with this category in `b`.
    pub n_b: u64,
    /// The share of pairs in which `a` agrees, among those with this category in `b`; `null` without any.
    pub precision: Option<f64>,
    /// The share of pairs in which `b` agrees, among those with this category in `a`; `null` without any.
    pub recall: Option<f64>,
}

/// The correlation of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreCorrelation {
    /// Pearson's r.
    pub pearson: ScoreStatistic,
    /// Spearman's rho; its interval resamples the ranks.
    pub spearman: ScoreStatistic,
    /// The mean of `b` minus `a`, with the t interval.
    pub bias: ScoreStatistic,
    /// The mean absolute difference.
    pub mae: f64,
    /// The ends between which 95 % of the differences lie if they are normally distributed; `null` for one pair.
    pub limits_of_agreement: Option<ConfidenceInterval>,
}

/// The pairs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScoreCell {
    /// The key of its row.
    pub row: String,
    /// The key of its column.
    pub column: String,
    /// Number of pairs.
    pub n: u64,
    /// The newest pairs, at most 100.
    pub pairs: Vec<ScorePair>,
}

/// A subject with both scores. Exactly one of trace, session and experiment is present.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ScorePair {
    /// The trace.
    pub trace_id: Option<String>,
    /// The observation of the trace; `null` if the trace itself is scored.
    pub observation_id: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// The experiment.
    pub experiment_id: Option<String>,
    /// The value of `a` as text.
    pub a: String,
    /// The value of `b` as text.
    pub b: String,
}
