//! From what ingest touched to executions, in one transaction.

use std::collections::HashMap;

use assay_domain::evaluation::{ExecutionState, NewExecution};
use assay_domain::ids::{ExecutionId, ObservationId, ProjectId, RuleId, TraceId};
use assay_domain::time::Timestamp;

use super::bulk::{self, Sized};
use super::claim::Lease;
use super::counts::{self, Count};
use super::row::{code, id_bytes, id_of};
use crate::catalog::checked;
use crate::pool::{in_transaction, on_reader};
use crate::spell::Spell as _;
use crate::telemetry::touched_body;
use crate::{Error, Store};

/// What one ingest request touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Touched {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The tenant.
    pub project: ProjectId,
    /// When it was received.
    pub received_at: Timestamp,
    /// The observations written, in the order of the request.
    pub observations: Vec<(TraceId, ObservationId)>,
}

/// A target that was not complete for every rule when it was last looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// The tenant.
    pub project: ProjectId,
    /// The trace.
    pub trace: TraceId,
    /// The observation; `None` for the whole trace.
    pub observation: Option<ObservationId>,
    /// Last change.
    pub changed_at: Timestamp,
    /// Rules complete at this time have been decided.
    pub looked_at: Timestamp,
    /// When to look again.
    pub due_at: Timestamp,
}

/// A watch as it shall stand.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWatch {
    /// With `due_at` in the future, [`Timestamp::from_micros`] of `i64::MAX` to drop it.
    pub watch: Watch,
    /// The `due_at` it stood with when it was read, for one that came due.
    pub was_due_at: Option<Timestamp>,
}

/// All that follows from a stretch of touched rows and due watches.
#[derive(Clone, Debug, Default)]
pub struct MatchBatch {
    /// Touched rows that are dealt with.
    pub touched: Vec<i64>,
    /// Watches to set, move or drop.
    pub watches: Vec<NewWatch>,
    /// Executions to make; those that exist already are left alone.
    pub executions: Vec<(ProjectId, NewExecution)>,
    /// Late spans to note on an execution that has scored already: how many since.
    pub late: Vec<(ProjectId, ExecutionId, u32)>,
    /// Refusals and other counts.
    pub counts: Vec<(ProjectId, RuleId, &'static str, u64)>,
}

/// What became of a [`MatchBatch`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Made {
    /// For each execution of the batch its place in the ledger; `None` when it existed already.
    pub seqs: Vec<Option<i64>>,
}

#[derive(sqlx::FromRow)]
struct TouchedRow {
    seq: i64,
    project_id: String,
    received_at: i64,
    body: Vec<u8>,
}

#[derive(sqlx::FromRow)]
struct WatchRow {
    project_id: String,
    trace_id: String,
    observation_id: String,
    changed_at: i64,
    looked_at: i64,
    due_at: i64,
}

impl TryFrom<WatchRow> for Watch {
    type Error = Error;

    fn try_from(row: WatchRow) -> Result<Self, Error> {
        let observation = match row.observation_id.as_str() {
            "" => None,
            id => Some(checked("watch", id)?),
        };
        Ok(Self {
            project: checked("watch", &row.project_id)?,
            trace: checked("watch", &row.trace_id)?,
            observation,
            changed_at: Timestamp::from_micros(row.changed_at),
            looked_at: Timestamp::from_micros(row.looked_at),
            due_at: Timestamp::from_micros(row.due_at),
        })
    }
}

const TOUCHED: &str = "
    SELECT seq, project_id, received_at, body FROM touched ORDER BY seq LIMIT $1";
const DUE_WATCHES: &str = "
    SELECT project_id, trace_id, observation_id, changed_at, looked_at, due_at
      FROM watches WHERE due_at <= $1 ORDER BY due_at LIMIT $2";
const NEXT_WATCH: &str = "SELECT MIN(due_at) FROM watches";

static DELETE_TOUCHED: Sized =
    Sized::new(|n| format!("DELETE FROM touched WHERE seq IN ({})", bulk::list(n, 1)));
/// A watch that came due is moved only from where it was read: somebody else may have moved it.
const MOVE_WATCH: &str = "
    UPDATE watches SET changed_at = $5, looked_at = $6, due_at = $7
     WHERE project_id = $1 AND trace_id = $2 AND observation_id = $3 AND due_at = $4";
const DROP_WATCH: &str = "
    DELETE FROM watches
     WHERE project_id = $1 AND trace_id = $2 AND observation_id = $3 AND due_at = $4";
const SET_WATCH: &str = "
    INSERT INTO watches (project_id, trace_id, observation_id, changed_at, looked_at, due_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project_id, trace_id, observation_id) DO UPDATE
       SET changed_at = excluded.changed_at, looked_at = excluded.looked_at, due_at = excluded.due_at
     WHERE watches.changed_at <= excluded.changed_at";
const NOTE_LATE: &str = "UPDATE executions SET n_late = $3 WHERE project_id = $1 AND id = $2";

static INSERT: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO executions (project_id, id, rule_id, assignment_id, evaluator_id, trace_id, \
         observation_id, generation, inclusion_probability, completion, n_observations, state, fence, \
         due_at, created_at) VALUES {} ON CONFLICT (id) DO NOTHING RETURNING seq, id",
        bulk::rows(n, 15, 1)
    )
});

/// Forgets touched rows. `false` when another matcher has taken some of them.
macro_rules! take_touched {
    ($tx:expr, $batch:expr) => {{
        let mut n_mine = 0;
        let mut rest = $batch.touched.as_slice();
        while !rest.is_empty() {
            let (sql, seqs, later) = DELETE_TOUCHED.next(rest);
            let mut query = sqlx::query($tx.spell(sql));
            for seq in seqs {
                query = query.bind(seq);
            }
            n_mine += query.execute(&mut *$tx).await?.rows_affected();
            rest = later;
        }
        n_mine == $batch.touched.len() as u64
    }};
}

/// Sets, moves and drops watches. `false` when another matcher has moved one of them.
macro_rules! set_watches {
    ($tx:expr, $batch:expr) => {{
        let mut is_mine = true;
        for new in &$batch.watches {
            let watch = &new.watch;
            let is_dropped = watch.due_at.as_micros() == i64::MAX;
            let sql = match (new.was_due_at, is_dropped) {
                (Some(_), true) => DROP_WATCH,
                (Some(_), false) => MOVE_WATCH,
                (None, true) => continue,
                (None, false) => SET_WATCH,
            };
            let mut query = sqlx::query(sql)
                .bind(watch.project.as_str())
                .bind(watch.trace.as_str())
                .bind(watch.observation.as_ref().map_or("", |id| id.as_str()));
            if let Some(was) = new.was_due_at {
                query = query.bind(was.as_micros());
            }
            if !is_dropped {
                query = query
                    .bind(watch.changed_at.as_micros())
                    .bind(watch.looked_at.as_micros())
                    .bind(watch.due_at.as_micros());
            }
            let n_moved = query.execute(&mut *$tx).await?.rows_affected();
            is_mine &= n_moved == 1 || new.was_due_at.is_none();
        }
        is_mine
    }};
}

/// Makes executions inside a transaction; a macro because each driver has its own type of query.
macro_rules! insert {
    ($tx:expr, $executions:expr, $state:expr, $fence:expr, $due_at:expr, $now:expr, $made:expr) => {{
        let mut rest = $executions;
        while !rest.is_empty() {
            let (sql, rows, later) = INSERT.next(rest);
            let mut query = sqlx::query_as::<_, (i64, Vec<u8>)>($tx.spell(sql));
            for (project, new) in rows {
                let id = id_bytes(&new.id).ok_or(Error::Conflict("no execution id"))?;
                query = query
                    .bind(project.as_str())
                    .bind(id.to_vec())
                    .bind(new.rule_id.as_str())
                    .bind(new.assignment_id.as_str())
                    .bind(new.evaluator_id.as_str())
                    .bind(new.target.trace_id.as_str())
                    .bind(new.target.observation_id.as_ref().map(|id| id.as_str()))
                    .bind(new.generation as i32)
                    .bind(new.inclusion_probability)
                    .bind(new.completion.as_str())
                    .bind(new.n_observations as i32)
                    .bind($state)
                    .bind($fence)
                    .bind($due_at)
                    .bind($now.as_micros());
            }
            for (seq, id) in query.fetch_all(&mut *$tx).await? {
                $made.insert(id_of(&id)?, seq);
            }
            rest = later;
        }
    }};
}

impl Store {
    /// The oldest touched rows that nobody has dealt with. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn touched(&self, limit: u32) -> Result<Vec<Touched>, Error> {
        let rows: Vec<TouchedRow> = on_reader!(&self.pool, |db| {
            sqlx::query_as(TOUCHED)
                .bind(i64::from(limit))
                .fetch_all(db)
                .await?
        });
        let touched = rows.into_iter().map(|row| {
            Ok(Touched {
                seq: row.seq,
                project: checked("touched", &row.project_id)?,
                received_at: Timestamp::from_micros(row.received_at),
                observations: touched_body(&row.body)?,
            })
        });
        touched.collect()
    }

    /// Watches that are due. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn due_watches(&self, now: Timestamp, limit: u32) -> Result<Vec<Watch>, Error> {
        let rows: Vec<WatchRow> = on_reader!(&self.pool, |db| {
            sqlx::query_as(DUE_WATCHES)
                .bind(now.as_micros())
                .bind(i64::from(limit))
                .fetch_all(db)
                .await?
        });
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// When the next watch comes due. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_watch(&self) -> Result<Option<Timestamp>, Error> {
        let due: Option<i64> = on_reader!(&self.pool, |db| {
            sqlx::query_scalar(NEXT_WATCH).fetch_one(db).await?
        });
        Ok(due.map(Timestamp::from_micros))
    }

    /// Makes executions and forgets what led to them, in one transaction. The first `n_leased` of them
    /// start out running under `lease`, as if made and claimed at once; the others are pending.
    ///
    /// `None` when another matcher has dealt with a part of it meanwhile: nothing is written then, and
    /// the caller reads again. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails; nothing is written then.
    pub async fn commit_matches(
        &self,
        batch: &MatchBatch,
        lease: Lease,
        n_leased: usize,
        now: Timestamp,
    ) -> Result<Option<Made>, Error> {
        let (leased, waiting) = batch
            .executions
            .split_at(n_leased.min(batch.executions.len()));
        let mut made: HashMap<ExecutionId, i64> = HashMap::new();
        in_transaction!(&self.pool, |tx| {
            if !take_touched!(tx, batch) || !set_watches!(tx, batch) {
                return Ok(None);
            }
            let running = code(ExecutionState::Running);
            let pending = code(ExecutionState::Pending);
            let until = lease.until.as_micros();
            insert!(tx, leased, running, lease.fence, until, now, made);
            insert!(tx, waiting, pending, 0_i64, now.as_micros(), now, made);
            for (project, id, n_late) in &batch.late {
                let id = id_bytes(id).ok_or(Error::Conflict("no execution id"))?;
                sqlx::query(NOTE_LATE)
                    .bind(project.as_str())
                    .bind(id.to_vec())
                    .bind(*n_late as i32)
                    .execute(&mut *tx)
                    .await?;
            }
            let mut all = batch.counts.clone();
            all.extend(batch.executions.iter().map(|(project, new)| {
                let is_new = made.contains_key(&new.id);
                let reason = if is_new { "made" } else { "duplicate" };
                (project.clone(), new.rule_id.clone(), reason, 1)
            }));
            let counts = Count::grouped(&all, now);
            counts::add!(tx, counts);
        });
        let seqs = batch
            .executions
            .iter()
            .map(|(_, new)| made.get(&new.id).copied());
        Ok(Some(Made {
            seqs: seqs.collect(),
        }))
    }
}
