//! Metric queries: views with dimensions and measures, aggregations, and time buckets.
//!
//! Sums computed by a database and values aggregated in memory go through the same [`Accumulator`], so that a result does
//! not depend on where it was computed.

mod accumulate;
mod bucket;

pub use accumulate::{Accumulator, Partial};
pub use bucket::Granularity;

use crate::filter::{Column, ColumnKind, Filter, OBSERVATIONS, TRACES};
use crate::named::named_enum;
use crate::time::Timestamp;

named_enum!(
    /// The rows of a metric query.
    MetricView {
        Observations = "observations",
        ScoresNumeric = "scores-numeric",
        ScoresBoolean = "scores-boolean",
        ScoresCategorical = "scores-categorical",
        Traces = "traces",
    }
);

named_enum!(
    /// The function that combines the values of a measure.
    Aggregation {
        Sum = "sum",
        Avg = "avg",
        Count = "count",
        Max = "max",
        Min = "min",
        P50 = "p50",
        P75 = "p75",
        P90 = "p90",
        P95 = "p95",
        P99 = "p99",
        Histogram = "histogram",
        Uniq = "uniq",
    }
);

impl Aggregation {
    /// Whether single values are needed rather than sums, counts and extremes.
    #[must_use]
    pub const fn needs_values(self) -> bool {
        matches!(self, Self::P50 | Self::P75 | Self::P90 | Self::P95 | Self::P99 | Self::Histogram)
    }

    /// Whether sums, counts and extremes are sufficient.
    #[must_use]
    pub const fn is_mergeable(self) -> bool {
        matches!(self, Self::Sum | Self::Avg | Self::Count | Self::Max | Self::Min)
    }
}

/// A dimension of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: &'static str,
    /// High cardinality: up to one value per row.
    pub is_wide: bool,
}

/// A measure of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name.
    pub name: &'static str,
    /// Numeric; other measures can only be counted.
    pub is_number: bool,
}

const fn narrow(name: &'static str) -> Dimension {
    Dimension { name, is_wide: false }
}

const fn wide(name: &'static str) -> Dimension {
    Dimension { name, is_wide: true }
}

const fn number(name: &'static str) -> Measure {
    Measure { name, is_number: true }
}

const fn text(name: &'static str) -> Measure {
    Measure { name, is_number: false }
}

const OF_OBSERVATIONS: &[Dimension] = &[
    wide("id"),
    wide("traceId"),
    wide("userId"),
    wide("sessionId"),
    wide("parentObservationId"),
    wide("experimentId"),
    wide("experimentName"),
    wide("experimentDatasetId"),
    narrow("environment"),
    narrow("type"),
    narrow("name"),
    narrow("level"),
    narrow("version"),
    narrow("release"),
    narrow("tags"),
    narrow("traceName"),
    narrow("traceRelease"),
    narrow("traceVersion"),
    narrow("providedModelName"),
    narrow("promptName"),
    narrow("promptVersion"),
    narrow("isRootObservation"),
    narrow("startTimeMonth"),
    narrow("toolNames"),
    narrow("calledToolNames"),
    narrow("costType"),
    narrow("usageType"),
];

const OF_TRACES: &[Dimension] = &[
    wide("id"),
    narrow("name"),
    narrow("tags"),
    wide("userId"),
    wide("sessionId"),
    narrow("release"),
    narrow("version"),
    narrow("environment"),
    narrow("timestampMonth"),
];

macro_rules! score_dimensions {
    ($value:literal) => {
        &[
            wide("id"),
            wide("traceId"),
            wide("observationId"),
            wide("userId"),
            wide("sessionId"),
            wide("datasetRunId"),
            wide("experimentId"),
            wide("experimentName"),
            narrow("environment"),
            narrow("name"),
            narrow("source"),
            narrow("dataType"),
            narrow("configId"),
            narrow("timestampMonth"),
            narrow("timestampDay"),
            narrow($value),
            narrow("traceName"),
            narrow("tags"),
            narrow("traceRelease"),
            narrow("traceVersion"),
            narrow("observationName"),
            narrow("observationModelName"),
            narrow("observationPromptName"),
            narrow("observationPromptVersion"),
        ]
    };
}

const OF_NUMBERS: &[Dimension] = score_dimensions!("value");
const OF_BOOLEANS: &[Dimension] = score_dimensions!("booleanValue");
const OF_CATEGORIES: &[Dimension] = score_dimensions!("stringValue");

const OBSERVATION_MEASURES: &[Measure] = &[
    number("count"),
    number("latency"),
    number("streamingLatency"),
    number("timeToFirstToken"),
    number("inputTokens"),
    number("outputTokens"),
    number("totalTokens"),
    number("tokensPerSecond"),
    number("outputTokensPerSecond"),
    number("inputCost"),
    number("outputCost"),
    number("totalCost"),
    number("countScores"),
    number("toolDefinitions"),
    number("toolCalls"),
    text("uniqueUserIds"),
    text("uniqueSessionIds"),
    text("traceId"),
    number("costByType"),
    number("usageByType"),
];

const SCORE_MEASURES: &[Measure] = &[number("count"), number("value")];
const CATEGORY_MEASURES: &[Measure] = &[number("count")];

const TRACE_MEASURES: &[Measure] = &[
    number("count"),
    number("observationsCount"),
    number("scoresCount"),
    text("uniqueUserIds"),
    text("uniqueSessionIds"),
    number("latency"),
    number("totalTokens"),
    number("totalCost"),
];

/// Filter columns of the scores of metrics.
pub static METRIC_SCORES: &[Column] = &[
    Column::new("id", ColumnKind::Text),
    Column::new("name", ColumnKind::Options),
    Column::new("source", ColumnKind::Options),
    Column::new("dataType", ColumnKind::Options),
    Column::new("environment", ColumnKind::Options),
    Column::new("timestamp", ColumnKind::Time),
    Column::new("value", ColumnKind::Number),
    Column::new("booleanValue", ColumnKind::Bool),
    Column::new("stringValue", ColumnKind::Options),
    Column::new("traceId", ColumnKind::Text),
    Column::new("observationId", ColumnKind::Text),
    Column::new("sessionId", ColumnKind::Text),
    Column::new("datasetRunId", ColumnKind::Text),
    Column::new("experimentId", ColumnKind::Text),
    Column::new("configId", ColumnKind::Text),
    Column::new("userId", ColumnKind::Text),
    Column::new("traceName", ColumnKind::Options),
    Column::new("traceRelease", ColumnKind::Text),
    Column::new("traceVersion", ColumnKind::Text),
    Column::new("observationName", ColumnKind::Options),
    Column::new("observationModelName", ColumnKind::Options),
    Column::new("observationPromptName", ColumnKind::Options),
    Column::new("observationPromptVersion", ColumnKind::Number),
    Column::new("tags", ColumnKind::List),
    Column::new("metadata", ColumnKind::Members),
];

impl MetricView {
    /// Its dimensions.
    #[must_use]
    pub const fn dimensions(self) -> &'static [Dimension] {
        match self {
            Self::Observations => OF_OBSERVATIONS,
            Self::ScoresNumeric => OF_NUMBERS,
            Self::ScoresBoolean => OF_BOOLEANS,
            Self::ScoresCategorical => OF_CATEGORIES,
            Self::Traces => OF_TRACES,
        }
    }

    /// Its measures.
    #[must_use]
    pub const fn measures(self) -> &'static [Measure] {
        match self {
            Self::Observations => OBSERVATION_MEASURES,
            Self::ScoresNumeric | Self::ScoresBoolean => SCORE_MEASURES,
            Self::ScoresCategorical => CATEGORY_MEASURES,
            Self::Traces => TRACE_MEASURES,
        }
    }

    /// The filter columns of its rows.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Observations => OBSERVATIONS,
            Self::Traces => TRACES,
            _ => METRIC_SCORES,
        }
    }

    /// The time column.
    #[must_use]
    pub const fn time(self) -> &'static str {
        match self {
            Self::Observations => "startTime",
            _ => "timestamp",
        }
    }

    /// The dimension of that name.
    #[must_use]
    pub fn dimension(self, name: &str) -> Option<Dimension> {
        let found = self.dimensions().iter().find(|one| one.name == name);
        found.copied()
    }

    /// The measure of that name.
    #[must_use]
    pub fn measure(self, name: &str) -> Option<Measure> {
        let found = self.measures().iter().find(|one| one.name == name);
        found.copied()
    }
}

/// A measure with its aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The measure.
    pub measure: Measure,
    /// The aggregation.
    pub aggregation: Aggregation,
}

impl Metric {
    /// The key in responses.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}_{}", self.aggregation, self.measure.name)
    }
}

/// A validated metric query.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricQuery {
    /// The rows.
    pub view: MetricView,
    /// Boolean scores count as numbers too.
    pub with_booleans: bool,
    /// The dimensions of the groups.
    pub dimensions: Vec<Dimension>,
    /// At least one.
    pub metrics: Vec<Metric>,
    /// Condition on the rows.
    pub filter: Filter,
    /// Start of the time range, inclusive.
    pub from: Timestamp,
    /// End of the time range, exclusive.
    pub to: Timestamp,
    /// The size of the time buckets; absent without grouping by time.
    pub granularity: Option<Granularity>,
    /// Limits the result to the groups with the largest values; more may be returned.
    pub top: Option<TopGroups>,
}

/// The groups with the largest values of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopGroups {
    /// Index of the metric.
    pub metric: usize,
    /// Number of groups.
    pub n: usize,
}

/// One group of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricGroup {
    /// Start of its time bucket.
    pub at: Option<Timestamp>,
    /// Values of the dimensions; `None` if the rows have no value.
    pub dimensions: Vec<Option<String>>,
    /// One for each metric.
    pub values: Vec<Accumulator>,
}
