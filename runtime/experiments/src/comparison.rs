//! The result of a comparison, as REST sends it and pages show it.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::score::ScoreDataType;
use perpend_domain::score_config::ScoreDirection;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names;

/// The comparison of 2 to 6 runs with a baseline. Lists with an entry per run are in the order of `runs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Comparison {
    /// The id of the baseline.
    pub base: String,
    /// The probability of a false verdict over all metrics and runs.
    pub alpha: f64,
    /// The compared runs, the baseline included.
    pub runs: Vec<ComparedRun>,
    /// Ids of the further runs of the baseline that measure noise.
    pub noise_runs: Vec<String>,
    /// Circumstances that limit the comparison.
    pub warnings: Vec<ComparisonWarning>,
    /// Scores by name, then errors, latency, cost and tokens.
    pub metrics: Vec<MetricComparison>,
    /// The metrics within groups of items.
    pub segments: Vec<SegmentComparison>,
    /// Number of items in any of the runs.
    pub n_items: u64,
    /// Items, largest regression first. An endpoint may return a part of them.
    pub items: Vec<ItemComparison>,
}

impl Comparison {
    /// The comparison with a part of its items.
    #[must_use]
    pub fn with_items<'a>(&self, items: impl Iterator<Item = &'a ItemComparison>) -> Self {
        Self {
            base: self.base.clone(),
            alpha: self.alpha,
            runs: self.runs.clone(),
            noise_runs: self.noise_runs.clone(),
            warnings: self.warnings.clone(),
            metrics: self.metrics.clone(),
            segments: self.segments.clone(),
            n_items: self.n_items,
            items: items.cloned().collect(),
        }
    }

    /// The metric with this name, or the score `NAME` for `score:NAME`.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&MetricComparison> {
        let name = names::metric(name);
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// A run of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ComparedRun {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// The dataset; `null` if the items are the client's own.
    pub dataset_id: Option<String>,
    /// The creation of the run.
    pub created_at: Timestamp,
    /// Whether the other runs are compared with it.
    pub is_base: bool,
    /// Number of items with a result.
    pub n_items: u64,
    /// Number of results: items times repetitions.
    pub n_results: u64,
    /// Number of items with a failed result.
    pub n_failed_items: u64,
    /// Number of items of the dataset without a result; `null` if the items are the client's own.
    pub n_missing_items: Option<u64>,
    /// Number of items with more results than most items have.
    pub n_duplicate_items: u64,
    /// Number of items that this run and the baseline have with the same expected output.
    pub n_matched_items: u64,
    /// Items whose expected output differs from that of the baseline. They are not compared.
    pub changed_items: Vec<String>,
}

/// A circumstance that limits a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ComparisonWarning {
    /// Its kind.
    pub kind: WarningKind,
    /// The run; `null` if it concerns all.
    pub run: Option<String>,
    /// The metric; `null` if it concerns all.
    pub metric: Option<String>,
    /// A sentence with the difference.
    pub message: String,
}

/// The kind of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum WarningKind {
    /// Items with another expected output are excluded.
    ExpectedOutput,
    /// Items are in one of the runs only.
    UnmatchedItems,
    /// No item is in both runs: means of different items are compared.
    NothingMatches,
    /// Items have another version.
    ItemVersion,
    /// A score was made by different evaluators or versions.
    Evaluator,
    /// A score was sampled at different rates.
    Sampling,
    /// Items have different numbers of results.
    Repetitions,
    /// Items of the dataset have no result.
    MissingItems,
    /// Results have no value of a metric that others have.
    MissingValues,
    /// A result has several scores of one name.
    SeveralScores,
    /// The direction of a score is unknown.
    Direction,
    /// A requested metric has no value in any run.
    UnknownMetric,
    /// Groups of items are left out.
    Segments,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum MetricKind {
    /// A score of the items.
    Score,
    /// The share of failed results.
    Errors,
    /// The duration in milliseconds.
    Latency,
    /// The cost in US dollars.
    Cost,
    /// The number of tokens.
    Tokens,
}

/// Where the direction of a metric is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum DirectionSource {
    /// The score config.
    ScoreConfig,
    /// The declaration of the evaluator.
    Evaluator,
    /// The metric itself: less latency, cost, tokens and errors are better.
    Metric,
    /// The request or the file of a gate.
    Request,
}

/// A metric over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MetricComparison {
    /// `errors`, `latency_ms`, `cost_usd`, `tokens`, or the name of the score; `score:NAME` for a score with the name of
    /// one of these measures.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// The type of the score; `null` for other metrics and for scores of several types.
    pub data_type: Option<ScoreDataType>,
    /// The reason why its values cannot be read as numbers of one type; `null` if they can.
    #[serde(default)]
    pub obstacle: Option<String>,
    /// The better direction; `null` if unknown.
    pub direction: Option<ScoreDirection>,
    /// The source of the direction; `null` if unknown.
    pub direction_source: Option<DirectionSource>,
    /// The smallest difference that counts, in the unit of the metric; 0 if any does.
    pub margin: f64,
    /// The difference between identical runs; `null` if there are neither repetitions nor a second run of the baseline.
    pub noise: Option<NoiseFloor>,
    /// The runs.
    pub runs: Vec<RunMetric>,
}

impl MetricComparison {
    /// The name of the score; absent for a measure.
    #[must_use]
    pub fn score(&self) -> Option<&str> {
        names::score_of_metric(&self.name).filter(|_| self.kind == MetricKind::Score)
    }
}

/// A metric of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunMetric {
    /// The id of the run.
    pub run: String,
    /// The values of its items.
    pub summary: MetricSummary,
    /// The difference to the baseline; `null` for the baseline itself.
    pub difference: Option<Difference>,
}

/// The values of a metric: one per item, repetitions reduced. If items were sampled with different probabilities, mean,
/// standard error, interval and quantiles weight them with the reciprocals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MetricSummary {
    /// Number of items with a value.
    pub n: u64,
    /// Number of items without one.
    pub n_missing: u64,
    /// The mean; `null` without values.
    pub mean: Option<f64>,
    /// The standard error of the mean; `null` with fewer than two values.
    pub stderr: Option<f64>,
    /// The interval of the mean: Wilson for values 0 and 1, otherwise t; `null` with fewer than two values.
    pub interval: Option<ConfidenceInterval>,
    /// The median.
    pub median: Option<f64>,
    /// The quantile 0.95.
    pub p95: Option<f64>,
    /// The smallest value.
    pub min: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
}

/// An interval with the level `1 - alpha`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ConfidenceInterval {
    /// The lower end.
    pub lower: f64,
    /// The upper end.
    pub upper: f64,
}

/// The difference of a metric between a run and the baseline: positive where the run has the larger mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Difference {
    /// The verdict.
    pub verdict: Verdict,
    /// Why the verdict is `inconclusive` or `not_comparable`, as a sentence; `null` for the others.
    pub reason: Option<String>,
    /// Why the verdict is `inconclusive`; `null` for the others.
    pub cause: Option<InconclusiveCause>,
    /// Number of items that both have; 0 where no item matches.
    pub n: u64,
    /// The mean of the differences, or the difference of the means where no item matches.
    pub mean: Option<f64>,
    /// The interval of `mean`.
    pub interval: Option<ConfidenceInterval>,
    /// The same interval by resampling, as a check; `null` with more than 500 items.
    pub bootstrap_interval: Option<ConfidenceInterval>,
    /// The test of `p`; `null` if not comparable.
    pub method: Option<Method>,
    /// The p-value of the test.
    pub p: Option<f64>,
    /// The p-value adjusted for the number of metrics and runs that get a verdict.
    pub p_adjusted: Option<f64>,
    /// The p-value of the paired t test.
    pub t_p: Option<f64>,
    /// The p-value of Wilcoxon's signed-rank test.
    pub wilcoxon_p: Option<f64>,
    /// The p-value of the sign test.
    pub sign_p: Option<f64>,
    /// Number of items in which the run is better; larger if the direction is unknown.
    pub wins: u64,
    /// Number of items in which both are equal.
    pub ties: u64,
    /// Number of items in which the run is worse; smaller if the direction is unknown.
    pub losses: u64,
    /// The difference in standard deviations of the differences; the difference of proportions for values 0 and 1.
    pub effect_size: Option<f64>,
    /// The smallest true difference that would have been seen with a probability of 80 %.
    pub smallest_effect: Option<f64>,
    /// Number of items that would show a difference as large as this one, or as `margin` if that is larger, with a
    /// probability of 80 %.
    pub n_items_needed: Option<u64>,
}

/// A verdict on a metric of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Verdict {
    /// Better than the baseline, by at least the margin.
    Better,
    /// Worse than the baseline, by at least the margin.
    Worse,
    /// The interval of the difference is within the margin.
    Equivalent,
    /// Neither a difference nor equivalence is shown.
    Inconclusive,
    /// There is no verdict, for a reason that more items do not change.
    NotComparable,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
            Self::NotComparable => "not comparable",
        }
    }
}

/// The cause of an inconclusive verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum InconclusiveCause {
    /// Too few items for the spread of the values.
    FewItems,
    /// The difference is real, but it may be smaller or larger than the margin.
    Margin,
    /// The difference is not larger than that between identical runs.
    Noise,
    /// No item differs, and the margin is 0: no number of items would show equivalence.
    NoMargin,
}

/// The test behind a p-value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Method {
    /// Sign flips of the differences, all of them.
    PermutationExact,
    /// 10,000 random sign flips of the differences.
    Permutation,
    /// Sign flips of the sums of clusters.
    ClusterPermutation,
    /// McNemar's exact test.
    McnemarExact,
    /// McNemar's test by χ² with correction for continuity.
    McnemarChiSquared,
    /// Welch's t test of different items.
    Welch,
    /// Fisher's exact test of different items.
    Fisher,
}

impl Method {
    /// The name of the test.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PermutationExact => "exact sign-flip permutation",
            Self::Permutation => "sign-flip permutation",
            Self::ClusterPermutation => "sign-flip permutation of clusters",
            Self::McnemarExact => "McNemar, exact",
            Self::McnemarChiSquared => "McNemar, χ²",
            Self::Welch => "Welch's t",
            Self::Fisher => "Fisher's exact",
        }
    }
}

/// The difference between identical runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NoiseFloor {
    /// The source of the identical runs.
    pub source: NoiseSource,
    /// Number of items that were compared.
    pub n: u64,
    /// The share of these items whose values differ by more than the margin, 0 to 1.
    pub flip_share: f64,
    /// A difference up to this value is not called better or worse, in the unit of the metric.
    pub floor: f64,
}

/// The source of identical runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum NoiseSource {
    /// Repetitions of the items within a run.
    Repetitions,
    /// Another run of the baseline.
    SecondRun,
}

/// The metrics within a group of items. P-values are adjusted over all segments together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SegmentComparison {
    /// The metadata key.
    pub key: String,
    /// Its value; `null` for items without the key.
    pub value: Option<String>,
    /// Number of items.
    pub n_items: u64,
    /// The metrics.
    pub metrics: Vec<MetricComparison>,
}

/// An item over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ItemComparison {
    /// The item.
    pub item_id: String,
    /// The sum of its changes over scores with a direction, in ranges of these scores; of several runs the smallest.
    /// Negative if it became worse.
    pub change: f64,
    /// Whether a score became worse in a run.
    pub is_regressed: bool,
    /// Whether a score became better in a run.
    pub is_improved: bool,
    /// Whether a score with or without a direction changed in a run.
    pub is_changed: bool,
    /// Whether a result failed.
    pub has_error: bool,
    /// Whether a run has no result.
    pub is_missing: bool,
    /// Whether one score became better and another one worse in the same run.
    pub disagrees: bool,
    /// Whether a run used another expected output than the baseline. The item is not part of the differences then.
    pub is_excluded: bool,
    /// The runs; `null` where a run has no result.
    pub runs: Vec<Option<ItemRun>>,
}

/// The results of a run for an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ItemRun {
    /// The trace of the first result.
    pub trace_id: TraceId,
    /// The observation of the first result; `null` if the item is the trace.
    pub observation_id: Option<ObservationId>,
    /// Number of results.
    pub n_results: u64,
    /// Number of failed results.
    pub n_errors: u64,
    /// The values in the order of the metrics; `null` where absent.
    pub values: Vec<Option<f64>>,
    /// The categories in the order of the metrics; `null` for numbers.
    pub labels: Vec<Option<String>>,
}
