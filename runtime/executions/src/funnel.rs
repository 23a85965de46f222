//! What happened to the targets of a rule in a period, and its failures by class.

use perpend_db::{checked, query};
use perpend_domain::evaluation::{EndReason, ExecutionState};
use perpend_domain::funnel::Funnel;
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::counts::RuleCount;
use super::read::StateCount;
use crate::{Error, Ledger};

/// The funnel of the counters of a period and the current number of executions by state.
#[must_use]
pub fn rule_funnel(counts: &[RuleCount], states: &[StateCount]) -> Funnel {
    let counted = |reason: &str| {
        let of_reason = counts.iter().filter(|count| count.reason == reason);
        of_reason.map(|count| count.n).sum::<u64>()
    };
    let open = |state| {
        let of_state = states.iter().filter(|count| count.state == state);
        of_state.map(|count| count.n).sum::<u64>()
    };
    let mut funnel = Funnel {
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
        ..Funnel::default()
    };
    funnel.matched = funnel.sampled_out + funnel.sampled;
    funnel.arrived = funnel.refused() + funnel.matched;
    let accounted = funnel.waiting() + funnel.ended();
    funnel.carried_over = accounted.saturating_sub(funnel.made);
    funnel.missing = funnel.made.saturating_sub(accounted);
    funnel
}

/// Failed executions of one class.
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
/// Failed executions examined for the failures of evaluators.
const MAX_FAILED: u32 = 10_000;
const FAILURES_BY_EVALUATOR: &str = "
    SELECT evaluator_id, error_class, COUNT(*), MIN(finished_at), MAX(finished_at)
      FROM (SELECT evaluator_id, error_class, finished_at FROM executions
             WHERE project_id = $1 AND state = 6 AND finished_at >= $2
             ORDER BY finished_at DESC LIMIT $3) f
     WHERE error_class IS NOT NULL
     GROUP BY evaluator_id, error_class ORDER BY COUNT(*) DESC, evaluator_id, error_class";

/// The evaluator before the columns of [`FailureRow`].
type FailureOfEvaluatorRow = (String, String, i64, Option<i64>, Option<i64>);
/// Class, number, and the ends of the first and the last execution.
type FailureRow = (String, i64, Option<i64>, Option<i64>);

fn failure_count((class, n, first, last): FailureRow) -> Result<FailureCount, Error> {
    Ok(FailureCount {
        class: checked("execution", &class)?,
        n: n.unsigned_abs(),
        first_at: Timestamp::from_micros(first.unwrap_or_default()),
        last_at: Timestamp::from_micros(last.unwrap_or_default()),
    })
}

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
        let rows: Vec<FailureRow> = query(FAILURES)
            .bind(project.as_str())
            .bind(rule.as_str())
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(failure_count).collect()
    }

    /// Failed executions since a time by evaluator and class, the most frequent first; among the last 10,000
    /// failed executions of the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn failures_by_evaluator(
        &self,
        project: &ProjectId,
        since: Timestamp,
    ) -> Result<Vec<(EvaluatorId, FailureCount)>, Error> {
        let rows: Vec<FailureOfEvaluatorRow> = query(FAILURES_BY_EVALUATOR)
            .bind(project.as_str())
            .bind(since.as_micros())
            .bind(i64::from(MAX_FAILED))
            .fetch_all(&self.pool)
            .await?;
        let mut failures = Vec::with_capacity(rows.len());
        for (evaluator, class, n, first, last) in rows {
            let evaluator = checked("execution", &evaluator)?;
            failures.push((evaluator, failure_count((class, n, first, last))?));
        }
        Ok(failures)
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
        let funnel = rule_funnel(&counts, &states);
        assert_eq!((funnel.arrived, funnel.matched, funnel.sampled), (100, 28, 10));
        assert_eq!(funnel.refused() + funnel.sampled_out + funnel.sampled, funnel.arrived);
        assert_eq!((funnel.waiting(), funnel.ended(), funnel.carried_over), (3, 9, 3));
        assert_eq!(funnel.made + funnel.carried_over, funnel.waiting() + funnel.ended());
        let gone = rule_funnel(&[counted("made", 4), counted("completed", 1)], &[]);
        assert_eq!((gone.carried_over, gone.missing), (0, 3));
    }
}
