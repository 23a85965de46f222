//! Progress of runs for users, and changes of their state.

use perpend_db::{in_transaction, query};
use perpend_domain::ids::ProjectId;
use perpend_domain::server_run::{PAUSED_BY_USER, RunState};
use perpend_domain::time::Timestamp;

use super::drive::{WHAT, state_of};
use crate::{Error, Ledger};

/// The progress of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunProgress {
    /// The run.
    pub id: String,
    /// Shared by the runs that one request started.
    pub experiment_id: String,
    /// Its name.
    pub name: String,
    /// The dataset.
    pub dataset_id: String,
    /// The time as of which the dataset is read.
    pub dataset_at: Timestamp,
    /// Running, paused, completed or cancelled.
    pub state: RunState,
    /// Whether it is running and no process drives it: it waits for other runs of the project, or for a server.
    pub is_waiting: bool,
    /// The reason of a pause.
    pub reason: Option<String>,
    /// The message of a pause.
    pub message: Option<String>,
    /// Most calls in flight.
    pub concurrency: u32,
    /// Limit of the cost of the experiment, US dollars.
    pub max_usd: Option<f64>,
    /// Creation time.
    pub created_at: Timestamp,
    /// End of a completed or cancelled run.
    pub ended_at: Option<Timestamp>,
    /// The rule that scores the results with the evaluators of the experiment.
    pub rule_id: Option<String>,
    /// The run that comparisons start with.
    pub baseline_id: Option<String>,
    /// Results that wait for their call.
    pub n_pending: u64,
    /// Results whose call is under way.
    pub n_in_flight: u64,
    /// Results with an answer.
    pub n_completed: u64,
    /// Results with an error.
    pub n_failed: u64,
    /// Calls that may have been made again because a process ended while they were under way.
    pub n_repeated: u64,
    /// US dollars so far, without calls whose cost is unknown.
    pub cost_usd: f64,
}

/// A failed result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedItem {
    /// The item of the dataset.
    pub item_id: String,
    /// From 0.
    pub repetition: u32,
    /// The class of the failure.
    pub class: String,
    /// The message.
    pub message: String,
}

/// A change of the state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange<'m> {
    /// A running run is paused by a user.
    Pause,
    /// A running run is paused for a reason, with a message.
    PauseFor(&'m str, &'m str),
    /// The same after a call that started at this time, unless the run was resumed since.
    PauseAfterCall(&'m str, &'m str, Timestamp),
    /// A paused run is running again.
    Resume,
    /// A running or paused run ends without its open items.
    Cancel,
}

perpend_db::record! {
    struct ProgressRow {
        id: String,
        experiment_id: String,
        name: String,
        dataset_id: String,
        dataset_at: i64,
        state: i16,
        lease_until: i64,
        reason: Option<String>,
        message: Option<String>,
        concurrency: i32,
        max_usd: Option<f64>,
        created_at: i64,
        ended_at: Option<i64>,
        rule_id: Option<String>,
        baseline_id: Option<String>,
    }
}

const RUN: &str = "
    SELECT id, experiment_id, name, dataset_id, dataset_at, state, lease_until, reason, message, concurrency, max_usd,
           created_at, ended_at, rule_id, baseline_id
      FROM server_runs WHERE project_id = $1 AND id = $2";
const COUNTS: &str = "
    SELECT state, COUNT(*), CAST(SUM(interrupted) AS BIGINT), COALESCE(SUM(cost), 0.0)
      FROM server_run_items WHERE project_id = $1 AND run_id = $2 GROUP BY state";
const MODEL_COST: &str = "
    SELECT COALESCE(SUM(cost), 0.0) FROM model_costs
     WHERE project_id = $1 AND rule_id = $2 AND evaluator_id = $3";
const FAILED: &str = "
    SELECT item_id, repetition, error_class, error_message FROM server_run_items
     WHERE project_id = $1 AND run_id = $2 AND state = 4 ORDER BY place LIMIT $3";
const REPORTED: &str = "
    SELECT COALESCE(SUM(i.cost), 0.0), COUNT(i.cost)
      FROM server_runs r JOIN server_run_items i ON i.project_id = r.project_id AND i.run_id = r.id
     WHERE r.project_id = $1 AND r.experiment_id = $2";
const PAUSE: &str = "
    UPDATE server_runs SET state = 1, reason = $3, message = $4, updated_at = $5
     WHERE project_id = $1 AND id = $2 AND state = 0";
const PAUSE_AFTER_CALL: &str = "
    UPDATE server_runs SET state = 1, reason = $3, message = $4, updated_at = $5
     WHERE project_id = $1 AND id = $2 AND state = 0 AND updated_at <= $6";
const RESUME: &str = "
    UPDATE server_runs SET state = 0, reason = NULL, message = NULL, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state = 1";
const CANCEL: &str = "
    UPDATE server_runs SET state = 3, ended_at = $3, updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state < 2";

impl Ledger {
    /// The progress of a run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_progress(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<RunProgress>, Error> {
        let found: Option<ProgressRow> =
            query(RUN).bind(project.as_str()).bind(id).fetch_optional(&self.pool).await?;
        let Some(row) = found else {
            return Ok(None);
        };
        let state = state_of(row.state)?;
        let mut progress = RunProgress {
            id: row.id,
            experiment_id: row.experiment_id,
            name: row.name,
            dataset_id: row.dataset_id,
            dataset_at: Timestamp::from_micros(row.dataset_at),
            state,
            // The end of a lease sets this to 0.
            is_waiting: state == RunState::Running && row.lease_until == 0,
            reason: row.reason,
            message: row.message,
            concurrency: row.concurrency.unsigned_abs(),
            max_usd: row.max_usd,
            created_at: Timestamp::from_micros(row.created_at),
            ended_at: row.ended_at.map(Timestamp::from_micros),
            rule_id: row.rule_id,
            baseline_id: row.baseline_id,
            n_pending: 0,
            n_in_flight: 0,
            n_completed: 0,
            n_failed: 0,
            n_repeated: 0,
            cost_usd: 0.0,
        };
        let counts: Vec<(i16, i64, i64, f64)> =
            query(COUNTS).bind(project.as_str()).bind(id).fetch_all(&self.pool).await?;
        for (state, n, n_interrupted, cost) in counts {
            let n = n.unsigned_abs();
            match state {
                0 => progress.n_pending += n,
                1 | 2 => progress.n_in_flight += n,
                3 => progress.n_completed += n,
                4 => progress.n_failed += n,
                _ => {
                    return Err(Error::Inconsistent {
                        what: WHAT,
                        detail: format!("state {state}"),
                    });
                }
            }
            progress.n_repeated += n_interrupted.unsigned_abs();
            progress.cost_usd += cost;
        }
        let model_cost: Vec<(f64,)> = query(MODEL_COST)
            .bind(project.as_str())
            .bind(&progress.experiment_id)
            .bind(&progress.id)
            .fetch_all(&self.pool)
            .await?;
        progress.cost_usd += model_cost.first().map_or(0.0, |(cost,)| *cost);
        Ok(Some(progress))
    }

    /// The first failed results of a run, in the order of the calls.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn failed_run_items(
        &self,
        project: &ProjectId,
        id: &str,
        limit: u32,
    ) -> Result<Vec<FailedItem>, Error> {
        let rows: Vec<(String, i32, Option<String>, Option<String>)> = query(FAILED)
            .bind(project.as_str())
            .bind(id)
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await?;
        let item = |(item_id, repetition, class, message): (
            String,
            i32,
            Option<String>,
            Option<String>,
        )| {
            FailedItem {
                item_id,
                repetition: repetition.unsigned_abs(),
                class: class.unwrap_or_default(),
                message: message.unwrap_or_default(),
            }
        };
        Ok(rows.into_iter().map(item).collect())
    }

    /// Costs that applications reported for the items of an experiment, in US dollars, and their number.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn reported_cost(
        &self,
        project: &ProjectId,
        experiment_id: &str,
    ) -> Result<(f64, u64), Error> {
        let rows: Vec<(f64, i64)> = query(REPORTED)
            .bind(project.as_str())
            .bind(experiment_id)
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.first().map_or((0.0, 0), |(cost, n)| (*cost, n.unsigned_abs())))
    }

    /// Changes the state of a run; `false` if its state does not allow the change.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn change_run(
        &self,
        project: &ProjectId,
        id: &str,
        change: RunChange<'_>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let n_changed = in_transaction!(&self.pool, |tx| {
            let (sql, texts) = match change {
                RunChange::Pause => (PAUSE, Some((PAUSED_BY_USER, "paused by a user"))),
                RunChange::PauseFor(reason, message) => (PAUSE, Some((reason, message))),
                RunChange::PauseAfterCall(reason, message, _) => {
                    (PAUSE_AFTER_CALL, Some((reason, message)))
                }
                RunChange::Resume => (RESUME, None),
                RunChange::Cancel => (CANCEL, None),
            };
            let mut update = query(sql).bind(project.as_str()).bind(id);
            if let Some((reason, message)) = texts {
                update = update.bind(reason).bind(message);
            }
            update = update.bind(now.as_micros());
            if let RunChange::PauseAfterCall(.., started_at) = change {
                update = update.bind(started_at.as_micros());
            }
            update.execute(&mut tx).await?
        });
        Ok(0 < n_changed)
    }
}
