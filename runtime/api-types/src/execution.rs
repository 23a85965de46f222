//! Why there is a score, or none: executions, counters of a rule, and the explanation of one target.

use std::collections::BTreeMap;

use perpend_domain::evaluation::{self, CompletionReason, ExecutionState};
use perpend_domain::ids::{
    AssignmentId, EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, RuleId, SessionId,
    TraceId,
};
use perpend_domain::plugin::LogLine;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::score::SupersededScore;

/// The word of the compat API for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = ExecutionStatus)]
pub enum ExecutionStatus {
    /// It waits for its turn, or runs.
    Pending,
    /// It waits for a time, or for somebody.
    Delayed,
    /// It ended as it should.
    Completed,
    /// It failed for good.
    Error,
    /// Nobody wants its result any more.
    Cancelled,
}

impl From<ExecutionState> for ExecutionStatus {
    fn from(state: ExecutionState) -> Self {
        match state {
            ExecutionState::Pending | ExecutionState::Running => Self::Pending,
            ExecutionState::Delayed | ExecutionState::Held => Self::Delayed,
            ExecutionState::Completed | ExecutionState::Skipped => Self::Completed,
            ExecutionState::Failed => Self::Error,
            ExecutionState::Cancelled => Self::Cancelled,
        }
    }
}

/// An execution of an evaluator over a target.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    id: ExecutionId,
    evaluation_rule_id: RuleId,
    assignment_id: AssignmentId,
    evaluator_id: EvaluatorId,
    /// The version that ran last.
    evaluator_version_id: Option<EvaluatorVersionId>,
    /// The version it runs, where that is in the shadow: its scores stand aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    shadow_version: Option<u32>,
    /// `null` for one over a session.
    trace_id: Option<TraceId>,
    observation_id: Option<ObservationId>,
    /// The session, for one over a session; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    session_id: Option<SessionId>,
    /// 0, and one more for each time that the target was scored again.
    generation: u32,
    state: ExecutionState,
    status: ExecutionStatus,
    attempts: u32,
    /// Of the last failure, or the reason of a skip.
    error_class: Option<String>,
    error_message: Option<String>,
    /// Sampling rate in force.
    inclusion_probability: f64,
    /// The filter of the rule refused the target for its scores, and the rule took it to see what it misses; else absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    audit: bool,
    /// Why the target was complete.
    completion_reason: CompletionReason,
    /// Observations of the trace or session when the execution was made.
    observation_count: u32,
    /// Observations that came too late for it.
    late_observation_count: u32,
    created_at: Timestamp,
    /// When it is looked at again; `null` once it has ended.
    due_at: Option<Timestamp>,
    first_attempt_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

impl From<&evaluation::Execution> for Execution {
    fn from(execution: &evaluation::Execution) -> Self {
        let made = &execution.made;
        Self {
            id: made.id.clone(),
            evaluation_rule_id: made.rule_id.clone(),
            assignment_id: made.assignment_id.clone(),
            evaluator_id: made.evaluator_id.clone(),
            evaluator_version_id: execution.evaluator_version_id.clone(),
            shadow_version: execution.made.shadow,
            trace_id: made.target.trace().cloned(),
            observation_id: made.target.observation().cloned(),
            session_id: made.target.session().cloned(),
            generation: made.generation,
            state: execution.state,
            status: execution.state.into(),
            attempts: execution.attempts,
            error_class: execution.error_class.map(|class| class.as_str().to_owned()),
            error_message: execution.error_message.clone(),
            inclusion_probability: made.inclusion_probability,
            audit: made.is_audit,
            completion_reason: made.completion,
            observation_count: made.n_observations,
            late_observation_count: execution.n_late,
            created_at: execution.created_at,
            due_at: (!execution.state.is_final()).then_some(execution.due_at),
            first_attempt_at: execution.first_attempt_at,
            finished_at: execution.finished_at,
        }
    }
}

/// An attempt that gave no score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// From 1.
    pub number: u32,
    /// When it ended.
    pub ended_at: Timestamp,
    /// For programs.
    pub error_class: String,
    /// For people.
    pub error_message: String,
    /// What ran.
    pub evaluator_version_id: Option<EvaluatorVersionId>,
    /// CPU time of the guest.
    pub cpu_microseconds: u64,
}

impl From<evaluation::Attempt> for FailedAttempt {
    fn from(attempt: evaluation::Attempt) -> Self {
        Self {
            number: attempt.number,
            ended_at: attempt.ended_at,
            error_class: attempt.why.class.as_str().to_owned(),
            error_message: attempt.why.message,
            evaluator_version_id: attempt.version,
            cpu_microseconds: attempt.cpu_us,
        }
    }
}

/// A line that an evaluator logged.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The text.
    pub message: String,
    /// A JSON object as text; it may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fields: Option<String>,
}

impl From<LogLine> for LogEntry {
    fn from(line: LogLine) -> Self {
        Self { level: line.level, message: line.message, fields: line.fields }
    }
}

/// An execution with what came before its end.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionWithAttempts {
    /// The execution.
    #[serde(flatten)]
    pub execution: Execution,
    /// Attempts that gave no score.
    pub failed_attempts: Vec<FailedAttempt>,
    /// Scores that a later execution took the place of, or that a version in the shadow gave: then `supersededBy` is the
    /// execution itself.
    pub superseded_scores: Vec<SupersededScore>,
    /// The last lines that the evaluator logged in the last attempt that logged any: up to 50, each cut at 1,000
    /// characters, kept for 7 days. Absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogEntry>,
    /// Exchanges with model providers, of all attempts, the first 1,000; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_calls: Vec<ModelCall>,
    /// What they cost together, in US dollars. Absent where there are none, or the price of one is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost_usd: Option<f64>,
}

/// One exchange with a model provider.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// From 1.
    pub attempt: u32,
    /// The name of the connection.
    pub provider: String,
    /// The model that was asked for.
    pub model: String,
    /// The model that answered, where the provider says so.
    pub model_answered: Option<String>,
    /// How a structured reply was asked for: `json_schema`, `tool`, `json_mode`, `prompt` or `none`.
    pub method: String,
    /// When the request was sent.
    pub started_at: Timestamp,
    /// To the end of the answer, milliseconds.
    pub latency_ms: u64,
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Of these, spent on reasoning.
    pub reasoning_tokens: u64,
    /// The provider counted no tokens: they are estimated from bytes.
    pub estimated: bool,
    /// US dollars; `null` where the price of the model is not known.
    pub cost_usd: Option<f64>,
    /// The reply was stored before for an equal request: no provider was asked, and `costUsd` is 0. Tokens are those that the
    /// provider once counted.
    #[serde(default)]
    pub from_cache: bool,
    /// What the provider would have been paid, in US dollars; `null` where nothing was saved, or the price is not known.
    #[serde(default)]
    pub saved_usd: Option<f64>,
    /// Why there was no usable answer, such as `rate_limited`; `null` where there was one.
    pub error_class: Option<String>,
    /// The same for people.
    pub error_message: Option<String>,
}

/// How often something happened to the targets of a rule within an hour.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleCount)]
pub struct HourlyCount {
    /// When the hour began.
    pub hour: Timestamp,
    /// What happened.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// What happened to the targets of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleCounters)]
pub struct Counters {
    /// By hour and reason.
    pub data: Vec<HourlyCount>,
    /// How many executions are in each state now.
    pub states: BTreeMap<String, u64>,
    /// Hours in which a spent budget left sampled targets without a score: means over them are biased.
    #[serde(rename = "lostToBudget")]
    pub lost_to_budget: Vec<LostTargets>,
}

/// Sampled targets of one hour that a spent budget left without a score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LostToBudget)]
pub struct LostTargets {
    /// When the hour began.
    pub hour: Timestamp,
    /// How many.
    pub count: u64,
}

/// What a rule did with a target, and why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// The trace; `null` for rules of sessions.
    pub trace_id: Option<TraceId>,
    /// The observation, for rules whose target is one.
    pub observation_id: Option<ObservationId>,
    /// The session, for rules of sessions; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// The step that decided.
    pub step: String,
    /// The same as a sentence for people.
    pub explanation: String,
    /// The facts behind the step.
    pub details: ExplanationDetails,
    /// Executions of the rule over the target.
    pub executions: Vec<Execution>,
}

/// The facts behind a step: those that it looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplanationFacts)]
pub struct ExplanationDetails {
    /// When the target is complete if nothing more comes; `null`: it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    pub complete_at: Option<Option<Timestamp>>,
    /// The rule that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub waiting_for_rule_id: Option<RuleId>,
    /// `true` where only conditions on scores refuse the target, and the rule takes it to see what it misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub audit: Option<bool>,
    /// Which condition of the filter failed, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub index: Option<usize>,
    /// That condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub condition: Option<Value>,
    /// What the target has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub actual: Option<Value>,
    /// The target's place in [0, 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sample: Option<f64>,
    /// The rate that it is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sampling: Option<f64>,
    /// When the last of the target arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub arrived_at: Option<Timestamp>,
    /// When the rule was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rule_created_at: Option<Timestamp>,
    /// Why the target was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub completion_reason: Option<CompletionReason>,
    /// What became of each evaluator of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assignments: Option<Vec<AssignmentFacts>>,
}

/// What became of one evaluator of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentFacts {
    /// The assignment.
    pub assignment_id: AssignmentId,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The version, where it is in the shadow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shadow_version: Option<u32>,
    /// The execution, where there is one.
    pub execution_id: Option<ExecutionId>,
    /// Observations that came too late for it.
    pub late_observation_count: u32,
    /// Targets that come before are left out, because a budget is spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub skipped_until: Option<Timestamp>,
}
