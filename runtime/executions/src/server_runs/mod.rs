//! Runs of experiments that the server executes, and the state of each of their items.
//!
//! Invariants:
//! - **One driver.** A run is driven under a lease; statements about its items repeat the fence of the lease.
//! - **An answer is stored before it is used.** An item whose answer is stored is not called again.

mod drive;
mod expected;
mod progress;
mod removal;
mod retry;

use perpend_db::{Sized, Tx, query, to_json, value_rows};
use perpend_domain::ids::ProjectId;
use perpend_domain::server_run::RunTask;
use perpend_domain::time::Timestamp;

use crate::Error;
use drive::WHAT;

pub use drive::{AnsweredItem, ClaimedItem, ItemEnd, MAX_DRIVEN_RUNS, RunLease, ServerRun};
pub use progress::{FailedItem, RunChange, RunProgress};
pub use removal::{OwnedByRuns, delete_server_run, delete_server_runs_of_dataset};
pub use retry::RunRetry;

/// A version of an item of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunItem {
    /// Its id.
    pub id: String,
    /// The start of the version.
    pub version: Timestamp,
}

/// A run to start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServerRun {
    /// Derived from project, dataset and name.
    pub id: String,
    /// Shared by the runs that one request starts.
    pub experiment_id: String,
    /// Its name, unique in the dataset.
    pub name: String,
    /// The dataset.
    pub dataset_id: String,
    /// The time as of which the dataset is read.
    pub dataset_at: Timestamp,
    /// What answers the items.
    pub task: RunTask,
    /// Most calls in flight.
    pub concurrency: u32,
    /// Limit of the cost of the runs of the experiment together, US dollars.
    pub max_usd: Option<f64>,
    /// Results per item.
    pub repetitions: u32,
    /// The rule that scores the results with the evaluators of the experiment.
    pub rule_id: Option<String>,
    /// The run that comparisons start with.
    pub baseline_id: Option<String>,
}

const INSERT: &str = "
    INSERT INTO server_runs (project_id, id, experiment_id, name, dataset_id, dataset_at, task, concurrency, max_usd,
                             rule_id, baseline_id, state, fence, lease_until, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $11, $12, 0, 0, 0, $10, $10)
    ON CONFLICT (project_id, id) DO NOTHING";
const N_COLUMNS: usize = 11;
static INSERT_ITEMS: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO server_run_items (project_id, run_id, place, item_id, item_version, repetition, due_at, state, \
                                       attempt, tries, interrupted) VALUES {}",
        value_rows(n, N_COLUMNS, 1)
    )
});

/// Inserts a run with a pending row for each item and repetition, inside the transaction of the caller. `false` if the
/// run exists.
///
/// # Errors
/// When the database fails.
pub async fn insert_run(
    tx: &mut Tx,
    project: &ProjectId,
    (new, items): (&NewServerRun, &[RunItem]),
    now: Timestamp,
) -> Result<bool, Error> {
    let n_made = query(INSERT)
        .bind(project.as_str())
        .bind(&new.id)
        .bind(&new.experiment_id)
        .bind(&new.name)
        .bind(&new.dataset_id)
        .bind(new.dataset_at.as_micros())
        .bind(to_json(WHAT, &new.task)?)
        .bind(i64::from(new.concurrency))
        .bind(new.max_usd)
        .bind(now.as_micros())
        .bind(new.rule_id.as_deref())
        .bind(new.baseline_id.as_deref())
        .execute(tx)
        .await?;
    if n_made == 0 {
        return Ok(false);
    }
    for repetition in 0..new.repetitions {
        let first = repetition as usize * items.len();
        let rows: Vec<(i64, &RunItem)> =
            items.iter().enumerate().map(|(n, item)| ((first + n) as i64, item)).collect();
        tx.execute_for(&INSERT_ITEMS, &rows, |args, (place, item)| {
            args.extend([
                project.as_str().into(),
                new.id.as_str().into(),
                (*place).into(),
                item.id.as_str().into(),
                item.version.as_micros().into(),
                i64::from(repetition).into(),
                now.as_micros().into(),
                0_i64.into(),
                0_i64.into(),
                0_i64.into(),
                0_i64.into(),
            ]);
        })
        .await?;
    }
    Ok(true)
}
