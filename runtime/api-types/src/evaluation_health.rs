//! The health of evaluation, and the requeue of failed executions.

use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationProblemKind {
    /// The rule is paused.
    RulePaused,
    /// An evaluator of the rule is paused.
    EvaluatorPaused,
    /// The provider of a connection used by an evaluator of the rule does not accept requests at the moment.
    ConnectionClosed,
    /// Executions of the rule have been due for more than 30 seconds and none of them has run.
    ExecutionsOverdue,
}

/// The state of evaluation in a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationStatus {
    /// No problems.
    Ok,
    /// Problems are listed.
    Failing,
}

/// A problem that prevents an enabled rule from scoring.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationProblem {
    /// The kind of the problem.
    pub kind: EvaluationProblemKind,
    /// The rule.
    pub evaluation_rule_id: RuleId,
    /// Its name.
    pub evaluation_rule_name: String,
    /// The evaluator, if the problem belongs to one.
    pub evaluator_id: Option<EvaluatorId>,
    /// The LLM connections of the evaluator.
    pub providers: Vec<String>,
    /// A code such as `LLM_CONNECTION_AUTH_INVALID`; `RETRY_AFTER` for a closed connection, `null` for overdue executions.
    pub reason: Option<String>,
    /// Human-readable.
    pub message: String,
    /// Start of the problem.
    pub since: Timestamp,
    /// Automatic end of the problem; for `PLUGIN_FAILING` and `UPSTREAM_FAILING` the time of the next probe.
    pub until: Option<Timestamp>,
    /// Number of waiting executions.
    pub waiting: u64,
}

/// The health of evaluation in the project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EvaluationHealth {
    /// `failing` if there are problems.
    pub status: EvaluationStatus,
    /// Ordered by rule.
    pub problems: Vec<EvaluationProblem>,
}

/// Selects failed executions to requeue; all without a member.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequeueInput {
    /// Only of this class, such as `upstream_unavailable`.
    pub error_class: Option<String>,
    /// Only of this rule.
    pub evaluation_rule_id: Option<String>,
    /// Most executions, the last failed first: 1 to 10,000; 1,000 when absent.
    pub limit: Option<u32>,
}

/// The number of requeued executions.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct RequeueResponse {
    /// Executions.
    pub requeued: u64,
}
