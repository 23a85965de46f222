//! Outcomes of leases.

use perpend_domain::budget::ExhaustedBudget;
use perpend_domain::evaluation::{AttemptFailure, Execution, ExecutionState};
use perpend_domain::ids::EvaluatorVersionId;
use perpend_domain::plugin::LogLine;
use perpend_domain::score::NewScore;
use perpend_domain::time::Timestamp;

/// The end of one lease of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionEnd<'e> {
    /// The execution, as it was claimed.
    pub execution: &'e Execution,
    /// The version that was used; `None` if no version was reached.
    pub version: Option<EvaluatorVersionId>,
    /// CPU time in the guest, microseconds.
    pub cpu_us: u64,
    /// Whether the version may call models.
    pub calls_models: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// The budget that had too little left for a call.
    pub spent: Option<ExhaustedBudget>,
    /// Log lines of the evaluator.
    pub log: Vec<LogLine>,
}

impl ExecutionEnd<'_> {
    /// Whether responses of models may be kept for another attempt although there will be none.
    pub(super) const fn may_have_responses(&self) -> bool {
        let was_tried = self.calls_models || 0 < self.execution.attempts;
        self.outcome.state().is_final()
            && match self.outcome {
                Outcome::Completed(_) => self.calls_models,
                _ => was_tried,
            }
    }
}

/// Outcome of a lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// At least one score.
    Completed(Vec<NewScore>),
    /// Nothing to measure.
    Skipped(AttemptFailure),
    /// To be retried at the time.
    Delayed(AttemptFailure, Timestamp),
    /// Final failure. `true` if it counts among the consecutive failures that pause the rule.
    Failed(AttemptFailure, bool),
    /// Held until rule and evaluator are no longer paused; fails at the time if they still are.
    Held(AttemptFailure, Timestamp),
    /// Cancelled by deletion or by the loop guard.
    Cancelled(AttemptFailure),
}

impl Outcome {
    /// Whether the outcome ends the execution.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.state().is_final()
    }

    /// The name of the resulting state of the execution.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.state().as_str()
    }

    pub(super) const fn state(&self) -> ExecutionState {
        match self {
            Self::Completed(_) => ExecutionState::Completed,
            Self::Skipped(_) => ExecutionState::Skipped,
            Self::Delayed(..) => ExecutionState::Delayed,
            Self::Failed(..) => ExecutionState::Failed,
            Self::Held(..) => ExecutionState::Held,
            Self::Cancelled(_) => ExecutionState::Cancelled,
        }
    }

    pub(super) const fn due_at(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Delayed(_, at) | Self::Held(_, at) => *at,
            _ => now,
        }
    }

    /// The reason for missing scores; `None` for completed executions.
    pub const fn no_scores(&self) -> Option<&AttemptFailure> {
        match self {
            Self::Completed(_) => None,
            Self::Skipped(why)
            | Self::Delayed(why, _)
            | Self::Failed(why, _)
            | Self::Held(why, _)
            | Self::Cancelled(why) => Some(why),
        }
    }
}
