//! Deletion of runs. What belongs to all runs of an experiment is deleted with the last one.

use perpend_db::{Tx, query};
use perpend_domain::ids::ProjectId;

use crate::Error;

/// What the deleted runs were the last to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedByRuns {
    /// Experiments without remaining runs.
    pub experiments: Vec<String>,
    /// Rules of these experiments.
    pub rules: Vec<String>,
}

/// An experiment and its rule.
type Owned = (String, Option<String>);

const OF_RUN: &str =
    "SELECT experiment_id, rule_id FROM server_runs WHERE project_id = $1 AND id = $2";
const OF_DATASET: &str = "
    SELECT DISTINCT experiment_id, rule_id FROM server_runs WHERE project_id = $1 AND dataset_id = $2";
const DELETE_ITEMS: &str = "DELETE FROM server_run_items WHERE project_id = $1 AND run_id = $2";
const DELETE_RUN: &str = "DELETE FROM server_runs WHERE project_id = $1 AND id = $2";
const DELETE_ITEMS_OF_DATASET: &str = "
    DELETE FROM server_run_items WHERE project_id = $1 AND run_id IN
        (SELECT id FROM server_runs WHERE project_id = $1 AND dataset_id = $2)";
const DELETE_RUNS_OF_DATASET: &str =
    "DELETE FROM server_runs WHERE project_id = $1 AND dataset_id = $2";
const REMAINING: &str =
    "SELECT id FROM server_runs WHERE project_id = $1 AND experiment_id = $2 LIMIT 1";

async fn delete(
    tx: &mut Tx,
    (project, id): (&ProjectId, &str),
    (owned, statements): (&'static str, [&'static str; 2]),
) -> Result<OwnedByRuns, Error> {
    let owned: Vec<Owned> =
        query(owned).bind(project.as_str()).bind(id).fetch_all(&mut *tx).await?;
    for sql in statements {
        query(sql).bind(project.as_str()).bind(id).execute(&mut *tx).await?;
    }
    let mut unused = OwnedByRuns::default();
    for (experiment, rule) in owned {
        let left: Option<(String,)> = query(REMAINING)
            .bind(project.as_str())
            .bind(&experiment)
            .fetch_optional(&mut *tx)
            .await?;
        if left.is_none() {
            unused.experiments.push(experiment);
            unused.rules.extend(rule);
        }
    }
    Ok(unused)
}

/// Deletes a run with the states of its items, inside the transaction of the caller. Its traces are kept.
///
/// # Errors
/// When the database fails.
pub async fn delete_server_run(
    tx: &mut Tx,
    project: &ProjectId,
    id: &str,
) -> Result<OwnedByRuns, Error> {
    delete(tx, (project, id), (OF_RUN, [DELETE_ITEMS, DELETE_RUN])).await
}

/// Deletes the runs over a dataset with the states of their items, inside the transaction of the caller.
///
/// # Errors
/// When the database fails.
pub async fn delete_server_runs_of_dataset(
    tx: &mut Tx,
    project: &ProjectId,
    dataset_id: &str,
) -> Result<OwnedByRuns, Error> {
    let statements = [DELETE_ITEMS_OF_DATASET, DELETE_RUNS_OF_DATASET];
    delete(tx, (project, dataset_id), (OF_DATASET, statements)).await
}
