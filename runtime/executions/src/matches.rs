//! From changed targets to executions, in one transaction.

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
use perpend_db::{NumberedTable, Numbers, checked, from_json, to_json};

/// A target that was not complete for every rule when it was last examined.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The tenant.
    pub project: ProjectId,
    /// The watched target.
    pub target: Target,
    /// The change that started the wait. An existing watch keeps its value.
    pub began_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
    /// When it was last examined: rules for which the target was complete by then have been decided.
    pub looked_at: Timestamp,
    /// When to examine it next.
    pub due_at: Timestamp,
    /// Rules that have not ended with the target and that wait for other rules or that other rules wait for.
    pub waiting: Vec<RuleId>,
}

/// A watch to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWatch {
    /// The new state; with `due_at` equal to [`NewWatch::NEVER`] the watch is deleted.
    pub watch: Watch,
    /// The `due_at` that was read, for a watch that was due. The update fails if another process has changed
    /// it.
    pub was_due_at: Option<Timestamp>,
}

impl NewWatch {
    /// The `due_at` of a watch to be deleted.
    pub const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);
}

/// An execution to be inserted.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedExecution {
    /// The tenant.
    pub project: ProjectId,
    /// Class and lane of its queue.
    pub kind: QueueKind,
    /// Whether it starts in state `running`, as if it were made and claimed at once.
    pub is_leased: bool,
    /// The firing of the schedule of its rule for which it waits; not if it is leased.
    pub firing_at: Option<Timestamp>,
    /// The execution.
    pub execution: NewExecution,
}

impl PlannedExecution {
    /// The queue into which it is inserted.
    const fn queue(&self) -> queue::ExecutionQueueKey<'_> {
        (&self.project, &self.execution.rule_id, self.kind)
    }
}

/// The result of matching a range of change rows and due watches, without the deletion of those rows.
#[derive(Clone, Debug, Default)]
pub struct MatchBatch {
    /// The revision of the catalog that decided the batch. `None`: valid for any revision.
    pub decided_by: Option<i64>,
    /// Watches to set, move or delete.
    pub watches: Vec<NewWatch>,
    /// Traces whose root was received, and when. Their waiting observations are examined again.
    pub rooted: BTreeMap<(ProjectId, TraceId), Timestamp>,
    /// Executions to insert; existing ones are left unchanged.
    pub executions: Vec<PlannedExecution>,
    /// Number of late observations to record for an execution that is complete.
    pub late: Vec<(ProjectId, ExecutionId, u32)>,
    /// Increments of counters.
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
            // The id of a run is in the column of observations, without a trace.
            ("", id) if row.trace_id.is_empty() => Target::Run(id.to_owned()),
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

/// The rules of a watch.
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

/// A due watch is moved only from the `due_at` that was read: another process may have moved it.
const MOVE_WATCH: &str = "
    UPDATE watches SET changed_at = $1, looked_at = $2, due_at = $3, waiting = $4
     WHERE project_id = $5 AND trace_id = $6 AND observation_id = $7 AND session_id = $8 AND due_at = $9";
const DROP_WATCH: &str = "
    DELETE FROM watches
     WHERE project_id = $1 AND trace_id = $2 AND observation_id = $3 AND session_id = $4 AND due_at = $5";
/// Without a list of targets SQLite would read all watches.
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
/// A process that has just read a due watch finds it moved, and reads again.
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
/// States below 4 are those of executions that have not ended.
static OPEN_IN: Sized = Sized::new(|n| {
    format!(
        "SELECT COUNT(*) FROM executions \
         WHERE project_id = $1 AND rule_id = $2 AND state < 4 AND shadow IS NULL AND trace_id IN ({})",
        value_list(n, 3)
    )
});
/// Examinations after `$4`, when the root was received, may have missed it; those at the current time have
/// seen it.
const WAKE_OF_TRACE: &str = "
    UPDATE watches
       SET due_at = $3, looked_at = CASE WHEN looked_at < $4 THEN looked_at ELSE $4 - 1 END
     WHERE project_id = $1 AND trace_id = $2 AND observation_id <> '' AND looked_at <> $3";
const NOTE_LATE: &str = "UPDATE executions SET n_late = $1 WHERE project_id = $2 AND id = $3";

static INSERT: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT /*or fail*/ INTO executions (seq, project_id, id, origin, rule_id, assignment_id, \
         evaluator_id, trace_id, observation_id, session_id, shadow, generation, inclusion_probability, completion, \
         n_observations, is_audit, queue, state, fence, due_at, created_at, firing_at) VALUES {} ON CONFLICT (id) DO NOTHING",
        value_rows(n, 22, 1)
    )
});
const STANDING: &str = "SELECT seq FROM executions WHERE seq >= $1 AND seq <= $2";

/// The observation of a target, or the run that it is.
pub(super) fn part_of(target: &Target) -> Option<&str> {
    target.observation().map(|id| id.as_str()).or(target.run())
}

/// The key columns of a watch.
fn key_of<'a>(project: &'a ProjectId, target: &'a Target) -> [Arg<'a>; 4] {
    [
        project.as_str().into(),
        target.trace().map_or("", |id| id.as_str()).into(),
        part_of(target).unwrap_or_default().into(),
        target.session().map_or("", |id| id.as_str()).into(),
    ]
}

/// Sets, moves and deletes watches. `false` if another matcher has moved one of them.
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

/// Inserts executions. For each its `seq`, `None` if it existed already.
pub(super) async fn insert(
    tx: &mut Tx,
    executions: &[PlannedExecution],
    lease: Lease,
    now: Timestamp,
) -> Result<Vec<Option<i64>>, Error> {
    let seqs = Numbers::default().take(tx, NumberedTable::Executions, executions.len()).await?;
    let queues =
        queue::numbers(tx, executions.iter().map(PlannedExecution::queue).collect()).await?;
    let mut rows: Vec<(i64, [u8; 16], &PlannedExecution)> = Vec::new();
    for (seq, each) in seqs.iter().zip(executions) {
        let id =
            id_bytes(&each.execution.id).ok_or(Error::Conflict("the id is not an execution id"))?;
        rows.push((*seq, id, each));
    }
    let n_made = tx
        .execute_for(&INSERT, &rows, |args, (seq, id, each)| {
            let new = &each.execution;
            let (state, fence, due_at) = match (each.is_leased, each.firing_at) {
                (true, _) => (ExecutionState::Running, lease.fence, lease.until),
                (false, Some(firing_at)) => (ExecutionState::Delayed, 0, firing_at),
                (false, None) => (ExecutionState::Pending, 0, now),
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
                part_of(&new.target).into(),
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
                each.firing_at.map(Timestamp::as_micros).into(),
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
    /// Due watches. Crosses tenants: for the engine.
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

    /// Whether a rule that others wait for has not ended with these traces and their observations: it has a
    /// watch on one, or an execution is open.
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
        // Another matcher turns a watch into an execution. Read in this order, at least one of the two is
        // found.
        for (statement, rule) in [(&WAITS_IN, named.as_str()), (&OPEN_IN, rule.as_str())] {
            let mut rest = traces;
            while !rest.is_empty() {
                let (sql, n) = statement.for_up_to(rest.len());
                let (some, later) = rest.split_at(n.min(rest.len()));
                let mut args: Vec<Arg<'_>> = vec![project.as_str().into(), rule.into()];
                // The last chunk repeats ids to reuse a prepared statement.
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

    /// The watch of a target, if it is not complete for every rule.
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

/// Makes rules due that wait for others to end with these targets, inside the transaction of the caller.
pub(super) async fn wake_waiting_rules(
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

/// Inserts executions and sets watches, inside the transaction of the caller, which deletes the change rows.
/// Executions that start in state `running` are put under `lease`.
/// Returns for each execution of the batch its `seq`, or `None` if it existed already. Returns `None` for the
/// batch if another matcher has moved a watch: the caller rolls back and reads again. Crosses tenants: for
/// the engine.
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
        let id = id_bytes(id).ok_or(Error::Conflict("the id is not an execution id"))?;
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
