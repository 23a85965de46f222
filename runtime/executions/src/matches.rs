//! From what ingest touched to executions, in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::evaluation::{ExecutionState, NewExecution, QueueKind, Target};
use perpend_domain::ids::{ExecutionId, ProjectId, RuleId, TraceId};
use perpend_domain::time::Timestamp;

use super::claim::Lease;
use super::counts;
use super::queue;
use super::row::{id_bytes, origin_code, state_code};
use crate::{Error, Ledger};
use perpend_db::{Arg, Sized, Tx, query, value_list, value_rows};
use perpend_db::{Numbers, Table, checked, from_json, to_json};

/// A target that was not complete for every rule when it was last looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The tenant.
    pub project: ProjectId,
    /// What is watched.
    pub target: Target,
    /// The change since which it is waited for; of a watch that stands already this stays as it is.
    pub began_at: Timestamp,
    /// Last change.
    pub changed_at: Timestamp,
    /// When it was last looked at: rules complete at this time have been asked.
    pub looked_at: Timestamp,
    /// When to look again.
    pub due_at: Timestamp,
    /// Rules that have not ended with it and matter to others: they wait for these, or these wait for them.
    pub waiting: Vec<RuleId>,
}

/// A watch as it shall stand.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWatch {
    /// With `due_at` in the future, [`NewWatch::NEVER`] to drop it.
    pub watch: Watch,
    /// The `due_at` it stood with when it was read, for one that came due.
    pub was_due_at: Option<Timestamp>,
}

impl NewWatch {
    /// When a watch that is dropped is due.
    pub const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);
}

/// An execution to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Making {
    /// The tenant.
    pub project: ProjectId,
    /// Among which others it waits.
    pub kind: QueueKind,
    /// Whether it starts out running, as if made and claimed at once.
    pub is_leased: bool,
    /// What it is.
    pub execution: NewExecution,
}

impl Making {
    /// The queue it is made in.
    const fn queue(&self) -> queue::Key<'_> {
        (&self.project, &self.execution.rule_id, self.kind)
    }
}

/// All that follows from a stretch of touched rows and due watches, the ends of both apart.
#[derive(Clone, Debug, Default)]
pub struct MatchBatch {
    /// The revision of the catalog by which all of it was decided. `None`: it holds whatever the catalog is now.
    pub decided_by: Option<i64>,
    /// Watches to set, move or drop.
    pub watches: Vec<NewWatch>,
    /// Traces whose root was received, and when: their observations that wait are looked at again.
    pub rooted: BTreeMap<(ProjectId, TraceId), Timestamp>,
    /// Executions to make; those that exist already are left alone.
    pub executions: Vec<Making>,
    /// Late spans to note on an execution that has scored already: how many since.
    pub late: Vec<(ProjectId, ExecutionId, u32)>,
    /// Refusals and other counts.
    pub counts: Vec<(ProjectId, RuleId, &'static str, u64)>,
}

perpend_db::record! {
    struct WatchRow {
        project_id: String,
        trace_id: String,
        observation_id: String,
        session_id: String,
        began_at: i64,
        changed_at: i64,
        looked_at: i64,
        due_at: i64,
        waiting: String,
    }
}

impl TryFrom<WatchRow> for Watch {
    type Error = Error;

    fn try_from(row: WatchRow) -> Result<Self, Error> {
        let target = match (row.session_id.as_str(), row.observation_id.as_str()) {
            ("", "") => Target::Trace(checked("watch", &row.trace_id)?),
            ("", id) => {
                Target::Observation(checked("watch", &row.trace_id)?, checked("watch", id)?)
            }
            (session, _) => Target::Session(checked("watch", session)?),
        };
        Ok(Self {
            project: checked("watch", &row.project_id)?,
            target,
            began_at: Timestamp::from_micros(row.began_at),
            changed_at: Timestamp::from_micros(row.changed_at),
            looked_at: Timestamp::from_micros(row.looked_at),
            due_at: Timestamp::from_micros(row.due_at),
            waiting: waiting_of(&row.waiting)?,
        })
    }
}

/// The rules that a watch names.
fn waiting_of(raw: &str) -> Result<Vec<RuleId>, Error> {
    if raw.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<String> = from_json("watch", raw)?;
    ids.iter().map(|id| checked("watch", id)).collect()
}

fn waiting_text(ids: &[RuleId]) -> Result<String, Error> {
    if ids.is_empty() {
        return Ok(String::new());
    }
    let ids: Vec<&str> = ids.iter().map(RuleId::as_str).collect();
    to_json("watch", &ids)
}

const DUE_WATCHES: &str = "
    SELECT project_id, trace_id, observation_id, session_id, began_at, changed_at, looked_at, due_at, waiting
      FROM watches WHERE due_at <= $1 ORDER BY due_at LIMIT $2";

const WATCH: &str = "
    SELECT project_id, trace_id, observation_id, session_id, began_at, changed_at, looked_at, due_at, waiting
      FROM watches WHERE project_id = $1 AND trace_id = $2 AND observation_id = $3 AND session_id = $4";

/// A watch that came due is moved only from where it was read: somebody else may have moved it.
const MOVE_WATCH: &str = "
    UPDATE watches SET changed_at = $1, looked_at = $2, due_at = $3, waiting = $4
     WHERE project_id = $5 AND trace_id = $6 AND observation_id = $7 AND session_id = $8 AND due_at = $9";
const DROP_WATCH: &str = "
    DELETE FROM watches
     WHERE project_id = $1 AND trace_id = $2 AND observation_id = $3 AND session_id = $4 AND due_at = $5";
/// With a list of its own, without which SQLite reads all watches.
static DROP_ANY_WATCHES: Sized = Sized::repeatable(|n| {
    format!(
        "WITH k (project_id, trace_id, id, session_id) AS (VALUES {}) DELETE FROM watches \
         WHERE (project_id, trace_id, observation_id, session_id) IN \
               (SELECT project_id, trace_id, id, session_id FROM k)",
        value_rows(n, 4, 1)
    )
});
const SET_WATCH: &str = "
    INSERT INTO watches
           (project_id, trace_id, observation_id, session_id, changed_at, looked_at, due_at, waiting, began_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (project_id, trace_id, observation_id, session_id) DO UPDATE
       SET changed_at = excluded.changed_at, looked_at = excluded.looked_at, due_at = excluded.due_at,
           waiting = excluded.waiting
     WHERE watches.changed_at <= excluded.changed_at";
/// Whoever has just read one that is due finds it moved, and reads again.
const WAKE_WAITING: &str = "
    UPDATE watches SET due_at = CASE WHEN due_at <= $5 THEN due_at - 1 ELSE $5 END
     WHERE project_id = $1 AND trace_id = $2 AND observation_id IN ('', $3) AND session_id = $4 AND waiting <> ''";
static WAITS_IN: Sized = Sized::new(|n| {
    format!(
        "SELECT COUNT(*) FROM watches \
         WHERE project_id = $1 AND REPLACE(waiting, $2, '') <> waiting AND trace_id IN ({})",
        value_list(n, 3)
    )
});
/// States below 4 are those that have not ended.
static OPEN_IN: Sized = Sized::new(|n| {
    format!(
        "SELECT COUNT(*) FROM executions \
         WHERE project_id = $1 AND rule_id = $2 AND state < 4 AND shadow IS NULL AND trace_id IN ({})",
        value_list(n, 3)
    )
});
/// Looks after `$4`, when the root was received, may not have seen it; those of now have.
const WAKE_OF_TRACE: &str = "
    UPDATE watches
       SET due_at = $3, looked_at = CASE WHEN looked_at < $4 THEN looked_at ELSE $4 - 1 END
     WHERE project_id = $1 AND trace_id = $2 AND observation_id <> '' AND looked_at <> $3";
const NOTE_LATE: &str = "UPDATE executions SET n_late = $1 WHERE project_id = $2 AND id = $3";

static INSERT: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT /*or fail*/ INTO executions (seq, project_id, id, origin, rule_id, assignment_id, \
         evaluator_id, trace_id, observation_id, session_id, shadow, generation, inclusion_probability, completion, \
         n_observations, is_audit, queue, state, fence, due_at, created_at) VALUES {} ON CONFLICT (id) DO NOTHING",
        value_rows(n, 21, 1)
    )
});
const STANDING: &str = "SELECT seq FROM executions WHERE seq >= $1 AND seq <= $2";

/// What a watch is known by.
fn key_of<'a>(project: &'a ProjectId, target: &'a Target) -> [Arg<'a>; 4] {
    [
        project.as_str().into(),
        target.trace().map_or("", |id| id.as_str()).into(),
        target.observation().map_or("", |id| id.as_str()).into(),
        target.session().map_or("", |id| id.as_str()).into(),
    ]
}

/// Sets, moves and drops watches. `false` when another matcher has moved one of them.
async fn set_watches(tx: &mut Tx, watches: &[NewWatch]) -> Result<bool, Error> {
    let mut is_mine = true;
    let mut dropped: Vec<&Watch> = Vec::new();
    for new in watches {
        let watch = &new.watch;
        let target = key_of(&watch.project, &watch.target);
        let times = [watch.changed_at, watch.looked_at, watch.due_at];
        let [changed_at, looked_at, due_at] = times.map(|at| Arg::from(at.as_micros()));
        let state = [changed_at, looked_at, due_at, waiting_text(&watch.waiting)?.into()];
        let was = new.was_due_at.map(|at| Arg::from(at.as_micros()));
        let is_dropped = watch.due_at == NewWatch::NEVER;
        let (sql, args) = match (was, is_dropped) {
            (Some(was), true) => (DROP_WATCH, [&target[..], &[was]].concat()),
            (Some(was), false) => (MOVE_WATCH, [&state[..], &target[..], &[was]].concat()),
            (None, true) => {
                dropped.push(watch);
                continue;
            }
            (None, false) => {
                let began_at = Arg::from(watch.began_at.as_micros());
                (SET_WATCH, [&target[..], &state, &[began_at]].concat())
            }
        };
        is_mine &= tx.execute(sql, &args).await? == 1 || new.was_due_at.is_none();
    }
    tx.execute_for(&DROP_ANY_WATCHES, &dropped, |args, watch| {
        args.extend(key_of(&watch.project, &watch.target));
    })
    .await?;
    Ok(is_mine)
}

/// Makes executions; for each its place in the ledger, `None` when it existed already.
async fn insert(
    tx: &mut Tx,
    executions: &[Making],
    lease: Lease,
    now: Timestamp,
) -> Result<Vec<Option<i64>>, Error> {
    let seqs = Numbers::default().take(tx, Table::Executions, executions.len()).await?;
    let queues = queue::numbers(tx, executions.iter().map(Making::queue).collect()).await?;
    let mut rows: Vec<(i64, [u8; 16], &Making)> = Vec::new();
    for (seq, each) in seqs.iter().zip(executions) {
        let id = id_bytes(&each.execution.id).ok_or(Error::Conflict("no execution id"))?;
        rows.push((*seq, id, each));
    }
    let n_made = tx
        .execute_for(&INSERT, &rows, |args, (seq, id, each)| {
            let new = &each.execution;
            let (state, fence, due_at) = match each.is_leased {
                true => (ExecutionState::Running, lease.fence, lease.until),
                false => (ExecutionState::Pending, 0, now),
            };
            args.extend([
                (*seq).into(),
                each.project.as_str().into(),
                id.as_slice().into(),
                i64::from(origin_code(new.origin)).into(),
                new.rule_id.as_str().into(),
                new.assignment_id.as_str().into(),
                new.evaluator_id.as_str().into(),
                new.target.trace().map_or("", |id| id.as_str()).into(),
                new.target.observation().map(|id| id.as_str()).into(),
                new.target.session().map(|id| id.as_str()).into(),
                new.shadow.map(i64::from).into(),
                i64::from(new.generation).into(),
                new.inclusion_probability.into(),
                new.completion.as_str().into(),
                i64::from(new.n_observations).into(),
                i64::from(new.is_audit).into(),
                queues.get(&each.queue()).copied().into(),
                i64::from(state_code(state)).into(),
                fence.into(),
                due_at.as_micros().into(),
                now.as_micros().into(),
            ]);
        })
        .await?;
    if n_made as usize == seqs.len() {
        return Ok(seqs.into_iter().map(Some).collect());
    }
    let made = tx.numbers_among(STANDING, &seqs).await?;
    let made = |seq: i64| made.contains(&seq).then_some(seq);
    Ok(seqs.into_iter().map(made).collect())
}

impl Ledger {
    /// Watches that are due. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn due_watches(&self, now: Timestamp, limit: u32) -> Result<Vec<Watch>, Error> {
        let rows: Vec<WatchRow> = query(DUE_WATCHES)
            .bind(now.as_micros())
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Whether a rule that others wait for has not ended with these traces and what is in them: it has yet to look at
    /// one, or an execution is open.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_open_in(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
        rule: &RuleId,
    ) -> Result<bool, Error> {
        let named = to_json("watch", &rule.as_str())?;
        // Another matcher makes an execution of a watch: read in this order, one of both is seen.
        for (statement, rule) in [(&WAITS_IN, named.as_str()), (&OPEN_IN, rule.as_str())] {
            let mut rest = traces;
            while !rest.is_empty() {
                let (sql, n) = statement.for_up_to(rest.len());
                let (some, later) = rest.split_at(n.min(rest.len()));
                let mut args: Vec<Arg<'_>> = vec![project.as_str().into(), rule.into()];
                // One is asked for again where that spares a statement.
                let some = some.iter().cycle().take(n);
                args.extend(some.map(|id| Arg::from(id.as_str())));
                let rows: Vec<(i64,)> = self.pool.select(sql, &args).await?;
                if rows.iter().any(|(n,)| 0 < *n) {
                    return Ok(true);
                }
                rest = later;
            }
        }
        Ok(false)
    }

    /// The watch of a target, while it is not complete for every rule.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn watch(
        &self,
        project: &ProjectId,
        target: &Target,
    ) -> Result<Option<Watch>, Error> {
        let rows: Vec<WatchRow> = self.pool.select(WATCH, &key_of(project, target)).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }
}

/// Has rules look again that wait for others to end with these targets, inside the caller's transaction.
pub(super) async fn wake_waiting(
    tx: &mut Tx,
    targets: &BTreeSet<(&ProjectId, &Target)>,
    now: Timestamp,
) -> Result<(), Error> {
    for (project, target) in targets {
        let now = Arg::from(now.as_micros());
        let args = [&key_of(project, target)[..], &[now]].concat();
        tx.execute(WAKE_WAITING, &args).await?;
    }
    Ok(())
}

/// Makes executions and sets watches, inside the caller's transaction, which forgets what led to them. Executions
/// that are to start out running do so under `lease`.
///
/// Gives for each execution of the batch its number in the ledger, or none when it existed already. `None` for all
/// when another matcher has moved a watch meanwhile: the caller undoes the transaction and reads again.
/// Crosses tenants: for the engine.
///
/// # Errors
/// When the database fails.
pub async fn make(
    tx: &mut Tx,
    batch: &MatchBatch,
    lease: Lease,
    now: Timestamp,
) -> Result<Option<Vec<Option<i64>>>, Error> {
    if !set_watches(tx, &batch.watches).await? {
        return Ok(None);
    }
    for ((project, trace), from) in &batch.rooted {
        let (now, from) = (now.as_micros().into(), from.as_micros().into());
        let args = [project.as_str().into(), trace.as_str().into(), now, from];
        tx.execute(WAKE_OF_TRACE, &args).await?;
    }
    let seqs = insert(tx, &batch.executions, lease, now).await?;
    for (project, id, n_late) in &batch.late {
        let id = id_bytes(id).ok_or(Error::Conflict("no execution id"))?;
        let n_late = i64::from(*n_late);
        let args = [n_late.into(), project.as_str().into(), id.as_slice().into()];
        tx.execute(NOTE_LATE, &args).await?;
    }
    let mut all = batch.counts.clone();
    let executions = batch.executions.iter().zip(&seqs);
    all.extend(executions.map(|(each, seq)| {
        let reason = if seq.is_some() { "made" } else { "duplicate" };
        (each.project.clone(), each.execution.rule_id.clone(), reason, 1)
    }));
    counts::add(tx, &all, now).await?;
    Ok(Some(seqs))
}
