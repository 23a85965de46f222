//! Whether evaluation goes on, and failed executions that go back into the queue together.

use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationProblemKind {
    /// The rule is paused.
    RulePaused,
    /// An evaluator of the rule is paused.
    EvaluatorPaused,
    /// The provider of a connection that an evaluator of the rule asks does not accept requests: it asked to wait.
    ConnectionClosed,
    /// Executions of the rule have been due for more than 30 seconds, and none of them ran.
    ExecutionsOverdue,
}

/// Whether the evaluations of a project go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationStatus {
    /// Nothing is in the way.
    Ok,
    /// What is in the way is listed.
    Failing,
}

/// Something that keeps an enabled rule from scoring.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationProblem {
    /// What is wrong.
    pub kind: EvaluationProblemKind,
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// Its name.
    pub evaluation_rule_name: String,
    /// The evaluator, where it is one's.
    pub evaluator_id: Option<EvaluatorId>,
    /// The LLM connections that the evaluator asks.
    pub providers: Vec<String>,
    /// For programs, such as `LLM_CONNECTION_AUTH_INVALID`; `RETRY_AFTER` for a closed connection, `null` for overdue executions.
    pub reason: Option<String>,
    /// For people.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself, where it does; for `PLUGIN_FAILING` and `UPSTREAM_FAILING` when one execution is tried next.
    pub until: Option<Timestamp>,
    /// Executions that wait for it.
    pub waiting: u64,
}

/// Whether the evaluations of the project go on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluationHealth {
    /// `failing` with any problem.
    pub status: EvaluationStatus,
    /// By rule.
    pub problems: Vec<EvaluationProblem>,
}

/// Which failed executions go back into the queue: without a member, all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequeueInput {
    /// Of this class alone, such as `upstream_unavailable`.
    pub error_class: Option<String>,
    /// Of this rule alone.
    pub evaluation_rule_id: Option<String>,
    /// At most so many, the last failed first: 1 to 10,000, 1,000 when absent.
    pub limit: Option<u32>,
}

/// How many went back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct RequeueResponse {
    /// Executions.
    pub requeued: u64,
}
