//! Reasons for which executions end or are held without a call.

use perpend_domain::evaluation::{AttemptFailure, NoCallReason, Pause, Rule};
use perpend_domain::ids::EvaluatorId;
use perpend_domain::plugin::FailureClass;

use crate::catalog::PreparedRule;

pub(crate) fn workers_lost() -> AttemptFailure {
    AttemptFailure::new(FailureClass::WorkerLost, "every worker that took it was lost")
}

pub(crate) fn rule_deleted() -> AttemptFailure {
    AttemptFailure::new(NoCallReason::RuleDeleted, "the rule was deleted")
}

pub(crate) fn assignment_removed(shadow: Option<u32>) -> AttemptFailure {
    let message = match shadow {
        None => "the rule no longer uses this evaluator",
        Some(_) => "the rule no longer runs this version in the shadow",
    };
    AttemptFailure::new(NoCallReason::AssignmentRemoved, message)
}

/// Whether a stored rule has an assignment of this evaluator.
pub(crate) fn uses(rule: &Rule, evaluator: &EvaluatorId) -> bool {
    let mut assignments = rule.assignments.iter();
    assignments.any(|each| each.evaluator_id == *evaluator)
}

/// The reason for an execution that is held by a pause of the rule or of one of its evaluators.
pub(crate) fn paused(rule: &PreparedRule, pause: &Pause) -> String {
    let what = match rule.rule.paused {
        Some(_) => "rule",
        None => "evaluator",
    };
    format!("the {what} is paused ({}): {}", pause.reason, pause.message)
}
