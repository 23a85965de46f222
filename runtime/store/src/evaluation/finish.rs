//! What executions end in, a whole batch in one transaction with its scores.

use std::collections::{BTreeMap, HashSet};

use assay_domain::evaluation::ExecutionState;
use assay_domain::ids::{EvaluatorVersionId, ExecutionId, ProjectId, RuleId, ScoreId, TraceId};
use assay_domain::score::NewScore;
use assay_domain::time::Timestamp;

use super::bulk::{self, Sized};
use super::counts::{self, Count};
use super::row::code;
use crate::pool::in_transaction;
use crate::scores::{delete_others, put};
use crate::{Error, Store};

/// The end of one lease of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Its place in the ledger.
    pub seq: i64,
    /// The tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: ExecutionId,
    /// Its rule.
    pub rule: RuleId,
    /// The trace of its target.
    pub trace: TraceId,
    /// Attempts before this one.
    pub n_before: u32,
    /// The version that was used; none when it came to none.
    pub version: Option<EvaluatorVersionId>,
    /// CPU time in the guest.
    pub cpu_us: u64,
    /// What it ended in.
    pub outcome: Outcome,
}

/// What a lease ended in.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Scores, at least one.
    Completed(Vec<NewScore>),
    /// Nothing to measure.
    Skipped(Attempt),
    /// To be tried again at this time.
    Delayed(Attempt, Timestamp),
    /// Waits for something outside, and is given up at this time.
    Held(Attempt, Timestamp),
    /// For good. `true` when it speaks against the evaluator: so many in a row pause its rule.
    Failed(Attempt, bool),
    /// By deletion or the loop guard.
    Cancelled(Attempt),
}

/// Why there are no scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Class, as in evaluation.md 1.8.
    pub class: String,
    /// For people.
    pub message: String,
}

/// What [`Store::finish_executions`] did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Those still under the lease; the results of others were dropped.
    pub mine: HashSet<i64>,
    /// Rules with failures in this batch, and how many of them in a row now.
    pub failures: Vec<(ProjectId, RuleId, u32)>,
}

static COMPLETE: Sized = Sized::new(|n| {
    format!(
        "UPDATE executions SET state = 4, due_at = $2, finished_at = $2, attempts = attempts + 1, \
         first_attempt_at = COALESCE(first_attempt_at, $3), evaluator_version_id = $4, \
         error_class = NULL, error_message = NULL \
         WHERE state = 1 AND fence = $1 AND seq IN ({}) RETURNING seq",
        bulk::list(n, 5)
    )
});
const END: &str = "
    UPDATE executions
       SET state = $3, due_at = $4, finished_at = $5, attempts = attempts + 1,
           first_attempt_at = COALESCE(first_attempt_at, $6),
           evaluator_version_id = COALESCE($7, evaluator_version_id),
           error_class = $8, error_message = $9
     WHERE seq = $1 AND state = 1 AND fence = $2";
const ATTEMPT: &str = "
    INSERT INTO attempts (execution_seq, number, ended_at, class, message, evaluator_version_id, cpu_us)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FAILURES: &str = "
    INSERT INTO rule_failures (project_id, rule_id, n) VALUES ($1, $2, $3)
    ON CONFLICT (project_id, rule_id) DO UPDATE SET n = rule_failures.n + excluded.n
    RETURNING n";
const FORGET_FAILURES: &str = "DELETE FROM rule_failures WHERE project_id = $1 AND rule_id = $2";

impl Outcome {
    const fn state(&self) -> ExecutionState {
        match self {
            Self::Completed(_) => ExecutionState::Completed,
            Self::Skipped(_) => ExecutionState::Skipped,
            Self::Delayed(..) => ExecutionState::Delayed,
            Self::Held(..) => ExecutionState::Held,
            Self::Failed(..) => ExecutionState::Failed,
            Self::Cancelled(_) => ExecutionState::Cancelled,
        }
    }

    const fn due_at(&self, now: Timestamp) -> Timestamp {
        match self {
            Self::Delayed(_, at) | Self::Held(_, at) => *at,
            _ => now,
        }
    }

    /// Why there are no scores; none for completed ones.
    const fn attempt(&self) -> Option<&Attempt> {
        match self {
            Self::Completed(_) => None,
            Self::Skipped(attempt)
            | Self::Delayed(attempt, _)
            | Self::Held(attempt, _)
            | Self::Failed(attempt, _)
            | Self::Cancelled(attempt) => Some(attempt),
        }
    }
}

/// How a rule's executions of one batch speak for or against it.
#[derive(Clone, Copy, Debug, Default)]
struct Health {
    /// Something went well before the failures counted here.
    has_recovered: bool,
    n_failures: u32,
}

fn health<'f>(
    finished: &'f [Finished],
    mine: &HashSet<i64>,
) -> BTreeMap<(&'f ProjectId, &'f RuleId), Health> {
    let mut by_rule: BTreeMap<_, Health> = BTreeMap::new();
    for each in finished.iter().filter(|each| mine.contains(&each.seq)) {
        let health = by_rule.entry((&each.project, &each.rule)).or_default();
        match each.outcome {
            Outcome::Completed(_) => {
                *health = Health {
                    has_recovered: true,
                    n_failures: 0,
                };
            }
            Outcome::Failed(_, true) => health.n_failures += 1,
            _ => {}
        }
    }
    by_rule
}

/// Completes those of one version that are still under the lease.
macro_rules! complete {
    ($tx:expr, $seqs:expr, $version:expr, $fence:expr, $started:expr, $now:expr, $mine:expr) => {{
        let mut rest = $seqs;
        while !rest.is_empty() {
            let (sql, chunk, later) = COMPLETE.next(rest);
            let mut query = sqlx::query_scalar::<_, i64>(sql)
                .bind($fence)
                .bind($now.as_micros())
                .bind($started.as_micros())
                .bind($version.map(|id: &EvaluatorVersionId| id.as_str()));
            for seq in chunk {
                query = query.bind(*seq);
            }
            $mine.extend(query.fetch_all(&mut *$tx).await?);
            rest = later;
        }
    }};
}

/// Ends one without scores, if it is still under the lease.
macro_rules! end {
    ($tx:expr, $each:expr, $attempt:expr, $fence:expr, $started:expr, $now:expr, $mine:expr) => {{
        let state = $each.outcome.state();
        let version = $each.version.as_ref().map(|id| id.as_str());
        let n_ended = sqlx::query(END)
            .bind($each.seq)
            .bind($fence)
            .bind(code(state))
            .bind($each.outcome.due_at($now).as_micros())
            .bind(state.is_final().then_some($now.as_micros()))
            .bind($started.as_micros())
            .bind(version)
            .bind(&$attempt.class)
            .bind(storable(&$attempt.message))
            .execute(&mut *$tx)
            .await?
            .rows_affected();
        if n_ended == 1 {
            $mine.insert($each.seq);
            sqlx::query(ATTEMPT)
                .bind($each.seq)
                .bind($each.n_before as i32 + 1)
                .bind($now.as_micros())
                .bind(&$attempt.class)
                .bind(storable(&$attempt.message))
                .bind(version)
                .bind(i64::try_from($each.cpu_us).unwrap_or(i64::MAX))
                .execute(&mut *$tx)
                .await?;
        }
    }};
}

/// PostgreSQL keeps no NUL in text.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Completed executions by version.
fn completed(finished: &[Finished]) -> BTreeMap<Option<&EvaluatorVersionId>, Vec<i64>> {
    let mut by_version: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for each in finished {
        if matches!(each.outcome, Outcome::Completed(_)) {
            by_version
                .entry(each.version.as_ref())
                .or_default()
                .push(each.seq);
        }
    }
    by_version
}

impl Store {
    /// Ends leases: states, scores, attempts and counters in one transaction. What is no longer under
    /// `fence` is left alone, its scores too. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn finish_executions(
        &self,
        fence: i64,
        finished: &[Finished],
        started_at: Timestamp,
        now: Timestamp,
    ) -> Result<Ended, Error> {
        let mut ended = Ended::default();
        in_transaction!(&self.pool, |tx| {
            let mine = &mut ended.mine;
            for (version, seqs) in completed(finished) {
                complete!(tx, seqs.as_slice(), version, fence, started_at, now, mine);
            }
            for each in finished {
                if let Some(attempt) = each.outcome.attempt() {
                    end!(tx, each, attempt, fence, started_at, now, mine);
                }
            }
            for (project, scores) in scores_of(finished, mine) {
                put((&mut *tx).into(), project, &scores, now).await?;
            }
            for each in finished {
                // Only an earlier attempt can have left scores that this one does not give.
                if let (1.., Outcome::Completed(scores)) = (each.n_before, &each.outcome)
                    && mine.contains(&each.seq)
                {
                    let keep: Vec<ScoreId> = scores.iter().map(|score| score.id.clone()).collect();
                    let connection = (&mut *tx).into();
                    delete_others(connection, &each.project, &each.trace, &each.id, &keep).await?;
                }
            }
            let outcomes: Vec<_> = finished
                .iter()
                .filter(|each| mine.contains(&each.seq))
                .map(|each| {
                    let reason = each.outcome.state().as_str();
                    (each.project.clone(), each.rule.clone(), reason, 1)
                })
                .collect();
            let outcomes = Count::grouped(&outcomes, now);
            counts::add!(tx, outcomes);
            for ((project, rule), health) in health(finished, mine) {
                if health.has_recovered {
                    sqlx::query(FORGET_FAILURES)
                        .bind(project.as_str())
                        .bind(rule.as_str())
                        .execute(&mut *tx)
                        .await?;
                }
                if 0 < health.n_failures {
                    let n: i32 = sqlx::query_scalar(FAILURES)
                        .bind(project.as_str())
                        .bind(rule.as_str())
                        .bind(health.n_failures as i32)
                        .fetch_one(&mut *tx)
                        .await?;
                    let failures = (project.clone(), rule.clone(), n.unsigned_abs());
                    ended.failures.push(failures);
                }
            }
        });
        Ok(ended)
    }

    /// Forgets the failures of a rule, when it is let go on after a pause.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn forget_failures(&self, project: &ProjectId, rule: &RuleId) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            sqlx::query(FORGET_FAILURES)
                .bind(project.as_str())
                .bind(rule.as_str())
                .execute(&mut *tx)
                .await?;
        });
        Ok(())
    }
}

/// Scores of the executions that are ours, by project.
fn scores_of<'f>(
    finished: &'f [Finished],
    mine: &HashSet<i64>,
) -> BTreeMap<&'f ProjectId, Vec<NewScore>> {
    let mut by_project: BTreeMap<_, Vec<NewScore>> = BTreeMap::new();
    for each in finished {
        if let Outcome::Completed(scores) = &each.outcome
            && mine.contains(&each.seq)
        {
            let all = by_project.entry(&each.project).or_default();
            all.extend(scores.iter().cloned());
        }
    }
    by_project
}
