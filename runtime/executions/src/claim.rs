//! Leases of executions: the right to end an execution until a time.

use std::collections::BTreeSet;

use perpend_domain::evaluation::{
    AttemptFailure, Execution, ExecutionClass, ExecutionState, Lane, NoCallReason, QueueKind,
};
use perpend_domain::ids::{EvaluatorId, ExecutionId, ProjectId, RuleId};
use perpend_domain::plugin::FailureClass;
use perpend_domain::time::Timestamp;

use super::codes::Coded as _;
use super::counts;
use super::model_calls::delete_ended_responses;
use super::queue;
use super::row::{COLUMNS, ExecutionRow, id_bytes, state_code};
use crate::{Error, Ledger};
use perpend_db::in_transaction;
use perpend_db::{Arg, Sized, query, query_scalar, value_list};

/// The right to end a set of executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Unique per claim. Statements that end the lease repeat it.
    pub fence: i64,
    /// End of the lease. After it another process may claim the executions.
    pub until: Timestamp,
}

/// How executions are released unfinished, without counting an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release<'m> {
    /// Back to `pending`.
    GivenBack,
    /// Delayed until the time, for the reason.
    Postponed(Timestamp, FailureClass),
    /// Held because the rule is disabled or paused, or the evaluator is paused.
    Held {
        /// When the executions fail if they are still held.
        until: Timestamp,
        /// The reason, for people.
        message: &'m str,
    },
}

/// The held executions to resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeScope {
    /// All of them.
    All,
    /// The oldest one, as a probe.
    Oldest,
}

/// Number of executions to claim from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueShare {
    /// The queue's number.
    pub queue: i64,
    /// Upper limit of executions to claim.
    pub n: u32,
}

/// `state < 3` is repeated next to narrower conditions because SQLite uses a partial index only if the query
/// contains the condition of the index. A lost lease counts as an attempt of class `worker_lost`; the caller
/// decides what follows.
const CLAIM_SQLITE: &str = "
    UPDATE executions
       SET state = 1, fence = $1, due_at = $2,
           attempts = attempts + CASE WHEN state = 1 THEN 1 ELSE 0 END,
           error_class = CASE WHEN state = 1 THEN $6 ELSE error_class END,
           first_attempt_at = CASE WHEN state = 1 THEN COALESCE(first_attempt_at, $3)
                                   ELSE first_attempt_at END
     WHERE seq IN (SELECT seq FROM executions WHERE queue = $4 AND due_at <= $3 AND state < 3
                    ORDER BY due_at LIMIT $5)
    RETURNING ";
const CLAIM_POSTGRES: &str = "
    UPDATE executions
       SET state = 1, fence = $1, due_at = $2,
           attempts = attempts + CASE WHEN state = 1 THEN 1 ELSE 0 END,
           error_class = CASE WHEN state = 1 THEN $6 ELSE error_class END,
           first_attempt_at = CASE WHEN state = 1 THEN COALESCE(first_attempt_at, $3)
                                   ELSE first_attempt_at END
     WHERE seq IN (SELECT seq FROM executions WHERE queue = $4 AND due_at <= $3 AND state < 3
                    ORDER BY due_at LIMIT $5 FOR UPDATE SKIP LOCKED)
    RETURNING ";
const FIRST_HELD: &str = "SELECT MIN(due_at) FROM executions WHERE state = 3";
/// By `seq`: a search by fence would read the whole queue.
static RENEW: Sized = Sized::repeatable(|n| {
    format!(
        "UPDATE executions SET due_at = $1 \
         WHERE state = 1 AND fence = $2 AND due_at < $3 AND seq IN ({})",
        value_list(n, 4)
    )
});
const GIVE_BACK_ALL: &str =
    "UPDATE executions SET state = 0, due_at = $1, fence = 0 WHERE state = 1 AND state < 3";
static RELEASE: Sized = Sized::repeatable(|n| {
    format!(
        "UPDATE executions SET state = $1, due_at = $2, fence = 0, error_class = COALESCE($3, error_class), \
                error_message = COALESCE($4, error_message) \
         WHERE state = 1 AND fence = $5 AND seq IN ({})",
        value_list(n, 6)
    )
});
const GIVE_UP_HELD: &str = "
    UPDATE executions
       SET state = 6, error_class = $2, finished_at = $1, due_at = $1,
           error_message = 'waited longer than 7 days for its rule or evaluator'
     WHERE state = 3 AND due_at <= $1
    RETURNING project_id, rule_id";
const HELD_RULES: &str = "
    SELECT DISTINCT project_id, rule_id, evaluator_id FROM executions WHERE state = 3";
/// `project_id || ''` keeps SQLite from reading all executions of the project; held executions have their own
/// index.
const UNHOLD: &str = "
    UPDATE executions SET state = 0, due_at = $4
     WHERE state = 3 AND project_id || '' = $1 AND rule_id = $2 AND evaluator_id = $3";
/// Resumes nothing while one execution of them already waits for its turn. The state is checked twice because another node
/// may have resumed and claimed the execution after the inner query.
const UNHOLD_OLDEST: &str = "
    UPDATE executions SET state = 0, due_at = $4
     WHERE state = 3
       AND seq = (SELECT MIN(seq) FROM executions
                   WHERE state = 3 AND project_id || '' = $1 AND rule_id = $2 AND evaluator_id = $3
                     AND shadow IS NULL)
       AND NOT EXISTS (SELECT 1 FROM executions
                        WHERE state < 3 AND evaluator_id = $3 AND shadow IS NULL
                          AND (firing_at IS NULL OR due_at <> firing_at OR due_at <= $4) AND queue IN
                              (SELECT id FROM execution_queues WHERE project_id = $1 AND rule_id = $2))";
const CANCEL_WAITING: &str = "
    UPDATE executions
       SET state = 7, error_class = $3, error_message = $4, finished_at = $5, due_at = $5
     WHERE state < 3 AND state <> 1 AND queue IN
           (SELECT id FROM execution_queues WHERE project_id = $1 AND rule_id = $2)";
const CANCEL_HELD: &str = "
    UPDATE executions
       SET state = 7, error_class = $3, error_message = $4, finished_at = $5, due_at = $5
     WHERE state = 3 AND project_id || '' = $1 AND rule_id = $2";
/// The due time of waiting executions of a paused backfill: 2200-01-01, later than that of any other execution.
pub(super) const SET_ASIDE: i64 = 7_258_118_400_000_000;
/// Not those of paused backfills, which are due at `$5`, and not those that wait for a firing.
const END_DELAY: &str = "
    UPDATE executions SET due_at = $4
     WHERE state < 3 AND state = 2 AND $4 < due_at AND due_at < $5 AND evaluator_id = $3
       AND (firing_at IS NULL OR due_at <> firing_at) AND queue IN
           (SELECT id FROM execution_queues WHERE project_id = $1 AND rule_id = $2)";
/// The rule and the last queue of a failed execution. The queue is absent if the execution ended long ago.
const FAILED: &str = "
    SELECT e.rule_id, q.lane FROM executions e LEFT JOIN execution_queues q ON q.id = e.queue
     WHERE e.project_id = $1 AND e.id = $2 AND e.state = 6";
const REQUEUE: &str = "
    UPDATE executions
       SET state = 0, attempts = 0, due_at = $3, first_attempt_at = NULL, finished_at = NULL,
           error_class = NULL, error_message = NULL, queue = $4
     WHERE project_id = $1 AND id = $2 AND state = 6";

impl Ledger {
    /// Claims due executions, up to the share of each queue: pending ones, delayed ones whose time has come,
    /// and running ones whose lease has ended, which counts as an attempt of class `worker_lost`. Returns the
    /// claimed executions of each share, in the order of the shares. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_executions(
        &self,
        shares: &[QueueShare],
        lease: Lease,
        now: Timestamp,
    ) -> Result<Vec<Vec<Execution>>, Error> {
        let text = match self.pool.is_postgres() {
            false => CLAIM_SQLITE,
            true => CLAIM_POSTGRES,
        };
        let sql = format!("{text}{COLUMNS}");
        let claimed: Vec<Vec<ExecutionRow>> = in_transaction!(&self.pool, |tx| {
            let mut claimed = Vec::with_capacity(shares.len());
            for share in shares {
                let rows: Vec<ExecutionRow> = query(sql.clone())
                    .bind(lease.fence)
                    .bind(lease.until.as_micros())
                    .bind(now.as_micros())
                    .bind(share.queue)
                    .bind(i64::from(share.n))
                    .bind(FailureClass::WorkerLost.as_str())
                    .fetch_all(&mut tx)
                    .await?;
                claimed.push(rows);
            }
            claimed
        });
        let executions = |rows: Vec<ExecutionRow>| {
            let executions = rows.into_iter().map(TryInto::try_into);
            let mut executions = executions.collect::<Result<Vec<Execution>, Error>>()?;
            executions.sort_by_key(|execution| execution.seq);
            Ok(executions)
        };
        claimed.into_iter().map(executions).collect()
    }

    /// When the first held execution fails unless it is resumed. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn first_held(&self) -> Result<Option<Timestamp>, Error> {
        let due: Option<i64> = query_scalar(FIRST_HELD).fetch_one(&self.pool).await?;
        Ok(due.map(Timestamp::from_micros))
    }

    /// Extends the lease of those executions that are still under it. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn renew_lease(&self, lease: Lease, seqs: &[i64]) -> Result<(), Error> {
        let until = lease.until.as_micros();
        let first = [until.into(), lease.fence.into(), until.into()];
        self.update_by_seq(&RENEW, &first, seqs).await
    }

    /// Runs a statement for executions given by `seq`.
    async fn update_by_seq(
        &self,
        statement: &'static Sized,
        first: &[Arg<'_>],
        seqs: &[i64],
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let mut rest = seqs;
            while !rest.is_empty() {
                let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
                (_, rest) = tx.execute_some(statement, first, rest, push).await?;
            }
        });
        Ok(())
    }

    /// Releases leased executions without counting an attempt. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_executions(
        &self,
        fence: i64,
        seqs: &[i64],
        release: Release<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (state, due_at, class, message) = match release {
            Release::GivenBack => (ExecutionState::Pending, now, None, None),
            Release::Postponed(at, class) => {
                (ExecutionState::Delayed, at, Some(class.as_str()), None)
            }
            Release::Held { until, message } => {
                let class = Some(NoCallReason::Paused.as_str());
                (ExecutionState::Held, until, class, Some(message))
            }
        };
        let first = [
            i64::from(state_code(state)).into(),
            due_at.as_micros().into(),
            class.into(),
            message.into(),
            fence.into(),
        ];
        self.update_by_seq(&RELEASE, &first, seqs).await
    }

    /// Releases every leased execution without counting an attempt. Only for the sole user of the database:
    /// the processes that held the leases are gone. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_all_leases(&self, now: Timestamp) -> Result<u64, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            query(GIVE_BACK_ALL).bind(now.as_micros()).execute(&mut tx).await?
        }))
    }

    /// Fails executions whose holding time is over, and returns their number. Crosses tenants: for the
    /// engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn give_up_held(&self, now: Timestamp) -> Result<usize, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            let rules: Vec<(String, String)> = query(GIVE_UP_HELD)
                .bind(now.as_micros())
                .bind(NoCallReason::HeldTooLong.as_str())
                .fetch_all(&mut tx)
                .await?;
            let failed = ExecutionState::Failed.as_str();
            let ended: Result<Vec<_>, Error> = rules
                .iter()
                .map(|(project, rule)| {
                    let project = perpend_db::checked("execution", project)?;
                    let rule = perpend_db::checked("execution", rule)?;
                    Ok((project, rule, failed, 1))
                })
                .collect();
            let ended = ended?;
            counts::add(&mut tx, &ended, now).await?;
            let projects: BTreeSet<&ProjectId> =
                ended.iter().map(|(project, ..)| project).collect();
            for project in projects {
                delete_ended_responses(&mut tx, project).await?;
            }
            rules.len()
        }))
    }

    /// The rules and evaluators that have held executions. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn held(&self) -> Result<Vec<(ProjectId, RuleId, EvaluatorId)>, Error> {
        let rows: Vec<(String, String, String)> = query(HELD_RULES).fetch_all(&self.pool).await?;
        let checked = |(project, rule, evaluator): (String, String, String)| {
            Ok((
                perpend_db::checked("execution", &project)?,
                perpend_db::checked("execution", &rule)?,
                perpend_db::checked("execution", &evaluator)?,
            ))
        };
        rows.into_iter().map(checked).collect()
    }

    /// Resumes held executions of one evaluator of a rule.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn resume_executions(
        &self,
        (project, rule, evaluator): (&ProjectId, &RuleId, &EvaluatorId),
        scope: ResumeScope,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let sql = match scope {
            ResumeScope::All => UNHOLD,
            ResumeScope::Oldest => UNHOLD_OLDEST,
        };
        Ok(in_transaction!(&self.pool, |tx| {
            query(sql)
                .bind(project.as_str())
                .bind(rule.as_str())
                .bind(evaluator.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?
        }))
    }

    /// Makes delayed executions of one evaluator of a rule due now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn end_delay(
        &self,
        (project, rule, evaluator): (&ProjectId, &RuleId, &EvaluatorId),
        now: Timestamp,
    ) -> Result<(), Error> {
        let args = [
            project.as_str().into(),
            rule.as_str().into(),
            evaluator.as_str().into(),
            now.as_micros().into(),
            SET_ASIDE.into(),
        ];
        self.pool.change(END_DELAY, &args).await?;
        Ok(())
    }

    /// Cancels the executions of a rule that have not started, and returns their number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn cancel_executions(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        why: &AttemptFailure,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let args = [
                project.as_str().into(),
                rule.as_str().into(),
                why.class.as_str().into(),
                why.message.as_str().into(),
                now.as_micros().into(),
            ];
            let n =
                tx.execute(CANCEL_WAITING, &args).await? + tx.execute(CANCEL_HELD, &args).await?;
            if 0 < n {
                let cancelled = ExecutionState::Cancelled.as_str();
                let ended = [(project.clone(), rule.clone(), cancelled, n)];
                counts::add(&mut tx, &ended, now).await?;
                delete_ended_responses(&mut tx, project).await?;
            }
        });
        Ok(())
    }

    /// Puts a failed execution back into the queue and resets its attempts. Because a user requested it, its
    /// class becomes `manual`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no failed execution of this id.
    pub async fn requeue_execution(
        &self,
        project: &ProjectId,
        id: &ExecutionId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let bytes = id_bytes(id).ok_or(Error::NotFound)?.to_vec();
        in_transaction!(&self.pool, |tx| {
            let failed: Option<(String, Option<i16>)> = query(FAILED)
                .bind(project.as_str())
                .bind(bytes.clone())
                .fetch_optional(&mut tx)
                .await?;
            let (rule, lane) = failed.ok_or(Error::NotFound)?;
            let rule: RuleId = perpend_db::checked("execution", &rule)?;
            let lane = lane.map(Lane::of_code).transpose()?;
            let kind =
                QueueKind { lane: lane.unwrap_or(Lane::Code), class: ExecutionClass::Manual };
            let key = (project, &rule, kind);
            let queues = queue::numbers(&mut tx, [key].into()).await?;
            query(REQUEUE)
                .bind(project.as_str())
                .bind(bytes.clone())
                .bind(now.as_micros())
                .bind(queues.get(&key).copied())
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }
}
