//! Imports of files into datasets: their state and the rows that were rejected.
//!
//! Invariants:
//! - **Progress and items together.** A run advances an import in the transaction that writes the items, so a row is
//!   imported once although a run may be interrupted anywhere.
//! - **One run at a time.** Each start of a stage raises the revision; an advance of an older revision is refused.

use std::collections::HashSet;

use perpend_domain::dataset_import::{ImportSettings, ImportState};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{NumberedPage, Paging};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::{Catalog, Error};
use perpend_db::{
    Arg, PageQuery, Sized, Tx, checked, from_json, in_transaction, query, to_json, value_rows,
};

/// Rejected rows that an import keeps; later ones are counted only.
pub const MAX_REJECTS: u64 = 100_000;

/// Rows of an import by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Rows of the file that the stage has processed.
    pub n_rows: u64,
    /// New items.
    pub n_created: u64,
    /// Items with a new version.
    pub n_updated: u64,
    /// Items that had the values already.
    pub n_unchanged: u64,
    /// Items that existed and were left as they were.
    pub n_skipped: u64,
    /// Rejected rows.
    pub n_invalid: u64,
    /// Bytes of the file that the stage has processed.
    pub n_bytes: u64,
}

/// An import of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetImport {
    /// Its id, a UUID.
    pub id: String,
    /// The dataset.
    pub dataset_id: String,
    /// Name of the file, for display.
    pub file_name: String,
    /// Size of the file.
    pub n_bytes: u64,
    /// Its stage.
    pub state: ImportState,
    /// How rows become items.
    pub settings: ImportSettings,
    /// The first rows, as JSON for clients.
    pub preview: Value,
    /// Number of starts of a stage.
    pub revision: i64,
    /// Rows so far in the current or last stage.
    pub counts: ImportCounts,
    /// Why it failed.
    pub error: Option<String>,
    /// Time of the upload.
    pub created_at: Timestamp,
    /// Time of the last progress.
    pub updated_at: Timestamp,
}

/// A problem of a row that was not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportReject {
    /// Position among the rejects of the import.
    pub place: u64,
    /// Number of the row in the file, from 1, without the header.
    pub row: u64,
    /// Column of the file; empty if the problem is about the whole row.
    pub column: String,
    /// JSON Pointer from the item.
    pub pointer: String,
    /// The problem.
    pub message: String,
}

/// Progress of an import, written with the items of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportAdvance {
    /// The project.
    pub project: ProjectId,
    /// The import.
    pub id: String,
    /// The start that this run belongs to.
    pub revision: i64,
    /// State after these rows.
    pub state: ImportState,
    /// Rows so far, these included.
    pub counts: ImportCounts,
    /// Problems of these rows.
    pub rejects: Vec<ImportReject>,
    /// Why it failed.
    pub error: Option<String>,
    /// The time.
    pub now: Timestamp,
}

const COLUMNS: &str =
    "id, dataset_id, file_name, n_bytes, state, settings, preview, revision, n_rows, n_created,
    n_updated, n_unchanged, n_skipped, n_invalid, n_bytes_done, error, created_at, updated_at";
const INSERT: &str = "
    INSERT INTO dataset_imports
        (project_id, id, dataset_id, file_name, n_bytes, state, settings, preview, revision, n_rows, n_created,
         n_updated, n_unchanged, n_skipped, n_invalid, n_bytes_done, error, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, 0, 0, 0, 0, 0, NULL, $10, $10)
    ON CONFLICT DO NOTHING";
const START: &str = "
    UPDATE dataset_imports
       SET state = $4, settings = $5, preview = $6, revision = revision + 1, n_rows = 0, n_created = 0,
           n_updated = 0, n_unchanged = 0, n_skipped = 0, n_invalid = 0, n_bytes_done = 0, error = NULL,
           updated_at = $7
     WHERE project_id = $1 AND id = $2 AND revision = $3 AND state NOT IN ('completed', 'failed', 'cancelled')";
const CANCEL: &str = "
    UPDATE dataset_imports SET state = 'cancelled', updated_at = $3
     WHERE project_id = $1 AND id = $2 AND state IN ('uploaded', 'checking', 'checked', 'importing')";
const CLEAR_REJECTS: &str =
    "DELETE FROM dataset_import_rejects WHERE project_id = $1 AND import_id = $2";
const ADVANCE: &str = "
    UPDATE dataset_imports
       SET state = $4, n_rows = $5, n_created = $6, n_updated = $7, n_unchanged = $8, n_skipped = $9,
           n_invalid = $10, n_bytes_done = $11, error = $12, updated_at = $13
     WHERE project_id = $1 AND id = $2 AND revision = $3 AND state IN ('checking', 'importing')";
static INSERT_REJECTS: Sized = Sized::new(|n| {
    format!(
        "INSERT INTO dataset_import_rejects
             (project_id, import_id, place, row_number, column_name, pointer, message)
         VALUES {} ON CONFLICT DO NOTHING",
        value_rows(n, 7, 1)
    )
});
const RUNNING: &str = "
    SELECT project_id, id FROM dataset_imports WHERE state IN ('checking', 'importing')
     ORDER BY updated_at, project_id, id LIMIT 1000";
const OPEN: &str = "
    SELECT id FROM dataset_imports WHERE state IN ('uploaded', 'checking', 'checked', 'importing')";
const OPEN_BYTES: &str = "
    SELECT CAST(COALESCE(SUM(n_bytes), 0) AS BIGINT) FROM dataset_imports
     WHERE project_id = $1 AND state IN ('uploaded', 'checking', 'checked', 'importing')";
const ABANDONED: &str = "
    SELECT project_id, id FROM dataset_imports WHERE state IN ('uploaded', 'checked') AND updated_at < $1
     ORDER BY updated_at, project_id, id LIMIT 1000";
const OLD: &str = "
    SELECT project_id, id FROM dataset_imports
     WHERE state IN ('completed', 'failed', 'cancelled') AND updated_at < $1
     ORDER BY updated_at, project_id, id LIMIT 1000";
const DELETE: &str = "DELETE FROM dataset_imports WHERE project_id = $1 AND id = $2";

perpend_db::record! {
    struct ImportRow {
        id: String,
        dataset_id: String,
        file_name: String,
        n_bytes: i64,
        state: String,
        settings: String,
        preview: String,
        revision: i64,
        n_rows: i64,
        n_created: i64,
        n_updated: i64,
        n_unchanged: i64,
        n_skipped: i64,
        n_invalid: i64,
        n_bytes_done: i64,
        error: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ImportRow> for DatasetImport {
    type Error = Error;

    fn try_from(row: ImportRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            dataset_id: row.dataset_id,
            file_name: row.file_name,
            n_bytes: row.n_bytes.unsigned_abs(),
            state: checked("dataset import", &row.state)?,
            settings: from_json("dataset import", &row.settings)?,
            preview: from_json("dataset import", &row.preview)?,
            revision: row.revision,
            counts: ImportCounts {
                n_rows: row.n_rows.unsigned_abs(),
                n_created: row.n_created.unsigned_abs(),
                n_updated: row.n_updated.unsigned_abs(),
                n_unchanged: row.n_unchanged.unsigned_abs(),
                n_skipped: row.n_skipped.unsigned_abs(),
                n_invalid: row.n_invalid.unsigned_abs(),
                n_bytes: row.n_bytes_done.unsigned_abs(),
            },
            error: row.error,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

perpend_db::record! {
    struct RejectRow {
        place: i64,
        row_number: i64,
        column_name: String,
        pointer: String,
        message: String,
    }
}

impl From<RejectRow> for ImportReject {
    fn from(row: RejectRow) -> Self {
        Self {
            place: row.place.unsigned_abs(),
            row: row.row_number.unsigned_abs(),
            column: row.column_name,
            pointer: row.pointer,
            message: row.message,
        }
    }
}

/// A count as a column.
fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Catalog {
    /// Stores a new import.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_dataset_import(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 10] = [
            project.as_str().into(),
            import.id.as_str().into(),
            import.dataset_id.as_str().into(),
            import.file_name.as_str().into(),
            count(import.n_bytes).into(),
            import.state.as_str().into(),
            to_json("dataset import", &import.settings)?.into(),
            to_json("dataset import", &import.preview)?.into(),
            import.revision.into(),
            import.created_at.as_micros().into(),
        ];
        self.pool.change(INSERT, &args).await?;
        Ok(())
    }

    /// The import of this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_import(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<DatasetImport>, Error> {
        let sql =
            format!("SELECT {COLUMNS} FROM dataset_imports WHERE project_id = $1 AND id = $2");
        let args: [Arg<'_>; 2] = [project.as_str().into(), id.into()];
        let rows: Vec<ImportRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// A page of the imports into a dataset, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_imports(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        paging: Paging,
    ) -> Result<NumberedPage<DatasetImport>, Error> {
        let listed = PageQuery {
            select: COLUMNS,
            from: "FROM dataset_imports WHERE project_id = $1 AND dataset_id = $2",
            args: &[project.as_str().into(), dataset_id.into()],
            order: "created_at DESC, id DESC",
        };
        self.pool.numbered::<ImportRow, _>(&listed, paging).await
    }

    /// Sets state, settings and preview of an import, and starts from its first row. The revision is the one that was
    /// read: `false` if another stage was started since, or the import has ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn start_dataset_import(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
        now: Timestamp,
    ) -> Result<bool, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            let n_changed = query(START)
                .bind(project.as_str())
                .bind(&import.id)
                .bind(import.revision)
                .bind(import.state.as_str())
                .bind(to_json("dataset import", &import.settings)?)
                .bind(to_json("dataset import", &import.preview)?)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_changed == 0 {
                return Ok(false);
            }
            query(CLEAR_REJECTS).bind(project.as_str()).bind(&import.id).execute(&mut tx).await?;
            true
        }))
    }

    /// Cancels an import; a running stage writes nothing more. `false` if it has ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn cancel_dataset_import(
        &self,
        project: &ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), id.into(), now.as_micros().into()];
        Ok(self.pool.change(CANCEL, &args).await? == 1)
    }

    /// Rejected rows of an import after a place, in the order of the file.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_import_rejects(
        &self,
        project: &ProjectId,
        import_id: &str,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ImportReject>, Error> {
        let sql = format!(
            "SELECT place, row_number, column_name, pointer, message FROM dataset_import_rejects
              WHERE project_id = $1 AND import_id = $2 AND $3 < place ORDER BY place LIMIT {limit}"
        );
        let args: [Arg<'_>; 3] = [project.as_str().into(), import_id.into(), count(after).into()];
        let rows: Vec<RejectRow> = self.pool.select(&sql, &args).await?;
        Ok(rows.into_iter().map(ImportReject::from).collect())
    }

    /// Imports with a running stage, those without progress first, at most a thousand. Crosses tenants: for the job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn running_dataset_imports(&self) -> Result<Vec<(ProjectId, String)>, Error> {
        let rows: Vec<(String, String)> = self.pool.select(RUNNING, &[]).await?;
        let running = rows.into_iter();
        running.map(|(project, id)| Ok((checked("project", &project)?, id))).collect()
    }

    /// The ids of the imports that have not ended. Crosses tenants: for the job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_dataset_imports(&self) -> Result<HashSet<String>, Error> {
        let rows: Vec<(String,)> = self.pool.select(OPEN, &[]).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// Bytes of the files of the imports of a project that have not ended.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open_dataset_import_bytes(&self, project: &ProjectId) -> Result<u64, Error> {
        let rows: Vec<(i64,)> = self.pool.select(OPEN_BYTES, &[project.as_str().into()]).await?;
        Ok(rows.first().map_or(0, |(n,)| n.unsigned_abs()))
    }

    /// Imports that wait for their user since a time, at most a thousand. Crosses tenants: for the job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn abandoned_dataset_imports(
        &self,
        until: Timestamp,
    ) -> Result<Vec<(ProjectId, String)>, Error> {
        self.imports_until(ABANDONED, until).await
    }

    /// Imports that ended before a time, at most a thousand. Crosses tenants: for the job.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn old_dataset_imports(
        &self,
        until: Timestamp,
    ) -> Result<Vec<(ProjectId, String)>, Error> {
        self.imports_until(OLD, until).await
    }

    async fn imports_until(
        &self,
        sql: &str,
        until: Timestamp,
    ) -> Result<Vec<(ProjectId, String)>, Error> {
        let rows: Vec<(String, String)> =
            self.pool.select(sql, &[until.as_micros().into()]).await?;
        let found = rows.into_iter();
        found.map(|(project, id)| Ok((checked("project", &project)?, id))).collect()
    }

    /// Deletes an import and its rejected rows; imported items are kept.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_dataset_import(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            query(CLEAR_REJECTS).bind(project.as_str()).bind(id).execute(&mut tx).await?;
            query(DELETE).bind(project.as_str()).bind(id).execute(&mut tx).await?;
        });
        Ok(())
    }

    /// Advances an import without items, as [`advance_import`] does.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn advance_dataset_import(&self, advance: &ImportAdvance) -> Result<bool, Error> {
        Ok(in_transaction!(&self.pool, |tx| { advance_import(&mut tx, advance).await? }))
    }
}

/// Advances an import inside the transaction of the caller. `false` if its stage has ended or was started again: the
/// caller rolls back.
///
/// # Errors
/// When the database fails.
pub async fn advance_import(tx: &mut Tx, advance: &ImportAdvance) -> Result<bool, Error> {
    let counts = &advance.counts;
    let n_changed = query(ADVANCE)
        .bind(advance.project.as_str())
        .bind(&advance.id)
        .bind(advance.revision)
        .bind(advance.state.as_str())
        .bind(count(counts.n_rows))
        .bind(count(counts.n_created))
        .bind(count(counts.n_updated))
        .bind(count(counts.n_unchanged))
        .bind(count(counts.n_skipped))
        .bind(count(counts.n_invalid))
        .bind(count(counts.n_bytes))
        .bind(advance.error.as_deref())
        .bind(advance.now.as_micros())
        .execute(tx)
        .await?;
    if n_changed == 0 {
        return Ok(false);
    }
    let push = |args: &mut Vec<Arg<'_>>, reject: &ImportReject| {
        args.extend([
            Arg::from(advance.project.to_string()),
            advance.id.clone().into(),
            count(reject.place).into(),
            count(reject.row).into(),
            reject.column.clone().into(),
            reject.pointer.clone().into(),
            reject.message.clone().into(),
        ]);
    };
    tx.execute_for(&INSERT_REJECTS, &advance.rejects, push).await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use perpend_domain::dataset_import::{DuplicatePolicy, FileFormat};
    use serde_json::json;

    use super::*;
    use crate::testing::on_each_database;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
    }

    fn import() -> DatasetImport {
        DatasetImport {
            id: "import".to_owned(),
            dataset_id: "dataset".to_owned(),
            file_name: "file.csv".to_owned(),
            n_bytes: 100,
            state: ImportState::Importing,
            settings: ImportSettings {
                format: FileFormat::Csv,
                encoding: "utf-8".to_owned(),
                delimiter: ';',
                has_header: true,
                is_marked: false,
                mapping: Vec::new(),
                duplicates: DuplicatePolicy::Skip,
                is_of_traces: false,
            },
            preview: json!({ "columns": ["a"] }),
            revision: 1,
            counts: ImportCounts::default(),
            error: None,
            created_at: at(0),
            updated_at: at(0),
        }
    }

    fn advance(revision: i64, n_rows: u64, state: ImportState) -> ImportAdvance {
        let reject = |place| ImportReject {
            place,
            row: place,
            column: "a".to_owned(),
            pointer: "/input".to_owned(),
            message: "must be a number".to_owned(),
        };
        ImportAdvance {
            project: ProjectId::new("home").unwrap(),
            id: "import".to_owned(),
            revision,
            state,
            counts: ImportCounts { n_rows, n_invalid: n_rows, ..ImportCounts::default() },
            rejects: (1..=n_rows).map(reject).collect(),
            error: None,
            now: at(1),
        }
    }

    #[tokio::test]
    async fn only_the_newest_start_of_a_stage_advances_an_import() {
        on_each_database(|store| async move {
            let (catalog, home) = (&store.catalog, ProjectId::new("home").unwrap());
            catalog.create_dataset_import(&home, &import()).await.unwrap();
            let stored = catalog.dataset_import(&home, "import").await.unwrap().unwrap();
            assert_eq!(stored, import());
            assert_eq!(catalog.running_dataset_imports().await.unwrap().len(), 1);
            assert!(catalog.open_dataset_imports().await.unwrap().contains("import"));
            assert_eq!(catalog.open_dataset_import_bytes(&home).await.unwrap(), 100);
            let progress = advance(1, 3, ImportState::Importing);
            assert!(catalog.advance_dataset_import(&progress).await.unwrap());
            assert!(catalog.advance_dataset_import(&progress).await.unwrap(), "idempotent");
            let rejects = catalog.dataset_import_rejects(&home, "import", 1, 10).await.unwrap();
            assert_eq!(rejects, progress.rejects[1..]);
            assert!(catalog.start_dataset_import(&home, &stored, at(2)).await.unwrap());
            assert!(!catalog.start_dataset_import(&home, &stored, at(2)).await.unwrap());
            assert!(!catalog.advance_dataset_import(&progress).await.unwrap());
            let done = advance(2, 1, ImportState::Completed);
            assert!(catalog.advance_dataset_import(&done).await.unwrap());
            assert!(!catalog.advance_dataset_import(&done).await.unwrap(), "it has ended");
            let rejects = catalog.dataset_import_rejects(&home, "import", 0, 10).await.unwrap();
            assert_eq!(rejects.len(), 1);
            assert_eq!(catalog.old_dataset_imports(at(9)).await.unwrap().len(), 1);
            assert!(catalog.abandoned_dataset_imports(at(9)).await.unwrap().is_empty());
            assert!(!catalog.cancel_dataset_import(&home, "import", at(3)).await.unwrap());
            assert!(catalog.open_dataset_imports().await.unwrap().is_empty());
            assert_eq!(catalog.open_dataset_import_bytes(&home).await.unwrap(), 0);
            let ended = catalog.dataset_import(&home, "import").await.unwrap().unwrap();
            let is_started = catalog.start_dataset_import(&home, &ended, at(4)).await.unwrap();
            assert!(!is_started, "an import that has ended is not started again");
            let foreign = ProjectId::new("foreign").unwrap();
            assert_eq!(catalog.dataset_import(&foreign, "import").await.unwrap(), None);
            catalog.delete_dataset_import(&home, "import").await.unwrap();
            assert_eq!(catalog.dataset_import(&home, "import").await.unwrap(), None);
        })
        .await;
    }
}
