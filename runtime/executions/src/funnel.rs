//! What happened to the targets of a rule in a period, and its failures by class.

use perpend_db::{checked, query};
use perpend_domain::evaluation::{EndReason, ExecutionState};
use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::counts::RuleCount;
use super::read::StateCount;
use crate::{Error, Ledger};

/// Targets and executions of a rule in a period.
///
/// Every examination of a target is counted once: `arrived` is the sum of the refusals, of `sampled_out` and of
/// `sampled`. Each evaluator of the rule takes or refuses a sampled target: `made`, `duplicate`, `late` and `budget`.
/// `made + carried_over` is the sum of the ends and of the open executions, unless executions were deleted with their
/// targets: these are `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Funnel {
    /// Examined targets.
    pub arrived: u64,
    /// Refused because the rule was off.
    pub rule_inactive: u64,
    /// Refused because the rule was paused.
    pub rule_paused: u64,
    /// Refused because they belong to the server itself.
    pub internal_environment: u64,
    /// Refused by a rule of experiments because they are not items.
    pub not_an_item: u64,
    /// Items of runs whose trace or root did not arrive in time.
    pub root_missing: u64,
    /// Refused by the filter.
    pub not_matched: u64,
    /// Passed the filter.
    pub matched: u64,
    /// Passed the filter and are not in the sample.
    pub sampled_out: u64,
    /// In the sample.
    pub sampled: u64,
    /// Already had an execution.
    pub duplicate: u64,
    /// Already had an execution, and continued afterwards.
    pub late: u64,
    /// Left without an execution because a budget was exhausted.
    pub budget: u64,
    /// Executions made.
    pub made: u64,
    /// Executions that were open at the start of the period, or were requeued in it.
    pub carried_over: u64,
    /// Executions that wait for a worker.
    pub pending: u64,
    /// Executions in progress.
    pub running: u64,
    /// Executions that wait for the next attempt.
    pub delayed: u64,
    /// Executions that wait for the end of a pause or for a budget.
    pub held: u64,
    /// Executions with scores.
    pub scored: u64,
    /// Executions with nothing to measure.
    pub skipped: u64,
    /// Failed executions.
    pub failed: u64,
    /// Cancelled executions.
    pub cancelled: u64,
    /// Executions that neither ended nor are open: deleted with their targets.
    pub missing: u64,
}

impl Funnel {
    /// From the counters of the period and the current number of executions by state.
    #[must_use]
    pub fn new(counts: &[RuleCount], states: &[StateCount]) -> Self {
        let counted = |reason: &str| {
            let of_reason = counts.iter().filter(|count| count.reason == reason);
            of_reason.map(|count| count.n).sum::<u64>()
        };
        let open = |state| {
            let of_state = states.iter().filter(|count| count.state == state);
            of_state.map(|count| count.n).sum::<u64>()
        };
        let mut funnel = Self {
            rule_inactive: counted("rule_inactive"),
            rule_paused: counted("rule_paused"),
            internal_environment: counted("internal_environment"),
            not_an_item: counted("not_an_item"),
            root_missing: counted("root_missing"),
            not_matched: counted("not_matched"),
            sampled_out: counted("sampled_out"),
            sampled: counted(RuleCount::SAMPLED),
            duplicate: counted("duplicate"),
            late: counted("late"),
            budget: counted(RuleCount::BUDGET),
            made: counted("made"),
            pending: open(ExecutionState::Pending),
            running: open(ExecutionState::Running),
            delayed: open(ExecutionState::Delayed),
            held: open(ExecutionState::Held),
            scored: counted(ExecutionState::Completed.as_str()),
            skipped: counted(ExecutionState::Skipped.as_str()),
            failed: counted(ExecutionState::Failed.as_str()),
            cancelled: counted(ExecutionState::Cancelled.as_str()),
            ..Self::default()
        };
        funnel.matched = funnel.sampled_out + funnel.sampled;
        funnel.arrived = funnel.refused() + funnel.matched;
        let accounted = funnel.waiting() + funnel.ended();
        funnel.carried_over = accounted.saturating_sub(funnel.made);
        funnel.missing = funnel.made.saturating_sub(accounted);
        funnel
    }

    /// Targets refused before or by the filter.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.rule_inactive
            + self.rule_paused
            + self.internal_environment
            + self.not_an_item
            + self.root_missing
            + self.not_matched
    }

    /// Open executions.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.pending + self.running + self.delayed + self.held
    }

    /// Executions that ended.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.scored + self.skipped + self.failed + self.cancelled
    }
}

/// Failed executions of one rule and class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// The class.
    pub class: EndReason,
    /// The count.
    pub n: u64,
    /// End of the first one.
    pub first_at: Timestamp,
    /// End of the last one.
    pub last_at: Timestamp,
}

const FAILURES: &str = "
    SELECT error_class, COUNT(*), MIN(finished_at), MAX(finished_at) FROM executions
     WHERE project_id = $1 AND state = 6 AND rule_id = $2 AND error_class IS NOT NULL
     GROUP BY error_class ORDER BY COUNT(*) DESC, error_class";

impl Ledger {
    /// Failed executions of a rule by class, the most frequent first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_failures(
        &self,
        project: &ProjectId,
        rule: &RuleId,
    ) -> Result<Vec<FailureCount>, Error> {
        let rows: Vec<(String, i64, Option<i64>, Option<i64>)> = query(FAILURES)
            .bind(project.as_str())
            .bind(rule.as_str())
            .fetch_all(&self.pool)
            .await?;
        let count = |(class, n, first, last): (String, i64, Option<i64>, Option<i64>)| {
            Ok(FailureCount {
                class: checked("execution", &class)?,
                n: n.unsigned_abs(),
                first_at: Timestamp::from_micros(first.unwrap_or_default()),
                last_at: Timestamp::from_micros(last.unwrap_or_default()),
            })
        };
        rows.into_iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(reason: &str, n: u64) -> RuleCount {
        RuleCount { hour: Timestamp::from_micros(0), reason: reason.to_owned(), n }
    }

    #[test]
    fn the_parts_of_a_funnel_add_up() {
        let counts = [
            counted("not_matched", 70),
            counted("internal_environment", 2),
            counted("sampled_out", 18),
            counted("sampled", 10),
            counted("made", 9),
            counted("duplicate", 1),
            counted("completed", 6),
            counted("completed", 1),
            counted("failed", 2),
            counted("delayed", 5),
        ];
        let states = [
            StateCount { state: ExecutionState::Held, n: 3 },
            StateCount { state: ExecutionState::Failed, n: 40 },
        ];
        let funnel = Funnel::new(&counts, &states);
        assert_eq!((funnel.arrived, funnel.matched, funnel.sampled), (100, 28, 10));
        assert_eq!(funnel.refused() + funnel.sampled_out + funnel.sampled, funnel.arrived);
        assert_eq!((funnel.waiting(), funnel.ended(), funnel.carried_over), (3, 9, 3));
        assert_eq!(funnel.made + funnel.carried_over, funnel.waiting() + funnel.ended());
        let gone = Funnel::new(&[counted("made", 4), counted("completed", 1)], &[]);
        assert_eq!((gone.carried_over, gone.missing), (0, 3));
    }
}
