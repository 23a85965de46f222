//! The preview of a rule.

use perpend_domain::ids::{EvaluatorId, ObservationId, SessionId, TraceId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::trial::TrialItem;

/// The expected effect of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulePreview)]
pub struct Preview {
    /// The targets that the numbers are based on.
    pub examined: ExaminedTargets,
    /// Targets of the last 24 hours.
    pub last_day: MatchCounts,
    /// Targets of the last seven days.
    pub last_week: MatchCounts,
    /// The newest targets in the sample, at most ten; matching targets if the sample is empty.
    pub examples: Vec<RulePreviewExample>,
    /// Number of targets whose mapped parts were checked: at most the newest 200.
    pub checked_count: u32,
    /// Mapped parts that are absent in some of these.
    pub missing_variables: Vec<MissingPart>,
    /// Estimates per evaluator.
    pub evaluators: Vec<Estimate>,
    /// Estimated cost per day, in US dollars; `null` if the cost of one evaluator is unknown.
    pub cost_per_day_usd: Option<f64>,
}

/// The examined targets, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewExamined)]
pub struct ExaminedTargets {
    /// Number of targets.
    pub count: u32,
    /// Whether they are all targets of the last seven days; otherwise the matches are since `since`.
    pub is_whole: bool,
    /// The oldest examined time.
    pub since: Timestamp,
}

/// Targets of a period.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PreviewMatches)]
pub struct MatchCounts {
    /// Targets that match the filter.
    pub matching: u32,
    /// Matching targets in the sample.
    pub sampled: u32,
}

/// A target that the rule would score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewExample)]
pub struct RulePreviewExample {
    /// The trace; `null` for a session.
    pub trace_id: Option<TraceId>,
    /// The observation, if it is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, if it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// Its name.
    pub name: Option<String>,
    /// Start time.
    pub timestamp: Timestamp,
    /// The input of the first evaluator; `null` if it would not be called.
    pub item: Option<TrialItem>,
    /// The reason why it would not be called.
    pub error_class: Option<String>,
    /// Human-readable.
    pub error_message: Option<String>,
}

/// A mapped part that is absent in targets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewMissing)]
pub struct MissingPart {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The variable.
    pub variable: String,
    /// Number of checked targets without it.
    pub count: u32,
}

/// The basis of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PreviewBasis)]
pub enum EstimateBasis {
    /// The mean of its last executions.
    Executions,
    /// A trial on the first example.
    Trial,
    /// No model is called.
    Free,
    /// No example for a trial.
    Unknown,
}

/// The estimate of one evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewEstimate)]
pub struct Estimate {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Targets per day, extrapolated from the examined ones.
    pub executions_per_day: f64,
    /// The basis of cost and duration.
    pub basis: EstimateBasis,
    /// Cost of one execution, in US dollars; `null` if unknown.
    pub cost_per_execution_usd: Option<f64>,
    /// Cost per day, in US dollars.
    pub cost_per_day_usd: Option<f64>,
    /// Busy time of its models for the targets of a day, in seconds, at the concurrency of the connection; `null` if unknown.
    pub seconds_per_day: Option<f64>,
}
