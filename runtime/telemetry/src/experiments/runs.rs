//! Runs over datasets, and the links of their items.

use perpend_domain::telemetry::NewLink;
use std::collections::HashMap;

use perpend_domain::dataset::{Dataset, DatasetRun, DatasetRunItem, run_id, run_item_id};
use perpend_domain::experiment::ExperimentRun;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::time::Timestamp;

use super::row::{LinkRow, RunRow};
use crate::change_log::note_linked;
use crate::{Error, Telemetry};
use perpend_db::{Arg, Tx, checked, in_transaction, query, to_json};

const RUN_COLUMNS: &str =
    "r.id, r.name, r.description, r.metadata, r.dataset_id, d.name AS dataset_name,
    r.created_at, r.updated_at";
const RUN_FROM: &str = "
    FROM dataset_runs r JOIN datasets d ON d.project_id = r.project_id AND d.id = r.dataset_id
   WHERE r.project_id = $1";
const LINK_COLUMNS: &str =
    "l.id, l.run_id, r.name AS run_name, l.item_id, l.dataset_version, l.trace_id,
    l.observation_id, l.created_at, l.updated_at";
const LINK_FROM: &str = "
    FROM dataset_run_items l JOIN dataset_runs r ON r.project_id = l.project_id AND r.id = l.run_id
   WHERE l.project_id = $1";
/// Idempotent; absent fields keep their stored values.
const PUT_RUN: &str = "
    INSERT INTO dataset_runs
        (project_id, id, dataset_id, name, description, metadata, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, COALESCE($6, 'null'), $7, $7)
    ON CONFLICT (project_id, id) DO UPDATE SET
        description = COALESCE($5, dataset_runs.description),
        metadata = COALESCE($6, dataset_runs.metadata),
        updated_at = CASE
            WHEN COALESCE($5, dataset_runs.description, '') <> COALESCE(dataset_runs.description, '')
              OR COALESCE($6, dataset_runs.metadata) <> dataset_runs.metadata
            THEN $7 ELSE dataset_runs.updated_at END";
/// The first run over a dataset with a name.
const RUN_OF_NAME: &str = "
    SELECT id FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2 AND name = $3
     ORDER BY created_at, id LIMIT 1";
/// Other runs over a dataset with a name.
const COUNT_NAMED: &str = "
    SELECT COUNT(*) FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2 AND name = $3 AND id <> $4";
/// Serialises the changes of names of runs over a dataset; SQLite has one writer at a time.
const LOCK_NAMES_POSTGRES: &str =
    "SELECT COUNT(pg_advisory_xact_lock(4707219, hashtext($1 || '/' || $2)))";
/// A run of spans gets a row.
const RENAME: &str = "
    INSERT INTO dataset_runs
        (project_id, id, dataset_id, name, description, metadata, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
    ON CONFLICT (project_id, id) DO UPDATE SET name = excluded.name, updated_at = excluded.updated_at";
const PUT_LINK: &str = "
    INSERT INTO dataset_run_items
        (project_id, run_id, id, item_id, dataset_version, trace_id, observation_id, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (project_id, run_id, id) DO NOTHING";
const REMEMBER_DELETION: &str = "
    INSERT INTO dataset_run_deletions (project_id, run_id, deleted_at) VALUES ($1, $2, $3)
    ON CONFLICT (project_id, run_id) DO UPDATE SET deleted_at = excluded.deleted_at";
/// Gates, runs and media references of one dataset.
const DELETE_OF_DATASET: [&str; 3] = [
    "DELETE FROM experiment_gates WHERE project_id = $1 AND run_id IN
        (SELECT id FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2)",
    "DELETE FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2",
    "DELETE FROM media_item_links WHERE project_id = $1 AND dataset_id = $2",
];
const REMEMBER_DELETIONS: &str = "
    INSERT INTO dataset_run_deletions (project_id, run_id, deleted_at)
    SELECT project_id, id, $3 FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2
    ON CONFLICT (project_id, run_id) DO UPDATE SET deleted_at = excluded.deleted_at";
const DELETE_RUN: &str = "DELETE FROM dataset_runs WHERE project_id = $1 AND id = $2";
const DELETE_GATES: &str = "DELETE FROM experiment_gates WHERE project_id = $1 AND run_id = $2";

/// Writes a run without links, inside the transaction of the caller. `false` if the dataset has a run of this name.
///
/// # Errors
/// When the database fails.
pub async fn insert_dataset_run(
    tx: &mut Tx,
    project: &ProjectId,
    run: &DatasetRun,
) -> Result<bool, Error> {
    const INSERT: &str = "
        INSERT INTO dataset_runs
            (project_id, id, dataset_id, name, description, metadata, created_at, updated_at)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8
         WHERE NOT EXISTS (SELECT 1 FROM dataset_runs r
                            WHERE r.project_id = $1 AND r.dataset_id = $3 AND r.name = $4)
        ON CONFLICT DO NOTHING";
    let n_made = query(INSERT)
        .bind(project.as_str())
        .bind(&run.id)
        .bind(&run.dataset_id)
        .bind(&run.name)
        .bind(run.description.as_deref())
        .bind(to_json("dataset run", &run.metadata)?)
        .bind(run.created_at.as_micros())
        .bind(run.updated_at.as_micros())
        .execute(tx)
        .await?;
    Ok(0 < n_made)
}

impl Telemetry {
    /// Links an item of a run to a trace, and records the change of the trace for the rules of experiments.
    /// Repeating it changes only the description and the metadata of the run, if they differ.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn link_run_item(
        &self,
        project: &ProjectId,
        dataset: &Dataset,
        new: &NewLink,
        now: Timestamp,
    ) -> Result<DatasetRunItem, Error> {
        let run = self.run_id_of_name(project, &dataset.id, &new.run_name).await?;
        let id = run_item_id(&run, &new.item_id, &new.trace_id, new.observation_id.as_deref());
        let metadata = new.metadata.as_ref();
        let metadata = metadata.map(|value| to_json("dataset run", value)).transpose()?;
        let trace: TraceId = checked("run item", &new.trace_id)?;
        in_transaction!(&self.pool, |tx| {
            query(PUT_RUN)
                .bind(project.as_str())
                .bind(&run)
                .bind(&dataset.id)
                .bind(&new.run_name)
                .bind(new.run_description.as_deref())
                .bind(metadata)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let n_made = query(PUT_LINK)
                .bind(project.as_str())
                .bind(&run)
                .bind(&id)
                .bind(&new.item_id)
                .bind(new.dataset_version.map(Timestamp::as_micros))
                .bind(&new.trace_id)
                .bind(&new.observation_id)
                .bind(new.created_at.as_micros())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if 0 < n_made {
                note_linked(&mut tx, project, &trace, now).await?;
            }
        });
        let sql = format!("SELECT {LINK_COLUMNS} {LINK_FROM} AND l.run_id = $2 AND l.id = $3");
        let args: [Arg<'_>; 3] = [project.as_str().into(), run.as_str().into(), id.as_str().into()];
        let rows: Vec<LinkRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().next().ok_or(Error::NotFound)?.try_into()
    }

    /// The id of the run over a dataset with this name, which may not exist. A renamed run also has the name with which it was
    /// created.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_id_of_name(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        name: &str,
    ) -> Result<String, Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), dataset_id.into(), name.into()];
        let rows: Vec<(String,)> = self.pool.select(RUN_OF_NAME, &args).await?;
        let named = rows.into_iter().next().map(|(id,)| id);
        Ok(named.unwrap_or_else(|| run_id(project, dataset_id, name)))
    }

    /// Renames a run. `false` if another run over its dataset has the name, or had it when it was created.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rename_run(
        &self,
        project: &ProjectId,
        run: &ExperimentRun,
        name: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        // Without a dataset the id is empty.
        let dataset_id = run.dataset_id.as_deref().filter(|_| run.dataset_name.is_some());
        let dataset_id = dataset_id.unwrap_or_default();
        if !dataset_id.is_empty() {
            let named = self.run_id_of_name(project, dataset_id, name).await?;
            if named != run.id && self.experiment_run(project, &named).await?.is_some() {
                return Ok(false);
            }
        }
        let metadata = to_json("dataset run", &run.metadata)?;
        let of_dataset: [Arg<'_>; 2] = [project.as_str().into(), dataset_id.into()];
        let others: [Arg<'_>; 4] =
            [project.as_str().into(), dataset_id.into(), name.into(), run.id.as_str().into()];
        in_transaction!(&self.pool, |tx| {
            if !dataset_id.is_empty() {
                if tx.is_postgres() {
                    tx.integer(LOCK_NAMES_POSTGRES, &of_dataset).await?;
                }
                if tx.integer(COUNT_NAMED, &others).await? != 0 {
                    return Ok(false);
                }
            }
            query(RENAME)
                .bind(project.as_str())
                .bind(&run.id)
                .bind(dataset_id)
                .bind(name)
                .bind(run.description.as_deref())
                .bind(metadata)
                .bind(run.created_at.as_micros())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
        });
        Ok(true)
    }

    /// The run with this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_run(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<DatasetRun>, Error> {
        let sql = format!("SELECT {RUN_COLUMNS} {RUN_FROM} AND r.id = $2");
        let args: [Arg<'_>; 2] = [project.as_str().into(), id.into()];
        let rows: Vec<RunRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// The names of the newest linked runs of each dataset, at most `limit` of each.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_run_names(
        &self,
        project: &ProjectId,
        dataset_ids: &[&str],
        limit: u32,
    ) -> Result<HashMap<String, Vec<String>>, Error> {
        let one = |place: usize| {
            format!(
                "SELECT * FROM (SELECT r.dataset_id, r.name FROM dataset_runs r
                  WHERE r.project_id = $1 AND r.dataset_id = ${place}
                  ORDER BY r.created_at DESC, r.id DESC LIMIT {limit}) d{place}"
            )
        };
        self.pool.texts_of_each(project, dataset_ids, one).await
    }

    /// Deletes a run with its links. Spans that clients have recorded for it so far are no longer shown as a
    /// run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_dataset_run(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            delete_run(&mut tx, project, id, now).await?;
        });
        Ok(())
    }
}

/// Deletes a run as [`Telemetry::delete_dataset_run`] does, inside the transaction of the caller.
///
/// # Errors
/// When the database fails.
pub async fn delete_run(
    tx: &mut Tx,
    project: &ProjectId,
    id: &str,
    now: Timestamp,
) -> Result<(), Error> {
    query(DELETE_GATES).bind(project.as_str()).bind(id).execute(&mut *tx).await?;
    query(DELETE_RUN).bind(project.as_str()).bind(id).execute(&mut *tx).await?;
    query(REMEMBER_DELETION)
        .bind(project.as_str())
        .bind(id)
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}

/// Deletes the runs over a dataset, as [`Telemetry::delete_dataset_run`] does, and the references of its items to
/// media, inside the transaction of the caller.
///
/// # Errors
/// When the database fails.
pub async fn delete_runs_of_dataset(
    tx: &mut Tx,
    project: &ProjectId,
    dataset_id: &str,
    now: Timestamp,
) -> Result<(), Error> {
    query(REMEMBER_DELETIONS)
        .bind(project.as_str())
        .bind(dataset_id)
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    for sql in DELETE_OF_DATASET {
        query(sql).bind(project.as_str()).bind(dataset_id).execute(tx).await?;
    }
    Ok(())
}
