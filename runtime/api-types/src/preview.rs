//! What a rule would do, before it is switched on.

use perpend_domain::ids::{EvaluatorId, ObservationId, SessionId, TraceId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::trial::TrialItem;

/// What a rule would do.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulePreview)]
pub struct Preview {
    /// The targets that the other numbers come from.
    pub examined: ExaminedTargets,
    /// Targets of the last 24 hours.
    pub last_day: MatchCounts,
    /// Targets of the last seven days.
    pub last_week: MatchCounts,
    /// The newest targets in the sample, at most ten; where the sample is empty, targets that match.
    pub examples: Vec<RulePreviewExample>,
    /// Targets whose mapped parts were looked for: the newest 200 of the same.
    pub checked_count: u32,
    /// Mapped parts that some of these lack.
    pub missing_variables: Vec<MissingPart>,
    /// What each evaluator would do in a day.
    pub evaluators: Vec<Estimate>,
    /// What all of them would cost in a day, in US dollars; `null` where that of one is not known.
    pub cost_per_day_usd: Option<f64>,
}

/// Targets that were looked at, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewExamined)]
pub struct ExaminedTargets {
    /// How many.
    pub count: u32,
    /// They are all of the last seven days. Where they are not, the matches count those since `since`.
    pub is_whole: bool,
    /// How far back they reach.
    pub since: Timestamp,
}

/// Targets of a span of time.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PreviewMatches)]
pub struct MatchCounts {
    /// The filter takes them.
    pub matching: u32,
    /// Of these, in the sample.
    pub sampled: u32,
}

/// A target that the rule would score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewExample)]
pub struct RulePreviewExample {
    /// The trace; `null` for a session.
    pub trace_id: Option<TraceId>,
    /// The observation, where that is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, where that is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// Its name.
    pub name: Option<String>,
    /// When it began.
    pub timestamp: Timestamp,
    /// What the first evaluator would be given; `null` where it would not be asked.
    pub item: Option<TrialItem>,
    /// Why it would not be asked.
    pub error_class: Option<String>,
    /// The same for people.
    pub error_message: Option<String>,
}

/// A mapped part that targets lack.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewMissing)]
pub struct MissingPart {
    /// The evaluator that it is mapped for.
    pub evaluator_id: EvaluatorId,
    /// The variable.
    pub variable: String,
    /// How many of the checked targets lack it.
    pub count: u32,
}

/// What a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = PreviewBasis)]
pub enum EstimateBasis {
    /// The mean of its last executions.
    Executions,
    /// A trial on the first example.
    Trial,
    /// It asks no model.
    Free,
    /// Nothing it could be tried on.
    Unknown,
}

/// What an evaluator would do in a day.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreviewEstimate)]
pub struct Estimate {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Targets in a day, reckoned from those that were looked at.
    pub executions_per_day: f64,
    /// What the cost and the duration come from.
    pub basis: EstimateBasis,
    /// Of one execution, in US dollars; `null` where it is not known.
    pub cost_per_execution_usd: Option<f64>,
    /// The same times the executions of a day.
    pub cost_per_day_usd: Option<f64>,
    /// How long its models would be busy for the targets of a day, with as many calls at a time as the connection
    /// allows; `null` where it is not known.
    pub seconds_per_day: Option<f64>,
}
