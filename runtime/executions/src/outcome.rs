//! What a lease of an execution ended in.

use perpend_domain::budget::ExhaustedBudget;
use perpend_domain::evaluation::{AttemptFailure, Execution, ExecutionState};
use perpend_domain::ids::EvaluatorVersionId;
use perpend_domain::plugin::LogLine;
use perpend_domain::score::NewScore;
use perpend_domain::time::Timestamp;

/// The end of one lease of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished<'e> {
    /// The execution, as it was claimed.
    pub execution: &'e Execution,
    /// The version that was used; none when it came to none.
    pub version: Option<EvaluatorVersionId>,
    /// CPU time in the guest.
    pub cpu_us: u64,
    /// Whether the version may ask models.
    pub asks_models: bool,
    /// What it ended in.
    pub outcome: Outcome,
    /// The budget that left no room for a call of it.
    pub spent: Option<ExhaustedBudget>,
    /// What the evaluator logged.
    pub log: Vec<LogLine>,
}

impl Finished<'_> {
    /// Whether answers of models may be kept for another attempt, of which there is none any more.
    pub(super) const fn may_have_answers(&self) -> bool {
        let was_tried = self.asks_models || 0 < self.execution.attempts;
        self.outcome.state().is_final()
            && match self.outcome {
                Outcome::Completed(_) => self.asks_models,
                _ => was_tried,
            }
    }
}

/// What a lease ended in.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Scores, at least one.
    Completed(Vec<NewScore>),
    /// Nothing to measure.
    Skipped(AttemptFailure),
    /// To be tried again at this time.
    Delayed(AttemptFailure, Timestamp),
    /// For good. `true` when it counts among the failures in a row that pause the rule.
    Failed(AttemptFailure, bool),
    /// It waits until its rule and evaluator are no longer paused, and fails at this time if they still are.
    Held(AttemptFailure, Timestamp),
    /// By deletion or the loop guard.
    Cancelled(AttemptFailure),
}

impl Outcome {
    /// Whether the execution ends with it.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.state().is_final()
    }

    /// The state of the execution by its name.
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

    /// Why there are no scores; none for completed ones.
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
