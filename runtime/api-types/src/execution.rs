//! Executions, counters of a rule, and the explanation of one target.

use std::collections::BTreeMap;

use perpend_domain::evaluation::{self, CompletionReason, ExecutionState};
use perpend_domain::funnel::Funnel;
use perpend_domain::ids::{
    AssignmentId, EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, RuleId, SessionId,
    TraceId,
};
use perpend_domain::plugin::LogLine;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;
use crate::score::SupersededScore;

/// The state in the compatible API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = ExecutionStatus)]
pub enum ExecutionStatus {
    /// Queued or running.
    Pending,
    /// Delayed, or held until a problem is resolved.
    Delayed,
    /// Completed or skipped.
    Completed,
    /// Failed permanently.
    Error,
    /// Cancelled.
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
    /// The shadow version that it runs; its scores are kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    shadow_version: Option<u32>,
    /// `null` for a session and for a run.
    trace_id: Option<TraceId>,
    observation_id: Option<ObservationId>,
    /// The session, if it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    session_id: Option<SessionId>,
    /// The run of an experiment, if it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    run_id: Option<String>,
    /// 0, incremented by each rescoring.
    generation: u32,
    state: ExecutionState,
    status: ExecutionStatus,
    attempts: u32,
    /// Class of the last failure, or the reason of a skip.
    error_class: Option<String>,
    error_message: Option<String>,
    /// Sampling rate in force.
    inclusion_probability: f64,
    /// Rejected by conditions on scores, selected for audit; else absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    audit: bool,
    /// The reason why the target was complete.
    completion_reason: CompletionReason,
    /// Observations of the trace or session when the execution was created.
    observation_count: u32,
    /// Observations that arrived after it had read the target.
    late_observation_count: u32,
    created_at: Timestamp,
    /// Next attempt; `null` once it has ended.
    due_at: Option<Timestamp>,
    /// The firing of the schedule of its rule for which it waits or waited; absent for other rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    firing_at: Option<Timestamp>,
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
            run_id: made.target.run().map(str::to_owned),
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
            firing_at: execution.firing_at,
            first_attempt_at: execution.first_attempt_at,
            finished_at: execution.finished_at,
        }
    }
}

/// An attempt without a score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedAttempt {
    /// From 1.
    pub number: u32,
    /// End time.
    pub ended_at: Timestamp,
    /// A code.
    pub error_class: String,
    /// Human-readable.
    pub error_message: String,
    /// The version that ran.
    pub evaluator_version_id: Option<EvaluatorVersionId>,
    /// CPU time of the guest.
    pub cpu_microseconds: u64,
}

impl From<evaluation::Attempt> for FailedAttempt {
    fn from(attempt: evaluation::Attempt) -> Self {
        Self {
            number: attempt.number,
            ended_at: attempt.ended_at,
            error_class: attempt.failure.class.as_str().to_owned(),
            error_message: attempt.failure.message,
            evaluator_version_id: attempt.version,
            cpu_microseconds: attempt.cpu_us,
        }
    }
}

/// A log line of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// The text.
    pub message: String,
    /// A JSON object as text; it may be truncated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fields: Option<String>,
}

impl From<LogLine> for LogEntry {
    fn from(line: LogLine) -> Self {
        Self { level: line.level, message: line.message, fields: line.fields }
    }
}

/// An execution with its attempts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionWithAttempts {
    /// The execution.
    #[serde(flatten)]
    pub execution: Execution,
    /// Attempts without a score.
    pub failed_attempts: Vec<FailedAttempt>,
    /// Scores replaced by a later execution, or scores of a shadow version: then `supersededBy` is the execution itself.
    pub superseded_scores: Vec<SupersededScore>,
    /// The last log lines of the last attempt with any: up to 50, each truncated at 1,000 characters, kept for 7 days. Absent
    /// if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogEntry>,
    /// Exchanges with model providers in all attempts, the first 1,000; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_calls: Vec<ModelCall>,
    /// Their cost in US dollars. Absent if there are none, or if a price is unknown.
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
    /// The requested model.
    pub model: String,
    /// The model that replied, if the provider reports it.
    pub model_answered: Option<String>,
    /// The method of the structured reply: `json_schema`, `tool`, `json_mode`, `prompt` or `none`.
    pub method: String,
    /// When the request was sent.
    pub started_at: Timestamp,
    /// Until the end of the reply, milliseconds.
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
    /// US dollars; `null` if the price is unknown.
    pub cost_usd: Option<f64>,
    /// The reply came from the cache: no request was sent, and `costUsd` is 0. Tokens are those of the cached reply.
    #[serde(default)]
    pub from_cache: bool,
    /// Cost saved by the cache, in US dollars; `null` if nothing was saved or the price is unknown.
    #[serde(default)]
    pub saved_usd: Option<f64>,
    /// Failure class, such as `rate_limited`; `null` after a usable reply.
    pub error_class: Option<String>,
    /// Human-readable.
    pub error_message: Option<String>,
}

/// The number of targets of a rule with one outcome within an hour.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleCount)]
pub struct HourlyCount {
    /// Start of the hour.
    pub hour: Timestamp,
    /// The outcome.
    pub reason: String,
    /// The number of targets.
    pub count: u64,
}

/// The outcomes of the targets of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RuleCounters)]
pub struct Counters {
    /// By hour and reason.
    pub data: Vec<HourlyCount>,
    /// Current number of executions by state.
    pub states: BTreeMap<String, u64>,
    /// Hours in which an exhausted budget left sampled targets without a score: means over them are biased.
    #[serde(rename = "lostToBudget")]
    pub lost_to_budget: Vec<LostTargets>,
    /// The sums of the period.
    pub funnel: Funnel,
}

/// Sampled targets of one hour that an exhausted budget left without a score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LostToBudget)]
pub struct LostTargets {
    /// Start of the hour.
    pub hour: Timestamp,
    /// The number of targets.
    pub count: u64,
}

/// The outcome of a target for a rule, with its reason.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// The trace; `null` for rules of sessions and runs.
    pub trace_id: Option<TraceId>,
    /// The observation, for observation rules.
    pub observation_id: Option<ObservationId>,
    /// The session, for session rules; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// The run of an experiment, for rules of runs; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub run_id: Option<String>,
    /// The decisive check.
    pub step: String,
    /// A human-readable sentence.
    pub explanation: String,
    /// The data of the check.
    pub details: ExplanationDetails,
    /// Executions of the rule over the target.
    pub executions: Vec<Execution>,
}

/// The data of a check; only the relevant members are present.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExplanationFacts)]
pub struct ExplanationDetails {
    /// Completion time if nothing more arrives; `null` if the target has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Timestamp>)]
    pub complete_at: Option<Option<Timestamp>>,
    /// The rule it depends on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub waiting_for_rule_id: Option<RuleId>,
    /// The firing of the schedule of the rule at which the target is evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub firing_at: Option<Timestamp>,
    /// `true` if only conditions on scores reject the target and it is selected for audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub audit: Option<bool>,
    /// Index of the failed condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub index: Option<usize>,
    /// The failed condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub condition: Option<Value>,
    /// The value of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub actual: Option<Value>,
    /// The sampling value of the target in [0, 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sample: Option<f64>,
    /// The sampling rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub sampling: Option<f64>,
    /// Arrival of the last part of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub arrived_at: Option<Timestamp>,
    /// Creation of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rule_created_at: Option<Timestamp>,
    /// The reason why the target was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub completion_reason: Option<CompletionReason>,
    /// The outcome for each evaluator of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub assignments: Option<Vec<AssignmentFacts>>,
}

/// The outcome for one evaluator of a rule.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentFacts {
    /// The assignment.
    pub assignment_id: AssignmentId,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The shadow version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shadow_version: Option<u32>,
    /// The execution, if one exists.
    pub execution_id: Option<ExecutionId>,
    /// Observations that arrived after it had read the target.
    pub late_observation_count: u32,
    /// Targets that arrive before are skipped, because a budget is exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub skipped_until: Option<Timestamp>,
}
