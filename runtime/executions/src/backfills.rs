//! Backfills: their progress, and their executions whose end is not counted yet.
//!
//! Invariants:
//! - **No target twice, none lost.** The position and the executions up to it are written in one transaction.
//! - **One step at a time.** A step is written only at the revision that it was prepared for; pauses, cancellations
//!   and the steps of other nodes raise it.

use std::collections::HashSet;

use perpend_db::{
    Arg, Sized, Tx, checked, despite_collisions, from_json, in_transaction, query, to_json,
    value_list, value_rows,
};
use perpend_domain::backfill::{
    Backfill, BackfillCounts, BackfillPlan, BackfillReason, BackfillState,
};
use perpend_domain::evaluation::{AttemptFailure, Execution, ExecutionState, Target, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::{ProjectId, RuleId, TraceId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::plugin::FailureClass;
use perpend_domain::time::Timestamp;

use super::claim::{Lease, SET_ASIDE};
use super::codes::{Coded as _, codes};
use super::counts::{self, RuleCount};
use super::matches::{PlannedExecution, insert};
use super::model_calls::delete_ended_responses;
use super::row::{COLUMNS as EXECUTION_COLUMNS, ExecutionRow};
use crate::{Error, Ledger};

const WHAT: &str = "backfill";
/// Ended executions that are counted at a time.
const N_SETTLED: i64 = 5_000;
/// Open backfills that are read at a time.
const N_OPEN: i64 = 100;

codes!(state_code, "state of a backfill", BackfillState {
    Running = 0,
    Paused = 1,
    Completed = 2,
    Cancelled = 3,
    Failed = 4,
});

perpend_db::record! {
    struct BackfillRow {
        project_id: String,
        id: String,
        rule_id: String,
        rule_name: String,
        target: String,
        mode: String,
        from_at: i64,
        to_at: i64,
        filter: String,
        max_items: Option<i64>,
        max_usd: Option<f64>,
        n_in_range: Option<i64>,
        usd_per_execution: Option<f64>,
        state: i16,
        reason: Option<String>,
        revision: i64,
        resume_after: Option<String>,
        reached_at: Option<i64>,
        is_scanned: i16,
        n_examined: i64,
        n_items: i64,
        n_present: i64,
        n_refused: i64,
        n_left_out: i64,
        n_executions: i64,
        n_completed: i64,
        n_skipped: i64,
        n_failed: i64,
        n_cancelled: i64,
        cost_usd: f64,
        created_at: i64,
        updated_at: i64,
        ended_at: Option<i64>,
    }
}

/// The columns of [`BackfillRow`].
const COLUMNS: &str = "project_id, id, rule_id, rule_name, target, mode, from_at, to_at, filter, max_items, max_usd, \
     n_in_range, usd_per_execution, state, reason, revision, resume_after, reached_at, is_scanned, n_examined, \
     n_items, n_present, n_refused, n_left_out, n_executions, n_completed, n_skipped, n_failed, n_cancelled, cost_usd, \
     created_at, updated_at, ended_at";

const INSERT: &str = "
    INSERT INTO backfills
           (project_id, id, rule_id, rule_name, target, mode, from_at, to_at, filter, max_items, max_usd, n_in_range,
            usd_per_execution, state, revision, is_scanned, is_open, n_examined, n_items, n_present, n_refused,
            n_left_out, n_executions, n_completed, n_skipped, n_failed, n_cancelled, cost_usd, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0,
            $14, $14)";
const ADVANCE: &str = "
    UPDATE backfills
       SET state = $4, reason = $5, revision = revision + 1, resume_after = $6, reached_at = $7, is_scanned = $8,
           is_open = $9, n_examined = $10, n_items = $11, n_present = $12, n_refused = $13, n_left_out = $14,
           n_executions = $15, n_completed = $16, n_skipped = $17, n_failed = $18, n_cancelled = $19, cost_usd = $20,
           updated_at = $21, ended_at = $22
     WHERE project_id = $1 AND id = $2 AND revision = $3";
const ADD_EXECUTIONS: &str =
    "UPDATE backfills SET n_executions = n_executions + $3 WHERE project_id = $1 AND id = $2";
static ADD_LINKS: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT INTO backfill_executions (project_id, backfill_id, execution_seq) VALUES {} \
         ON CONFLICT (project_id, backfill_id, execution_seq) DO NOTHING",
        value_rows(n, 3, 1)
    )
});
static DROP_LINKS: Sized = Sized::repeatable(|n| {
    format!(
        "DELETE FROM backfill_executions WHERE project_id = $1 AND backfill_id = $2 AND execution_seq IN ({})",
        value_list(n, 3)
    )
});
/// Executions whose rows are gone count as cancelled. `project_id || ''` keeps SQLite from reading all calls of the
/// project.
const SETTLED: &str = "
    SELECT b.execution_seq, e.state,
           (SELECT COALESCE(SUM(c.cost), 0.0) FROM model_calls c
             WHERE c.project_id || '' = $1 AND c.execution_id = e.id) AS cost
      FROM backfill_executions b LEFT JOIN executions e ON e.seq = b.execution_seq
     WHERE b.project_id = $1 AND b.backfill_id = $2 AND (e.state IS NULL OR e.state > 3)
     ORDER BY b.execution_seq LIMIT $3";
const PAUSE: &str = "
    UPDATE backfills SET state = 1, revision = revision + 1, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state = 0";
const RESUME: &str = "
    UPDATE backfills SET state = 0, revision = revision + 1, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state = 1";
const CANCEL: &str = "
    UPDATE backfills SET state = 3, reason = NULL, revision = revision + 1, updated_at = $3, ended_at = $3
     WHERE project_id = $1 AND id = $2 AND state < 2";
/// Keeps a paused backfill from being resumed until the end of the transaction.
const LOCK_PAUSED: &str =
    "UPDATE backfills SET state = 1 WHERE project_id = $1 AND id = $2 AND state = 1";
/// Running executions continue.
const SET_ASIDE_WAITING: &str = "
    UPDATE executions SET state = 2, due_at = $3
     WHERE state IN (0, 2) AND due_at <> $3
       AND seq IN (SELECT execution_seq FROM backfill_executions WHERE project_id = $1 AND backfill_id = $2)";
const RETURN_WAITING: &str = "
    UPDATE executions SET state = 0, due_at = $4
     WHERE state = 2 AND due_at = $3
       AND seq IN (SELECT execution_seq FROM backfill_executions WHERE project_id = $1 AND backfill_id = $2)";
const CANCEL_WAITING: &str = "
    UPDATE executions SET state = 7, error_class = $3, error_message = $4, finished_at = $5, due_at = $5
     WHERE state IN (0, 2, 3)
       AND seq IN (SELECT execution_seq FROM backfill_executions WHERE project_id = $1 AND backfill_id = $2)";
static OF_RULE_IN: Sized = Sized::new(|n| {
    format!(
        "SELECT {EXECUTION_COLUMNS} FROM executions \
         WHERE project_id = $1 AND rule_id = $2 AND trace_id IN ({}) ORDER BY seq",
        value_list(n, 3)
    )
});

/// A change of the state by a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillChange {
    /// Its waiting executions are set aside.
    Pause,
    /// Its executions wait again.
    Resume,
    /// Its waiting executions are cancelled.
    Cancel,
}

/// A step of a backfill: all of it is written, or nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct BackfillStep {
    /// The backfill after the step, at the revision before it, without the new executions in its counts.
    pub next: Backfill,
    /// Executions to insert; existing ones are left unchanged.
    pub executions: Vec<PlannedExecution>,
    /// Executions whose end is in the counts.
    pub settled: Vec<i64>,
    /// Cancels the executions that wait.
    pub cancels_waiting: bool,
}

/// Executions that have ended and are not counted yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettledExecutions {
    /// Their numbers.
    pub seqs: Vec<i64>,
    /// How they ended, and their cost.
    pub counts: BackfillCounts,
}

/// A count as a column.
pub(super) fn stored(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl TryFrom<BackfillRow> for Backfill {
    type Error = Error;

    fn try_from(row: BackfillRow) -> Result<Self, Error> {
        let reason = row.reason.as_deref();
        let target: TargetKind = checked(WHAT, &row.target)?;
        let sent = from_json(WHAT, &row.filter)?;
        Ok(Self {
            project: checked(WHAT, &row.project_id)?,
            id: row.id,
            plan: BackfillPlan {
                rule: checked(WHAT, &row.rule_id)?,
                rule_name: row.rule_name,
                target,
                mode: checked(WHAT, &row.mode)?,
                from: Timestamp::from_micros(row.from_at),
                to: Timestamp::from_micros(row.to_at),
                filter: WrittenFilter::stored(sent, target.filter_columns()).0,
                max_items: row.max_items.map(i64::unsigned_abs),
                max_usd: row.max_usd,
                n_in_range: row.n_in_range.map(i64::unsigned_abs),
                usd_per_execution: row.usd_per_execution,
            },
            state: BackfillState::of_code(row.state)?,
            reason: reason.map(|reason| checked(WHAT, reason)).transpose()?,
            revision: row.revision,
            cursor: row.resume_after,
            reached_at: row.reached_at.map(Timestamp::from_micros),
            is_scanned: row.is_scanned != 0,
            counts: BackfillCounts {
                n_examined: row.n_examined.unsigned_abs(),
                n_items: row.n_items.unsigned_abs(),
                n_present: row.n_present.unsigned_abs(),
                n_refused: row.n_refused.unsigned_abs(),
                n_left_out: row.n_left_out.unsigned_abs(),
                n_executions: row.n_executions.unsigned_abs(),
                n_completed: row.n_completed.unsigned_abs(),
                n_skipped: row.n_skipped.unsigned_abs(),
                n_failed: row.n_failed.unsigned_abs(),
                n_cancelled: row.n_cancelled.unsigned_abs(),
                cost_usd: row.cost_usd,
            },
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
            ended_at: row.ended_at.map(Timestamp::from_micros),
        })
    }
}

fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM backfills {rest}")
}

fn rows_of(rows: Vec<BackfillRow>) -> Result<Vec<Backfill>, Error> {
    rows.into_iter().map(TryInto::try_into).collect()
}

/// Cancels the waiting executions of a backfill.
async fn cancel_waiting(tx: &mut Tx, backfill: &Backfill, now: Timestamp) -> Result<(), Error> {
    let (project, rule) = (&backfill.project, &backfill.plan.rule);
    let why = AttemptFailure::new(FailureClass::Cancelled, "the backfill was ended");
    let args: [Arg<'_>; 5] = [
        project.as_str().into(),
        backfill.id.as_str().into(),
        why.class.as_str().into(),
        why.message.as_str().into(),
        now.as_micros().into(),
    ];
    let n = tx.execute(CANCEL_WAITING, &args).await?;
    if 0 < n {
        let ended = [(project.clone(), rule.clone(), ExecutionState::Cancelled.as_str(), n)];
        counts::add(tx, &ended, now).await?;
        delete_ended_responses(tx, project).await?;
    }
    Ok(())
}

/// Writes the state of a backfill; `false` if its revision is another one.
async fn write(tx: &mut Tx, next: &Backfill, now: Timestamp) -> Result<bool, Error> {
    let counts = &next.counts;
    let is_open = !next.state.is_final() || 0 < counts.n_open();
    let args: [Arg<'_>; 22] = [
        next.project.as_str().into(),
        next.id.as_str().into(),
        next.revision.into(),
        i64::from(state_code(next.state)).into(),
        next.reason.map(BackfillReason::as_str).into(),
        next.cursor.as_deref().into(),
        next.reached_at.map(Timestamp::as_micros).into(),
        i64::from(next.is_scanned).into(),
        i64::from(is_open).into(),
        stored(counts.n_examined).into(),
        stored(counts.n_items).into(),
        stored(counts.n_present).into(),
        stored(counts.n_refused).into(),
        stored(counts.n_left_out).into(),
        stored(counts.n_executions).into(),
        stored(counts.n_completed).into(),
        stored(counts.n_skipped).into(),
        stored(counts.n_failed).into(),
        stored(counts.n_cancelled).into(),
        counts.cost_usd.into(),
        now.as_micros().into(),
        next.ended_at.map(Timestamp::as_micros).into(),
    ];
    Ok(tx.execute(ADVANCE, &args).await? == 1)
}

/// Inserts the executions of a step.
async fn make(tx: &mut Tx, step: &BackfillStep, now: Timestamp) -> Result<(), Error> {
    let next = &step.next;
    let lease = Lease { fence: 0, until: now };
    let made = insert(tx, &step.executions, lease, now).await?;
    let made: Vec<i64> = made.into_iter().flatten().collect();
    tx.execute_for(&ADD_LINKS, &made, |args, seq| {
        args.extend([next.project.as_str().into(), next.id.as_str().into(), (*seq).into()]);
    })
    .await?;
    let n_made = made.len() as u64;
    let args = [next.project.as_str().into(), next.id.as_str().into(), Arg::from(stored(n_made))];
    tx.execute(ADD_EXECUTIONS, &args).await?;
    count_made(tx, (&next.project, &next.plan.rule), (&step.executions, n_made), now).await
}

/// Counts new executions of a rule and their targets.
async fn count_made(
    tx: &mut Tx,
    (project, rule): (&ProjectId, &RuleId),
    (executions, n_made): (&[PlannedExecution], u64),
    now: Timestamp,
) -> Result<(), Error> {
    let targets = executions.iter().map(|each| &each.execution.target);
    let targets: HashSet<&Target> = targets.collect();
    let n_existing = (executions.len() as u64).saturating_sub(n_made);
    let of_rule =
        [(RuleCount::SAMPLED, targets.len() as u64), ("made", n_made), ("duplicate", n_existing)];
    let of_rule = of_rule.into_iter().filter(|(_, n)| 0 < *n);
    let of_rule =
        of_rule.map(|(reason, n)| (project.clone(), rule.clone(), reason, n)).collect::<Vec<_>>();
    counts::add(tx, &of_rule, now).await
}

impl Ledger {
    /// Stores a new backfill, which is running.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_backfill(
        &self,
        project: &ProjectId,
        id: &str,
        plan: &BackfillPlan,
        now: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 14] = [
            project.as_str().into(),
            id.into(),
            plan.rule.as_str().into(),
            plan.rule_name.as_str().into(),
            plan.target.as_str().into(),
            plan.mode.as_str().into(),
            plan.from.as_micros().into(),
            plan.to.as_micros().into(),
            to_json(WHAT, &plan.filter.sent())?.into(),
            plan.max_items.map(stored).into(),
            plan.max_usd.into(),
            plan.n_in_range.map(stored).into(),
            plan.usd_per_execution.into(),
            now.as_micros().into(),
        ];
        self.pool.change(INSERT, &args).await?;
        Ok(())
    }

    /// One backfill.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backfill(&self, project: &ProjectId, id: &str) -> Result<Option<Backfill>, Error> {
        let row: Option<BackfillRow> = query(select("WHERE project_id = $1 AND id = $2"))
            .bind(project.as_str())
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        row.map(TryInto::try_into).transpose()
    }

    /// A page of at most `limit` backfills, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn backfills(
        &self,
        project: &ProjectId,
        position: &ListPosition,
        limit: u32,
    ) -> Result<BidirectionalPage<Backfill>, Error> {
        let is_backwards = position.is_backwards;
        let (sign, order) = match is_backwards {
            true => (">", "created_at, id"),
            false => ("<", "created_at DESC, id DESC"),
        };
        let start = if is_backwards { i64::MIN } else { i64::MAX };
        let cursor = position.cursor.as_ref();
        let rows: Vec<BackfillRow> = query(select(&format!(
            "WHERE project_id = $1 AND (created_at, id) {sign} ($2, $3) ORDER BY {order} LIMIT $4"
        )))
        .bind(project.as_str())
        .bind(cursor.map_or(start, |cursor| cursor.at.as_micros()))
        .bind(cursor.map_or("", |cursor| cursor.id.as_str()))
        .bind(i64::from(limit) + 1)
        .fetch_all(&self.pool)
        .await?;
        let mut items = rows_of(rows)?;
        let has_more = (limit as usize) < items.len();
        items.truncate(limit as usize);
        let at = |each: &Backfill| Cursor::new(each.created_at, each.id.clone());
        Ok(BidirectionalPage::read(items, position, has_more, at))
    }

    /// A page of the backfills that are running or paused, or whose executions have not ended, oldest first. Crosses
    /// tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_backfills(&self, after: Option<&Cursor>) -> Result<Vec<Backfill>, Error> {
        let rows: Vec<BackfillRow> = query(select(
            "WHERE is_open = 1 AND (created_at, id) > ($1, $2) ORDER BY created_at, id LIMIT $3",
        ))
        .bind(after.map_or(i64::MIN, |after| after.at.as_micros()))
        .bind(after.map_or("", |after| after.id.as_str()))
        .bind(N_OPEN)
        .fetch_all(&self.pool)
        .await?;
        rows_of(rows)
    }

    /// Executions of a backfill that have ended and are not counted yet, up to a limit.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn settled_executions(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<SettledExecutions, Error> {
        let rows: Vec<(i64, Option<i16>, f64)> = query(SETTLED)
            .bind(project.as_str())
            .bind(id)
            .bind(N_SETTLED)
            .fetch_all(&self.pool)
            .await?;
        let mut settled = SettledExecutions::default();
        for (seq, state, cost) in rows {
            let state = state.map(ExecutionState::of_code).transpose()?;
            let counts = &mut settled.counts;
            match state {
                Some(ExecutionState::Completed) => counts.n_completed += 1,
                Some(ExecutionState::Skipped) => counts.n_skipped += 1,
                Some(ExecutionState::Failed) => counts.n_failed += 1,
                _ => counts.n_cancelled += 1,
            }
            counts.cost_usd += cost;
            settled.seqs.push(seq);
        }
        Ok(settled)
    }

    /// Writes a step. `false` if the backfill has been changed since the step was prepared; nothing is written then.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn advance_backfill(
        &self,
        step: &BackfillStep,
        now: Timestamp,
    ) -> Result<bool, Error> {
        despite_collisions!(self.advance_once(step, now).await)
    }

    async fn advance_once(&self, step: &BackfillStep, now: Timestamp) -> Result<bool, Error> {
        let next = &step.next;
        in_transaction!(&self.pool, |tx| {
            if !write(&mut tx, next, now).await? {
                return Ok(false);
            }
            tx.reach("backfill: advanced")?;
            if !step.settled.is_empty() {
                let of = [next.project.as_str().into(), next.id.as_str().into()];
                let mut rest = step.settled.as_slice();
                while !rest.is_empty() {
                    let push = |args: &mut Vec<_>, seq: &i64| args.push((*seq).into());
                    (_, rest) = tx.execute_some(&DROP_LINKS, &of, rest, push).await?;
                }
            }
            if !step.executions.is_empty() {
                make(&mut tx, step, now).await?;
            }
            if step.cancels_waiting {
                cancel_waiting(&mut tx, next, now).await?;
            }
            tx.reach("backfill: made")?;
        });
        Ok(true)
    }

    /// Makes executions of a rule over chosen targets; existing ones are left unchanged.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn make_chosen(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        executions: &[PlannedExecution],
        now: Timestamp,
    ) -> Result<(), Error> {
        despite_collisions!(self.make_chosen_once((project, rule), executions, now).await)
    }

    async fn make_chosen_once(
        &self,
        of_rule: (&ProjectId, &RuleId),
        executions: &[PlannedExecution],
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let lease = Lease { fence: 0, until: now };
            let made = insert(&mut tx, executions, lease, now).await?;
            let n_made = made.iter().flatten().count() as u64;
            count_made(&mut tx, of_rule, (executions, n_made), now).await?;
        });
        Ok(())
    }

    /// Changes the state of a backfill, and returns it; `None` if it does not exist. A change that its state does not
    /// allow has no effect.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn change_backfill(
        &self,
        project: &ProjectId,
        id: &str,
        change: BackfillChange,
        now: Timestamp,
    ) -> Result<Option<Backfill>, Error> {
        let Some(found) = self.backfill(project, id).await? else {
            return Ok(None);
        };
        despite_collisions!(self.change_once(&found, change, now).await)?;
        self.backfill(project, id).await
    }

    async fn change_once(
        &self,
        found: &Backfill,
        change: BackfillChange,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let of = [Arg::from(found.project.as_str()), found.id.as_str().into()];
            let at = [Arg::from(now.as_micros())];
            let sql = match change {
                BackfillChange::Pause => PAUSE,
                BackfillChange::Resume => RESUME,
                BackfillChange::Cancel => CANCEL,
            };
            if tx.execute(sql, &[&of[..], &at].concat()).await? == 1 {
                let aside = [Arg::from(SET_ASIDE)];
                match change {
                    BackfillChange::Pause => {
                        tx.execute(SET_ASIDE_WAITING, &[&of[..], &aside].concat()).await?;
                    }
                    BackfillChange::Resume => {
                        tx.execute(RETURN_WAITING, &[&of[..], &aside, &at].concat()).await?;
                    }
                    BackfillChange::Cancel => cancel_waiting(&mut tx, found, now).await?,
                }
            }
        });
        Ok(())
    }

    /// Sets executions of a paused backfill aside that wait again: after a failed attempt, or because their rule is no
    /// longer paused. No effect if the backfill has been resumed.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn set_backfill_aside(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        despite_collisions!(self.set_aside_once(project, id).await)
    }

    async fn set_aside_once(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let of = [Arg::from(project.as_str()), id.into()];
            if tx.execute(LOCK_PAUSED, &of).await? == 1 {
                let aside = [Arg::from(SET_ASIDE)];
                tx.execute(SET_ASIDE_WAITING, &[&of[..], &aside].concat()).await?;
            }
        });
        Ok(())
    }

    /// The executions of a rule over these traces and their observations, in the order in which they were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_executions_in(
        &self,
        project: &ProjectId,
        rule: &RuleId,
        traces: &[TraceId],
    ) -> Result<Vec<Execution>, Error> {
        let mut found: Vec<Execution> = Vec::new();
        let mut rest = traces;
        while !rest.is_empty() {
            let (sql, n) = OF_RULE_IN.for_up_to(rest.len().next_power_of_two());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut query = query(sql).bind(project.as_str()).bind(rule.as_str());
            // The last chunk repeats ids to reuse a prepared statement.
            for id in some.iter().cycle().take(n) {
                query = query.bind(id.as_str());
            }
            let rows: Vec<ExecutionRow> = query.fetch_all(&self.pool).await?;
            for row in rows {
                found.push(row.try_into()?);
            }
            rest = later;
        }
        Ok(found)
    }
}
