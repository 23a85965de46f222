//! The lease of a run, and the states of its items while it is driven.

use perpend_db::{Tx, checked, from_json, in_transaction, query, query_scalar};
use perpend_domain::ids::ProjectId;
use perpend_domain::server_run::{RunAnswer, RunState, RunTask, call_id, run_trace_id};
use perpend_domain::time::Timestamp;

use crate::row::id_bytes;
use crate::{Error, Ledger};

pub(super) const WHAT: &str = "server run";
/// Runs of a project that are driven at a time. The others wait, oldest first.
pub const MAX_DRIVEN_RUNS: i64 = 8;

/// A run under a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRun {
    /// The tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: String,
    /// Shared by the runs that one request started.
    pub experiment_id: String,
    /// Its name.
    pub name: String,
    /// The dataset.
    pub dataset_id: String,
    /// What answers the items.
    pub task: RunTask,
    /// Most calls in flight.
    pub concurrency: u32,
    /// Limit of the cost of the experiment, US dollars.
    pub max_usd: Option<f64>,
    /// The fence of the lease.
    pub fence: i64,
}

/// The right to drive a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLease<'r> {
    /// The tenant.
    pub project: &'r ProjectId,
    /// The run.
    pub run: &'r str,
    /// The fence.
    pub fence: i64,
}

impl ServerRun {
    /// Its lease.
    #[must_use]
    pub fn lease(&self) -> RunLease<'_> {
        RunLease { project: &self.project, run: &self.id, fence: self.fence }
    }
}

/// An item whose call starts.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedItem {
    /// Its place in the run.
    pub place: i64,
    /// The item of the dataset.
    pub item_id: String,
    /// The start of the version of the item.
    pub item_version: Timestamp,
    /// From 0.
    pub repetition: u32,
    /// Part of the id of the trace, from 0.
    pub attempt: u32,
    /// Failed calls.
    pub n_tries: u32,
    /// Calls whose process ended.
    pub n_interrupted: u32,
    /// The stored answer, whose trace is not written yet.
    pub answer: Option<RunAnswer>,
}

/// An item with a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredItem {
    /// The item of the dataset.
    pub item_id: String,
    /// The start of the version of the item.
    pub item_version: Timestamp,
    /// Length of the answer in bytes.
    pub n_bytes: usize,
}

/// The end of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemEnd {
    /// The item.
    pub item: ClaimedItem,
    /// US dollars that the application reported; absent for calls of models, whose costs are recorded per call.
    pub cost: Option<f64>,
    /// Class and message of a failure.
    pub error: Option<(String, String)>,
}

perpend_db::record! {
    struct RunRow {
        project_id: String,
        id: String,
        experiment_id: String,
        name: String,
        dataset_id: String,
        task: String,
        concurrency: i32,
        max_usd: Option<f64>,
        fence: i64,
    }
}

perpend_db::record! {
    struct ItemRow {
        place: i64,
        item_id: String,
        item_version: i64,
        repetition: i32,
        attempt: i32,
        tries: i32,
        interrupted: i32,
        answer: Option<String>,
    }
}

impl TryFrom<RunRow> for ServerRun {
    type Error = Error;

    fn try_from(row: RunRow) -> Result<Self, Error> {
        Ok(Self {
            project: checked(WHAT, &row.project_id)?,
            id: row.id,
            experiment_id: row.experiment_id,
            name: row.name,
            dataset_id: row.dataset_id,
            task: from_json(WHAT, &row.task)?,
            concurrency: row.concurrency.unsigned_abs(),
            max_usd: row.max_usd,
            fence: row.fence,
        })
    }
}

impl TryFrom<ItemRow> for ClaimedItem {
    type Error = Error;

    fn try_from(row: ItemRow) -> Result<Self, Error> {
        let answer = row.answer.as_deref();
        Ok(Self {
            place: row.place,
            item_id: row.item_id,
            item_version: Timestamp::from_micros(row.item_version),
            repetition: row.repetition.unsigned_abs(),
            attempt: row.attempt.unsigned_abs(),
            n_tries: row.tries.unsigned_abs(),
            n_interrupted: row.interrupted.unsigned_abs(),
            answer: answer.map(|answer| from_json(WHAT, answer)).transpose()?,
        })
    }
}

/// The driven runs of a project have the first places, then the oldest of the others.
const CLAIM: &str = "
    UPDATE server_runs SET fence = fence + 1, lease_until = $2
     WHERE state = 0 AND lease_until <= $1
       AND (project_id, id) IN
           (SELECT ranked.project_id, ranked.id
              FROM (SELECT project_id, id, ROW_NUMBER() OVER
                           (PARTITION BY project_id
                            ORDER BY CASE WHEN $1 < lease_until THEN 0 ELSE 1 END, created_at, id) AS place
                      FROM server_runs WHERE state = 0) ranked
             WHERE ranked.place <= $3)
    RETURNING project_id, id, experiment_id, name, dataset_id, task, concurrency, max_usd, fence";
/// Calls of a process that ended.
const INTERRUPTED: &str = "
    UPDATE server_run_items SET state = 0, interrupted = interrupted + 1, due_at = $3
     WHERE project_id = $1 AND run_id = $2 AND state = 1 AND state < 3";
const FREE: &str = "
    SELECT COUNT(*)
      FROM (SELECT lease_until, ROW_NUMBER() OVER
                   (PARTITION BY project_id
                    ORDER BY CASE WHEN $1 < lease_until THEN 0 ELSE 1 END, created_at, id) AS place
              FROM server_runs WHERE state = 0) ranked
     WHERE ranked.place <= $2 AND ranked.lease_until <= $1";
const GIVE_BACK: &str = "
    UPDATE server_run_items SET state = 0, interrupted = interrupted + 1
     WHERE project_id = $1 AND run_id = $2 AND state = 1 AND state < 3
       AND EXISTS (SELECT 1 FROM server_runs r WHERE r.project_id = $1 AND r.id = $2 AND r.fence = $3)";
const RELEASE: &str =
    "UPDATE server_runs SET lease_until = 0 WHERE project_id = $1 AND id = $2 AND fence = $3";
const RELEASE_ALL: &str = "UPDATE server_runs SET lease_until = 0 WHERE state = 0";
const RENEW: &str = "
    UPDATE server_runs SET lease_until = $4 WHERE project_id = $1 AND id = $2 AND fence = $3
    RETURNING state";
const HOLDS: &str = "
    SELECT COUNT(*) FROM server_runs
     WHERE project_id = $1 AND id = $2 AND fence = $3 AND state = 0 AND $4 < lease_until";
const COMPLETE: &str = "
    UPDATE server_runs SET state = 2, lease_until = 0, ended_at = $4, updated_at = $4
     WHERE project_id = $1 AND id = $2 AND fence = $3 AND state = 0
       AND NOT EXISTS (SELECT 1 FROM server_run_items i
                        WHERE i.project_id = $1 AND i.run_id = $2 AND i.state < 3)";
const NEXT_DUE: &str = "
    SELECT MIN(due_at) FROM server_run_items
     WHERE project_id = $1 AND run_id = $2 AND state = 0 AND state < 3";
const CLAIM_ITEMS: &str = "
    UPDATE server_run_items SET state = 1
     WHERE project_id = $1 AND run_id = $2
       AND place IN (SELECT place FROM server_run_items
                      WHERE project_id = $1 AND run_id = $2 AND state = 0 AND state < 3 AND due_at <= $3
                      ORDER BY due_at, place LIMIT $4)
       AND EXISTS (SELECT 1 FROM server_runs r
                    WHERE r.project_id = $1 AND r.id = $2 AND r.fence = $5 AND r.state = 0)
    RETURNING place, item_id, item_version, repetition, attempt, tries, interrupted, answer";
const ANSWER_LENGTHS: &str = "
    SELECT item_id, item_version, CAST(COALESCE(octet_length(answer), 0) AS BIGINT) FROM server_run_items
     WHERE project_id = $1 AND run_id = $2 AND state = 2 AND state < 3 ORDER BY due_at, place LIMIT $3";
const ANSWERED: &str = "
    SELECT place, item_id, item_version, repetition, attempt, tries, interrupted, answer FROM server_run_items
     WHERE project_id = $1 AND run_id = $2 AND state = 2 AND state < 3 ORDER BY due_at, place LIMIT $3";
const STORE_ANSWER: &str = "
    UPDATE server_run_items SET state = 2, answer = $4, cost = $5
     WHERE project_id = $1 AND run_id = $2 AND place = $3 AND state = 1
       AND EXISTS (SELECT 1 FROM server_runs r WHERE r.project_id = $1 AND r.id = $2 AND r.fence = $6)";
const FINISH: &str = "
    UPDATE server_run_items
       SET state = $4, answer = NULL, cost = $5, error_class = $6, error_message = $7
     WHERE project_id = $1 AND run_id = $2 AND place = $3 AND state < 3
       AND EXISTS (SELECT 1 FROM server_runs r WHERE r.project_id = $1 AND r.id = $2 AND r.fence = $8)";
const FORGET: &str = "DELETE FROM kept_answers WHERE execution_id = $1";
const RETRY: &str = "
    UPDATE server_run_items
       SET state = 0, due_at = $4, tries = tries + $5, error_class = $6, error_message = $7
     WHERE project_id = $1 AND run_id = $2 AND place = $3 AND state = 1
       AND EXISTS (SELECT 1 FROM server_runs r WHERE r.project_id = $1 AND r.id = $2 AND r.fence = $8)";

pub(super) fn state_of(code: i16) -> Result<RunState, Error> {
    let state = RunState::ALL.get(usize::from(code.unsigned_abs())).copied();
    state.ok_or_else(|| Error::Inconsistent { what: WHAT, detail: format!("state {code}") })
}

async fn finish(tx: &mut Tx, lease: RunLease<'_>, end: &ItemEnd) -> Result<(), Error> {
    let item = &end.item;
    let (class, message) = end.error.clone().unzip();
    let state = if end.error.is_some() { 4_i64 } else { 3 };
    let n_changed = query(FINISH)
        .bind(lease.project.as_str())
        .bind(lease.run)
        .bind(item.place)
        .bind(state)
        .bind(end.cost)
        .bind(class)
        .bind(message)
        .bind(lease.fence)
        .execute(tx)
        .await?;
    let trace = run_trace_id(lease.run, &item.item_id, item.repetition, item.attempt);
    if let Some(id) = id_bytes(&call_id(&trace)).filter(|_| 0 < n_changed) {
        query(FORGET).bind(id.as_slice()).execute(tx).await?;
    }
    Ok(())
}

impl Ledger {
    /// Takes over running runs that no process drives, at most [`MAX_DRIVEN_RUNS`] of a project together with those that
    /// are driven. Calls that were under way in another process are pending again and
    /// counted as interrupted. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_runs(
        &self,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<ServerRun>, Error> {
        let rows: Vec<RunRow> = in_transaction!(&self.pool, |tx| {
            let rows: Vec<RunRow> = query(CLAIM)
                .bind(now.as_micros())
                .bind(until.as_micros())
                .bind(MAX_DRIVEN_RUNS)
                .fetch_all(&mut tx)
                .await?;
            for row in &rows {
                query(INTERRUPTED)
                    .bind(&row.project_id)
                    .bind(&row.id)
                    .bind(now.as_micros())
                    .execute(&mut tx)
                    .await?;
            }
            rows
        });
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Whether [`Self::claim_runs`] would find a run. Crosses tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn has_free_runs(&self, now: Timestamp) -> Result<bool, Error> {
        let n: i64 = query_scalar(FREE)
            .bind(now.as_micros())
            .bind(MAX_DRIVEN_RUNS)
            .fetch_one(&self.pool)
            .await?;
        Ok(0 < n)
    }

    /// Extends a lease; the state of the run, absent if the lease is lost.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn renew_run(
        &self,
        lease: RunLease<'_>,
        until: Timestamp,
    ) -> Result<Option<RunState>, Error> {
        let state: Option<i16> = in_transaction!(&self.pool, |tx| {
            query_scalar(RENEW)
                .bind(lease.project.as_str())
                .bind(lease.run)
                .bind(lease.fence)
                .bind(until.as_micros())
                .fetch_optional(&mut tx)
                .await?
        });
        state.map(state_of).transpose()
    }

    /// Whether a run is running under this lease.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn holds_run(&self, lease: RunLease<'_>, now: Timestamp) -> Result<bool, Error> {
        let n: i64 = query_scalar(HOLDS)
            .bind(lease.project.as_str())
            .bind(lease.run)
            .bind(lease.fence)
            .bind(now.as_micros())
            .fetch_one(&self.pool)
            .await?;
        Ok(0 < n)
    }

    /// Ends a lease. Items whose call is under way are pending again and counted as interrupted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_run(&self, lease: RunLease<'_>) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            for sql in [GIVE_BACK, RELEASE] {
                query(sql)
                    .bind(lease.project.as_str())
                    .bind(lease.run)
                    .bind(lease.fence)
                    .execute(&mut tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// Ends all leases of runs. Only for the sole user of the database: the processes that held them are gone. Crosses
    /// tenants: for the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_all_runs(&self) -> Result<(), Error> {
        self.pool.change(RELEASE_ALL, &[]).await.map(|_| ())
    }

    /// Completes a run without open items; whether it has none.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn complete_run(&self, lease: RunLease<'_>, now: Timestamp) -> Result<bool, Error> {
        let n_changed = in_transaction!(&self.pool, |tx| {
            query(COMPLETE)
                .bind(lease.project.as_str())
                .bind(lease.run)
                .bind(lease.fence)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?
        });
        Ok(0 < n_changed)
    }

    /// When the next pending item is due; absent if none is pending.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_run_item(&self, lease: RunLease<'_>) -> Result<Option<Timestamp>, Error> {
        let due: Option<i64> = query_scalar(NEXT_DUE)
            .bind(lease.project.as_str())
            .bind(lease.run)
            .fetch_one(&self.pool)
            .await?;
        Ok(due.map(Timestamp::from_micros))
    }

    /// Starts the calls of due items, in their order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_run_items(
        &self,
        lease: RunLease<'_>,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<ClaimedItem>, Error> {
        let rows: Vec<ItemRow> = in_transaction!(&self.pool, |tx| {
            query(CLAIM_ITEMS)
                .bind(lease.project.as_str())
                .bind(lease.run)
                .bind(now.as_micros())
                .bind(i64::from(limit))
                .bind(lease.fence)
                .fetch_all(&mut tx)
                .await?
        });
        let items = rows.into_iter().map(TryInto::try_into);
        let mut items = items.collect::<Result<Vec<ClaimedItem>, Error>>()?;
        items.sort_by_key(|item| item.place);
        Ok(items)
    }

    /// The items that [`Self::answered_run_items`] returns, with the lengths of their answers in bytes.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn answer_lengths(
        &self,
        lease: RunLease<'_>,
        limit: u32,
    ) -> Result<Vec<AnsweredItem>, Error> {
        let rows: Vec<(String, i64, i64)> = query(ANSWER_LENGTHS)
            .bind(lease.project.as_str())
            .bind(lease.run)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let item = |(item_id, version, n): (String, i64, i64)| AnsweredItem {
            item_id,
            item_version: Timestamp::from_micros(version),
            n_bytes: usize::try_from(n).unwrap_or(0),
        };
        Ok(rows.into_iter().map(item).collect())
    }

    /// Items with a stored answer whose trace is not written yet.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn answered_run_items(
        &self,
        lease: RunLease<'_>,
        limit: u32,
    ) -> Result<Vec<ClaimedItem>, Error> {
        let rows: Vec<ItemRow> = query(ANSWERED)
            .bind(lease.project.as_str())
            .bind(lease.run)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Stores the answer of an item whose call is under way; whether the lease is still held.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn store_run_answer(
        &self,
        lease: RunLease<'_>,
        (place, answer): (i64, &RunAnswer),
    ) -> Result<bool, Error> {
        let text = perpend_db::to_json(WHAT, answer)?;
        let n_changed = in_transaction!(&self.pool, |tx| {
            let n_changed = query(STORE_ANSWER)
                .bind(lease.project.as_str())
                .bind(lease.run)
                .bind(place)
                .bind(&text)
                .bind(answer.cost_usd)
                .bind(lease.fence)
                .execute(&mut tx)
                .await?;
            tx.reach("server run: answered")?;
            n_changed
        });
        Ok(0 < n_changed)
    }

    /// Ends items after their traces are written, and deletes the kept answers of their calls. Items of a lost lease are
    /// unchanged.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn finish_run_items(
        &self,
        lease: RunLease<'_>,
        ends: &[ItemEnd],
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            for end in ends {
                finish(&mut tx, lease, end).await?;
            }
            tx.reach("server run: finished")?;
        });
        Ok(())
    }

    /// Makes an item pending until `at`. `is_counted` counts the failed call.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn retry_run_item(
        &self,
        lease: RunLease<'_>,
        (place, at, is_counted): (i64, Timestamp, bool),
        (class, message): (&str, &str),
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(RETRY)
                .bind(lease.project.as_str())
                .bind(lease.run)
                .bind(place)
                .bind(at.as_micros())
                .bind(i64::from(is_counted))
                .bind(class)
                .bind(message)
                .bind(lease.fence)
                .execute(&mut tx)
                .await?;
        });
        Ok(())
    }
}
