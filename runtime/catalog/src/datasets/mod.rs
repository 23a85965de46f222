//! Datasets, and their items in versions.
//!
//! Invariants:
//! - **Nothing is overwritten.** A change of an item is a new row, and so is its deletion. A dataset as of a
//!   time consists of the versions valid then.
//! - **No lost updates.** Fields that a write does not set are unchanged, also under concurrent writes.
//! - **An item meets the schema it was checked against.** A write contains the revision of the schemas used
//!   for its check and fails if it is outdated; a new schema contains the revision of the items.
//! - **Idempotent.** Writing the same item again changes nothing.

mod history;
mod item_writes;
mod items;
mod pinned;
mod removal;
mod row;
mod search;
mod state;
mod summaries;
#[cfg(test)]
mod tests;

use perpend_domain::dataset::{Dataset, DatasetPatch};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use crate::{Catalog, Error, audit};
use perpend_db::{Arg, PageQuery, Tx, in_transaction, query, to_json};
use perpend_domain::list::{NumberedPage, Paging};

pub use history::{ChangeLogEntry, DifferenceCounts, ItemDifference, VersionRef};
pub use item_writes::{NewItemVersion, put_items};
pub use items::{ItemQuery, ItemVersion};
pub use removal::delete_dataset;
use row::{DatasetRow, VersionRow};
pub use search::ItemSearch;
pub use summaries::{DatasetSummary, ItemCounts};

/// Revisions of schemas and items of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// Number of changes of the schemas.
    pub schema: i64,
    /// Number of writes to items.
    pub items: i64,
}

/// A dataset with the revisions that a checked write repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDataset {
    /// The dataset.
    pub dataset: Dataset,
    /// Its revisions.
    pub revisions: Revisions,
    /// The time since which it is archived; absent while it is active.
    pub archived_at: Option<Timestamp>,
    /// The run that the others are compared with; it may be deleted.
    pub baseline_run_id: Option<String>,
}

/// A version of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetVersion {
    /// Start of its validity.
    pub valid_from: Timestamp,
    /// Description for users.
    pub description: Option<String>,
    /// Arbitrary JSON.
    pub metadata: Value,
    /// JSON Schema of inputs.
    pub input_schema: Option<Value>,
    /// JSON Schema of expected outputs.
    pub expected_output_schema: Option<Value>,
}

impl DatasetVersion {
    /// The dataset in this version.
    #[must_use]
    pub fn of(self, dataset: &Dataset) -> Dataset {
        Dataset {
            description: self.description,
            metadata: self.metadata,
            input_schema: self.input_schema,
            expected_output_schema: self.expected_output_schema,
            updated_at: self.valid_from,
            ..dataset.clone()
        }
    }
}

const COLUMNS: &str = "id, name, description, metadata, input_schema, expected_output_schema,
    schema_revision, items_revision, created_at, updated_at, archived_at, baseline_run_id";
const INSERT: &str = "
    INSERT INTO datasets (project_id, id, name, description, metadata, input_schema,
                          expected_output_schema, schema_revision, items_revision, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, $8, $8)
    ON CONFLICT DO NOTHING";
const UPDATE: &str = "
    UPDATE datasets
       SET description = $3, metadata = $4, input_schema = $5, expected_output_schema = $6,
           schema_revision = schema_revision + $7, updated_at = $8
     WHERE project_id = $1 AND id = $2";
const INSERT_VERSION: &str = "
    INSERT INTO dataset_versions (project_id, dataset_id, valid_from, description, metadata,
                                  input_schema, expected_output_schema)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (project_id, dataset_id, valid_from) DO UPDATE SET
        description = excluded.description, metadata = excluded.metadata,
        input_schema = excluded.input_schema, expected_output_schema = excluded.expected_output_schema";

/// Kind of the object in the audit trail.
pub(super) const AUDITED: &str = "dataset";

/// The recorded members of a dataset.
fn settings(dataset: &Dataset) -> Value {
    json!({
        "name": dataset.name,
        "description": dataset.description,
        "inputSchema": dataset.input_schema,
        "expectedOutputSchema": dataset.expected_output_schema,
    })
}

/// A JSON text that may be absent.
fn some_json(value: Option<&Value>) -> Result<Option<String>, Error> {
    value.map(|value| to_json("dataset", value)).transpose()
}

/// Writes a new version of a dataset.
async fn insert_version(tx: &mut Tx, project: &ProjectId, dataset: &Dataset) -> Result<(), Error> {
    query(INSERT_VERSION)
        .bind(project.as_str())
        .bind(&dataset.id)
        .bind(dataset.updated_at.as_micros())
        .bind(dataset.description.as_deref())
        .bind(to_json("dataset", &dataset.metadata)?)
        .bind(some_json(dataset.input_schema.as_ref())?)
        .bind(some_json(dataset.expected_output_schema.as_ref())?)
        .execute(tx)
        .await?;
    Ok(())
}

impl Catalog {
    /// The dataset of this name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset(
        &self,
        project: &ProjectId,
        name: &str,
    ) -> Result<Option<StoredDataset>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM datasets WHERE project_id = $1 AND name = $2");
        self.one_dataset(&sql, project, name).await
    }

    /// The dataset of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_by_id(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<StoredDataset>, Error> {
        let sql = format!("SELECT {COLUMNS} FROM datasets WHERE project_id = $1 AND id = $2");
        self.one_dataset(&sql, project, id).await
    }

    async fn one_dataset(
        &self,
        sql: &str,
        project: &ProjectId,
        key: &str,
    ) -> Result<Option<StoredDataset>, Error> {
        let args: [Arg<'_>; 2] = [project.as_str().into(), key.into()];
        let rows: Vec<DatasetRow> = self.pool.select(sql, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// A page of the datasets of a project, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn datasets(
        &self,
        project: &ProjectId,
        paging: Paging,
    ) -> Result<NumberedPage<StoredDataset>, Error> {
        self.datasets_by_state(project, None, paging).await
    }

    /// Creates a dataset; `false` if its name is taken.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_dataset(
        &self,
        project: &ProjectId,
        dataset: &Dataset,
    ) -> Result<bool, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            let n_made = query(INSERT)
                .bind(project.as_str())
                .bind(&dataset.id)
                .bind(&dataset.name)
                .bind(dataset.description.as_deref())
                .bind(to_json("dataset", &dataset.metadata)?)
                .bind(some_json(dataset.input_schema.as_ref())?)
                .bind(some_json(dataset.expected_output_schema.as_ref())?)
                .bind(dataset.created_at.as_micros())
                .execute(&mut tx)
                .await?;
            if n_made == 0 {
                return Ok(false);
            }
            insert_version(&mut tx, project, dataset).await?;
            audit::note(AUDITED, &dataset.id, None, Some(settings(dataset)));
            true
        }))
    }

    /// Applies a write to the current state of a dataset, regardless of other writes since it was read.
    /// Returns the new state. `None` if its schemas have changed since, or, for a change of the schemas, its
    /// items.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn update_dataset(
        &self,
        project: &ProjectId,
        seen: &StoredDataset,
        patch: &DatasetPatch,
        now: Timestamp,
    ) -> Result<Option<Dataset>, Error> {
        let mut find = format!("SELECT {COLUMNS} FROM datasets WHERE project_id = $1 AND id = $2");
        if self.pool.is_postgres() {
            // SQLite has one writer at a time.
            find.push_str(" FOR UPDATE");
        }
        Ok(in_transaction!(&self.pool, |tx| {
            let row: Option<DatasetRow> = query(find)
                .bind(project.as_str())
                .bind(&seen.dataset.id)
                .fetch_optional(&mut tx)
                .await?;
            let Some(row) = row else { return Ok(None) };
            let existing = StoredDataset::try_from(row)?;
            let next = existing.dataset.patched(patch.clone(), now);
            let is_new_schema = existing.dataset.changes_schema(&next);
            let (then, is) = (seen.revisions, existing.revisions);
            if then.schema != is.schema || (is_new_schema && then.items != is.items) {
                return Ok(None);
            }
            if next == existing.dataset {
                return Ok(Some(next));
            }
            query(UPDATE)
                .bind(project.as_str())
                .bind(&next.id)
                .bind(next.description.as_deref())
                .bind(to_json("dataset", &next.metadata)?)
                .bind(some_json(next.input_schema.as_ref())?)
                .bind(some_json(next.expected_output_schema.as_ref())?)
                .bind(i64::from(is_new_schema))
                .bind(next.updated_at.as_micros())
                .execute(&mut tx)
                .await?;
            insert_version(&mut tx, project, &next).await?;
            let before = settings(&existing.dataset);
            audit::note(AUDITED, &next.id, Some(before), Some(settings(&next)));
            Some(next)
        }))
    }

    /// The dataset as of a time. `None` before its creation.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_at(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        at: Timestamp,
    ) -> Result<Option<DatasetVersion>, Error> {
        let sql = "
            SELECT valid_from, description, metadata, input_schema, expected_output_schema
              FROM dataset_versions
             WHERE project_id = $1 AND dataset_id = $2 AND valid_from <= $3
             ORDER BY valid_from DESC LIMIT 1";
        let args: [Arg<'_>; 3] =
            [project.as_str().into(), dataset_id.into(), at.as_micros().into()];
        let rows: Vec<VersionRow> = self.pool.select(sql, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// All versions of a dataset, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_versions(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        paging: Paging,
    ) -> Result<NumberedPage<DatasetVersion>, Error> {
        let listed = PageQuery {
            select: "valid_from, description, metadata, input_schema, expected_output_schema",
            from: "FROM dataset_versions WHERE project_id = $1 AND dataset_id = $2",
            args: &[project.as_str().into(), dataset_id.into()],
            order: "valid_from DESC",
        };
        self.pool.numbered::<VersionRow, _>(&listed, paging).await
    }
}
