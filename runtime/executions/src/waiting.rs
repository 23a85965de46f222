//! Executions that wait longer than they should, and failed executions that are requeued together.

use perpend_db::{checked, query, query_scalar};
use perpend_domain::evaluation::{EndReason, ExecutionState};
use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::codes::Coded as _;
use super::read::StateCount;
use super::row::state_code;
use crate::{Error, Ledger};

/// `project_id || ''` keeps SQLite from reading the finished executions of the project to find the held ones.
const HELD: &str = "
    SELECT rule_id, evaluator_id, COUNT(*), MIN(created_at) FROM executions
     WHERE state = 3 AND project_id || '' = $1 GROUP BY rule_id, evaluator_id ORDER BY rule_id, evaluator_id";
const OVERDUE: &str = "
    SELECT rule_id, evaluator_id, COUNT(*), MIN(due_at) FROM executions
     WHERE state < 3 AND due_at < $2 AND queue IN (SELECT id FROM execution_queues WHERE project_id = $1)
     GROUP BY rule_id, evaluator_id ORDER BY rule_id, evaluator_id";
/// An empty text matches all.
const DEAD: &str = "
    SELECT id FROM executions
     WHERE project_id = $1 AND state = 6 AND ($2 = '' OR error_class = $2) AND ($3 = '' OR rule_id = $3)
     ORDER BY finished_at DESC, id DESC LIMIT $4";

/// The condition on `queue` makes SQLite read the index of open executions.
const OPEN_STATES: &str = "
    SELECT state, COUNT(*) FROM
           (SELECT state FROM executions WHERE state < 3 AND queue >= 0 LIMIT $1) o
     GROUP BY state";
const HELD_COUNT: &str = "
    SELECT COUNT(*) FROM (SELECT 1 AS one FROM executions WHERE state = 3 LIMIT $1) h";
const FAILED_SINCE: &str = "
    SELECT COUNT(*) FROM (SELECT 1 AS one FROM executions
     WHERE project_id = $1 AND state = 6 AND finished_at >= $2 LIMIT $3) f";

/// Number of waiting executions of a rule and evaluator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingCount {
    /// The rule.
    pub rule: RuleId,
    /// The evaluator.
    pub evaluator: EvaluatorId,
    /// The count.
    pub n: u64,
    /// Start of the wait of the oldest one.
    pub since: Timestamp,
}

/// Selects failed executions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedExecutionFilter {
    /// Only of this class.
    pub class: Option<EndReason>,
    /// Only of this rule.
    pub rule: Option<RuleId>,
}

type Row = (String, String, i64, i64);

fn waiting((rule, evaluator, n, since): Row) -> Result<WaitingCount, Error> {
    Ok(WaitingCount {
        rule: checked("execution", &rule)?,
        evaluator: checked("execution", &evaluator)?,
        n: n.unsigned_abs(),
        since: Timestamp::from_micros(since),
    })
}

impl Ledger {
    /// Held executions of a project, by rule and evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn held_counts(&self, project: &ProjectId) -> Result<Vec<WaitingCount>, Error> {
        let rows: Vec<Row> = self.pool.select(HELD, &[project.as_str().into()]).await?;
        rows.into_iter().map(waiting).collect()
    }

    /// Executions of a project that were due, or whose lease ended, before the time, by rule and evaluator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn overdue_counts(
        &self,
        project: &ProjectId,
        before: Timestamp,
    ) -> Result<Vec<WaitingCount>, Error> {
        let args = [project.as_str().into(), before.as_micros().into()];
        let rows: Vec<Row> = self.pool.select(OVERDUE, &args).await?;
        rows.into_iter().map(waiting).collect()
    }

    /// Open executions of all projects by state; a state without any is missing. Counts up to `limit` held ones and
    /// up to `limit` others. Crosses tenants: for metrics.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_counts(&self, limit: u32) -> Result<Vec<StateCount>, Error> {
        let limit = i64::from(limit);
        let rows: Vec<(i16, i64)> = query(OPEN_STATES).bind(limit).fetch_all(&self.pool).await?;
        let n_held: i64 = query_scalar(HELD_COUNT).bind(limit).fetch_one(&self.pool).await?;
        let held = (state_code(ExecutionState::Held), n_held);
        let count = |(code, n): (i16, i64)| {
            Ok(StateCount { state: ExecutionState::of_code(code)?, n: n.unsigned_abs() })
        };
        rows.into_iter().chain([held]).map(count).collect()
    }

    /// Number of executions that failed at the time or later, counted up to `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn n_failed_since(
        &self,
        project: &ProjectId,
        since: Timestamp,
        limit: u32,
    ) -> Result<u64, Error> {
        let n: i64 = query_scalar(FAILED_SINCE)
            .bind(project.as_str())
            .bind(since.as_micros())
            .bind(i64::from(limit))
            .fetch_one(&self.pool)
            .await?;
        Ok(n.unsigned_abs())
    }

    /// Puts failed executions back into the queue, the last first and at most `limit`. Returns their number.
    ///
    /// # Errors
    /// When the database fails; those before stay in the queue then.
    pub async fn requeue_failed(
        &self,
        project: &ProjectId,
        failed: &FailedExecutionFilter,
        limit: u32,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let args = [
            project.as_str().into(),
            failed.class.map_or("", EndReason::as_str).into(),
            failed.rule.as_ref().map_or("", RuleId::as_str).into(),
            i64::from(limit).into(),
        ];
        let ids: Vec<(Vec<u8>,)> = self.pool.select(DEAD, &args).await?;
        let mut n_requeued = 0;
        for (id,) in ids {
            let id: ExecutionId = super::row::id_of(&id)?;
            match self.requeue_execution(project, &id, now).await {
                Ok(()) => n_requeued += 1,
                // Another request has requeued it in the meantime.
                Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(n_requeued)
    }
}
