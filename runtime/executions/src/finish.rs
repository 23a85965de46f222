//! Ends of executions, written for a whole batch in one transaction with the scores.

use std::collections::{BTreeMap, HashSet};

use perpend_domain::evaluation::AttemptFailure;
use perpend_domain::ids::{EvaluatorVersionId, ProjectId, RuleId};
use perpend_domain::time::Timestamp;

use super::counts::{self, RuleCount};
use super::logs;
use super::matches::wake_waiting_rules;
use super::model_calls::delete_responses;
use super::outcome::{ExecutionEnd, Outcome};
use super::row::state_code;
use crate::{Error, Ledger};
use perpend_db::in_transaction;
use perpend_db::{Arg, ColumnType, Sized, Tx, query, value_list};

/// Result of ending a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndReport {
    /// The executions that were still under the lease; results of the others were dropped.
    pub mine: HashSet<i64>,
    /// Rules with failures in this batch, and the current number of consecutive failures.
    pub failures: Vec<(ProjectId, RuleId, u32)>,
}

static COMPLETE: Sized = Sized::repeatable(|n| {
    format!(
        "UPDATE /*or fail*/ executions SET state = 4, due_at = $1, finished_at = $2, \
         attempts = attempts + 1, first_attempt_at = COALESCE(first_attempt_at, $3), \
         evaluator_version_id = $4, error_class = NULL, error_message = NULL \
         WHERE state = 1 AND fence = $5 AND seq IN ({})",
        value_list(n, 6)
    )
});
/// The executions that `COMPLETE` has just ended: no two ends of one lease have the same time.
static COMPLETED: Sized = Sized::new(|n| {
    format!(
        "SELECT seq FROM executions WHERE state = 4 AND fence = $1 AND finished_at = $2 AND seq IN ({})",
        value_list(n, 3)
    )
});
const END: &str = "
    UPDATE executions
       SET state = $1, due_at = $2, finished_at = $3, attempts = attempts + 1,
           first_attempt_at = COALESCE(first_attempt_at, $4),
           evaluator_version_id = COALESCE($5, evaluator_version_id),
           error_class = $6, error_message = $7
     WHERE seq = $8 AND state = 1 AND fence = $9";
const ATTEMPT: &str = "
    INSERT INTO attempts (execution_seq, number, ended_at, class, message, evaluator_version_id, cpu_us)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FAILURES: &str = "
    INSERT INTO rule_failures (project_id, rule_id, n) VALUES ($1, $2, $3)
    ON CONFLICT (project_id, rule_id) DO UPDATE SET n = rule_failures.n + excluded.n
    RETURNING CAST(n AS BIGINT)";
const FORGET_FAILURES: &str = "DELETE FROM rule_failures WHERE project_id = $1 AND rule_id = $2";

/// Successes and failures of a rule in one batch.
#[derive(Clone, Copy, Debug, Default)]
struct RuleHealth {
    /// An execution succeeded before the failures counted here.
    has_recovered: bool,
    n_failures: u32,
}

fn health<'f>(
    finished: &'f [ExecutionEnd<'_>],
    mine: &HashSet<i64>,
) -> BTreeMap<(&'f ProjectId, &'f RuleId), RuleHealth> {
    let mut by_rule: BTreeMap<_, RuleHealth> = BTreeMap::new();
    for each in finished
        .iter()
        .filter(|each| mine.contains(&each.execution.seq))
        // Results of a shadow version do not count for the rule.
        .filter(|each| each.execution.made.shadow.is_none())
    {
        let health =
            by_rule.entry((&each.execution.project, &each.execution.made.rule_id)).or_default();
        match each.outcome {
            Outcome::Completed(_) => {
                *health = RuleHealth { has_recovered: true, n_failures: 0 };
            }
            Outcome::Failed(_, true) => health.n_failures += 1,
            _ => {}
        }
    }
    by_rule
}

/// The lease that ends.
#[derive(Clone, Copy, Debug)]
pub struct LeaseEnd<'a> {
    /// Its fence.
    pub fence: i64,
    /// When its calls started.
    pub started_at: Timestamp,
    /// When its calls were complete.
    pub now: Timestamp,
    /// Rules that other rules wait for.
    pub awaited: &'a HashSet<RuleId>,
}

/// Completes the executions of one version that are still under the lease, and returns them.
async fn complete(
    tx: &mut Tx,
    ending: LeaseEnd<'_>,
    version: Option<&EvaluatorVersionId>,
    seqs: &[i64],
    mine: &mut HashSet<i64>,
) -> Result<(), Error> {
    let now = ending.now.as_micros();
    let first = [
        now.into(),
        now.into(),
        ending.started_at.as_micros().into(),
        version.map(EvaluatorVersionId::as_str).into(),
        ending.fence.into(),
    ];
    let mut rest = seqs;
    while !rest.is_empty() {
        let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
        let (n_ended, later) = tx.execute_some(&COMPLETE, &first, rest, push).await?;
        let mut chunk = &rest[..rest.len() - later.len()];
        rest = later;
        if n_ended as usize == chunk.len() {
            mine.extend(chunk);
            continue;
        }
        while !chunk.is_empty() {
            let (sql, n) = COMPLETED.for_up_to(chunk.len());
            let (chunk_seqs, others) = chunk.split_at(n);
            let mut args = vec![ending.fence.into(), now.into()];
            args.extend(chunk_seqs.iter().map(|seq| Arg::from(*seq)));
            let found = tx.rows(sql, &args, &[ColumnType::Int]).await?;
            for cells in found {
                mine.insert(cells[0].int()?);
            }
            chunk = others;
        }
    }
    Ok(())
}

/// Ends one execution without scores if it is still under the lease; `true` if it was.
async fn end_one(
    tx: &mut Tx,
    ending: LeaseEnd<'_>,
    each: &ExecutionEnd<'_>,
    why: &AttemptFailure,
) -> Result<bool, Error> {
    let LeaseEnd { fence, started_at, now, .. } = ending;
    let state = each.outcome.state();
    let version = each.version.as_ref().map(EvaluatorVersionId::as_str);
    let (class, message) = (why.class.as_str(), why.message.as_str());
    let args: [Arg<'_>; 9] = [
        i64::from(state_code(state)).into(),
        each.outcome.due_at(now).as_micros().into(),
        state.is_final().then_some(now.as_micros()).into(),
        started_at.as_micros().into(),
        version.into(),
        class.into(),
        message.into(),
        each.execution.seq.into(),
        fence.into(),
    ];
    if tx.execute(END, &args).await? == 0 {
        return Ok(false);
    }
    let args: [Arg<'_>; 7] = [
        each.execution.seq.into(),
        (i64::from(each.execution.attempts) + 1).into(),
        now.as_micros().into(),
        class.into(),
        message.into(),
        version.into(),
        i64::try_from(each.cpu_us).unwrap_or(i64::MAX).into(),
    ];
    tx.execute(ATTEMPT, &args).await?;
    Ok(true)
}

/// Updates the health of rules, and returns the rules with failures and their consecutive failures.
async fn note_health(
    tx: &mut Tx,
    by_rule: BTreeMap<(&ProjectId, &RuleId), RuleHealth>,
) -> Result<Vec<(ProjectId, RuleId, u32)>, Error> {
    let mut failures = Vec::new();
    for ((project, rule), health) in by_rule {
        let key = [project.as_str().into(), rule.as_str().into()];
        if health.has_recovered {
            tx.execute(FORGET_FAILURES, &key).await?;
        }
        if 0 < health.n_failures {
            let [project_id, rule_id] = key;
            let args = [project_id, rule_id, i64::from(health.n_failures).into()];
            let n = tx.integer(FAILURES, &args).await?;
            let n = u32::try_from(n).unwrap_or(u32::MAX);
            failures.push((project.clone(), rule.clone(), n));
        }
    }
    Ok(failures)
}

/// Completed executions by version.
fn completed<'f>(
    finished: &'f [ExecutionEnd<'_>],
) -> BTreeMap<Option<&'f EvaluatorVersionId>, Vec<i64>> {
    let mut by_version: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for each in finished {
        if matches!(each.outcome, Outcome::Completed(_)) {
            by_version.entry(each.version.as_ref()).or_default().push(each.execution.seq);
        }
    }
    by_version
}

/// Ends leases, inside the transaction of the caller, which writes the scores: states and attempts.
/// Executions that are no longer under the lease are left unchanged; returns the others. Crosses tenants: for
/// the engine.
///
/// # Errors
/// When the database fails.
pub async fn end(
    tx: &mut Tx,
    ending: LeaseEnd<'_>,
    finished: &[ExecutionEnd<'_>],
) -> Result<HashSet<i64>, Error> {
    let mut mine = HashSet::new();
    for (version, seqs) in completed(finished) {
        complete(tx, ending, version, &seqs, &mut mine).await?;
    }
    for each in finished {
        if let Some(why) = each.outcome.no_scores()
            && end_one(tx, ending, each, why).await?
        {
            mine.insert(each.execution.seq);
        }
    }
    logs::put(tx, finished, &mine, ending.now).await?;
    delete_responses(tx, finished, &mine).await?;
    let targets = finished
        .iter()
        .filter(|each| each.outcome.is_final() && mine.contains(&each.execution.seq))
        .map(|each| each.execution)
        .filter(|execution| ending.awaited.contains(&execution.made.rule_id))
        .map(|execution| (&execution.project, &execution.made.target));
    wake_waiting_rules(tx, &targets.collect(), ending.now).await?;
    Ok(mine)
}

/// Counts the ended executions, as the last statement of the transaction that ends them, because rules share
/// these rows. Returns rules with failures in this batch and their consecutive failures.
///
/// # Errors
/// When the database fails.
pub async fn count(
    tx: &mut Tx,
    finished: &[ExecutionEnd<'_>],
    mine: &HashSet<i64>,
    now: Timestamp,
) -> Result<Vec<(ProjectId, RuleId, u32)>, Error> {
    let mut outcomes = Vec::new();
    for each in finished {
        let execution = each.execution;
        if !mine.contains(&execution.seq) {
            continue;
        }
        let mut count = |reason| {
            let rule = execution.made.rule_id.clone();
            outcomes.push((execution.project.clone(), rule, reason, 1));
        };
        count(each.outcome.state().as_str());
        if each.spent.is_some() && matches!(each.outcome, Outcome::Skipped(_)) {
            count(RuleCount::SKIPPED_FOR_BUDGET);
        }
    }
    counts::add(tx, &outcomes, now).await?;
    note_health(tx, health(finished, mine)).await
}

impl Ledger {
    /// Resets the failures of a rule when it resumes after a pause.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn reset_failures(&self, project: &ProjectId, rule: &RuleId) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(FORGET_FAILURES)
                .bind(project.as_str())
                .bind(rule.as_str())
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }
}
