//! The job that checks uploaded files and imports their rows.
//!
//! Invariants:
//! - **A row is imported once.** Items and the progress of the import are one transaction, and a run starts after the
//!   rows of the last one. Rows without an id get one from the import and their number.
//! - **Constant memory.** A run holds some rows of a file, at most 4 MiB of text.
//! - **Files have one owner.** A server works on the imports whose files are in its data directory, which it alone uses.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use perpend_broker::Engine;
use perpend_catalog::dataset_imports::{
    DatasetImport, ImportAdvance, ImportCounts, ImportReject, MAX_REJECTS,
};
use perpend_domain::dataset_import::{
    DuplicatePolicy, ImportSettings, ImportState, RowFault, row_item_id,
};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::Web;
use perpend_http_kit::problem::{Code, Problem};
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_storage::Store;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::rows::{Row, RowContent, RowReader};
use super::spool::Spool;
use crate::datasets::copies::copy_id;
use crate::datasets::from_traces;
use crate::datasets::writer::{
    ItemChange, ItemOutcome, ItemResult, ItemWrite, ItemWriter, OnExisting, WriteOptions,
};

/// Name of the job.
pub(super) const NAME: &str = "dataset_imports";
/// Imports at a time.
const LANES: usize = 2;
/// Time between two looks at the database while an import is running.
const POLL: Duration = Duration::from_secs(2);
/// Rows of one transaction.
const CHUNK_ROWS: usize = 1_000;
/// Text of the rows of one transaction. As JSON values it takes several times as much memory.
const CHUNK_BYTES: usize = 4 << 20;
/// Problems of one row that are kept.
const PER_ROW: usize = 20;
/// Characters of a message.
const MAX_MESSAGE_CHARS: usize = 500;
/// Age in milliseconds at which an upload without an import is deleted.
const ABANDONED_MS: i64 = 24 * 3_600_000;
/// Age in milliseconds at which the state of an ended import is deleted.
const OLD_MS: i64 = 30 * 24 * 3_600_000;

/// The job.
#[derive(Debug)]
pub struct DatasetImports {
    writer: ItemWriter,
    spool: Spool,
}

/// A row as a change of an item, or why it is none.
#[derive(Debug)]
struct ParsedRow {
    number: u64,
    item: Result<ItemWrite, Vec<RowFault>>,
}

/// Rows that were read together.
#[derive(Debug)]
struct Chunk {
    rows: Vec<ParsedRow>,
    /// Bytes of the file up to the end of the rows.
    n_bytes: u64,
    is_last: bool,
}

/// Whether an import continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continues,
    Ended,
}

impl DatasetImports {
    /// The job of a server.
    #[must_use]
    pub fn new(store: Store, engine: Arc<Engine>, web: Web) -> Self {
        let spool = Spool::of(&web);
        Self { writer: ItemWriter { store, engine, web }, spool }
    }

    async fn run_due(&self) -> Result<Progress, JobError> {
        self.sweep().await?;
        let mut active = FuturesUnordered::new();
        let mut started: HashSet<String> = HashSet::new();
        let (mut n_items, mut n_failed) = (0, 0);
        loop {
            let running = self.writer.store.catalog.running_dataset_imports().await?;
            for (project, id) in running {
                if active.len() < LANES && !started.contains(&id) && self.spool.has(&id) {
                    started.insert(id.clone());
                    active.push(self.import(project, id));
                }
            }
            if active.is_empty() {
                break;
            }
            tokio::select! {
                Some((id, done)) = active.next() => match done {
                    Ok(n_rows) => {
                        n_items += n_rows;
                        // Another stage may be started meanwhile.
                        started.remove(&id);
                    }
                    Err(_) => n_failed += 1,
                },
                () = tokio::time::sleep(POLL) => {}
            }
        }
        match n_failed {
            0 => Ok(Progress { n_items, again_after: None }),
            _ => Err(JobError::Incomplete { n_failed }),
        }
    }

    /// Runs the stage of an import to its end; the number of rows.
    async fn import(&self, project: ProjectId, id: String) -> (String, Result<u64, Problem>) {
        let done = Box::pin(self.run_stage(&project, &id)).await;
        let done = match done {
            Err(problem) if !matches!(problem.code(), Code::Unavailable | Code::Internal) => {
                self.fail(&project, &id, problem.message()).await.map(|()| 0)
            }
            other => other,
        };
        if let Err(problem) = &done {
            let error = problem.message();
            tracing::warn!(error, project.id = %project, import.id = id, "import interrupted");
        }
        (id, done)
    }

    async fn fail(&self, project: &ProjectId, id: &str, message: &str) -> Result<(), Problem> {
        let catalog = &self.writer.store.catalog;
        let Some(import) = catalog.dataset_import(project, id).await? else { return Ok(()) };
        let advance = ImportAdvance {
            state: ImportState::Failed,
            error: Some(message.to_owned()),
            ..self.advance(project, &import, import.counts)
        };
        catalog.advance_dataset_import(&advance).await?;
        self.spool.delete(id).await;
        Ok(())
    }

    async fn run_stage(&self, project: &ProjectId, id: &str) -> Result<u64, Problem> {
        let import = self.writer.store.catalog.dataset_import(project, id).await?;
        let Some(mut import) = import.filter(|import| import.state.is_running()) else {
            return Ok(0);
        };
        if import.settings.is_of_traces {
            return self.run_of_traces(project, &import).await;
        }
        let before = import.counts.n_rows;
        let mut reader = self.open(&import).await?;
        loop {
            let settings = import.settings.clone();
            let import_id = import.id.clone();
            let (returned, chunk) =
                blocking(move || next_chunk(reader, &settings, &import_id)).await?;
            reader = returned;
            let is_last = chunk.is_last;
            for rows in groups(chunk.rows) {
                // All groups of a chunk report its end.
                let n_bytes = chunk.n_bytes.min(import.n_bytes);
                if self.write(project, &mut import, rows, n_bytes).await? == Flow::Ended {
                    return Ok(import.counts.n_rows - before);
                }
            }
            if is_last {
                break;
            }
        }
        self.end_stage(project, &import).await?;
        Ok(import.counts.n_rows - before)
    }

    /// Adds items of traces: the file is the request.
    async fn run_of_traces(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
    ) -> Result<u64, Problem> {
        let path = self.spool.path(&import.id);
        let request = blocking(move || std::fs::read(path)).await?;
        let run = from_traces::run_in_background(&self.writer, project, import, &request);
        Box::pin(run).await?;
        self.spool.delete(&import.id).await;
        Ok(0)
    }

    /// The rows after those that are done.
    async fn open(&self, import: &DatasetImport) -> Result<RowReader, Problem> {
        let path = self.spool.path(&import.id);
        let settings = import.settings.clone();
        let n_done = import.counts.n_rows;
        blocking(move || {
            let mut reader = RowReader::open(&path, &settings)?;
            for _ in 0..n_done {
                if reader.next_row()?.is_none() {
                    break;
                }
            }
            Ok(reader)
        })
        .await
    }

    async fn end_stage(&self, project: &ProjectId, import: &DatasetImport) -> Result<(), Problem> {
        let state = match import.state {
            ImportState::Checking => ImportState::Checked,
            _ => ImportState::Completed,
        };
        let counts = ImportCounts { n_bytes: import.n_bytes, ..import.counts };
        let advance = ImportAdvance { state, ..self.advance(project, import, counts) };
        let is_ended = self.writer.store.catalog.advance_dataset_import(&advance).await?;
        if is_ended && state.is_final() {
            self.spool.delete(&import.id).await;
        }
        Ok(())
    }

    fn advance(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
        counts: ImportCounts,
    ) -> ImportAdvance {
        ImportAdvance {
            project: project.clone(),
            id: import.id.clone(),
            revision: import.revision,
            state: import.state,
            counts,
            rejects: Vec::new(),
            error: None,
            now: self.writer.web.clock.now(),
        }
    }

    /// Checks or imports rows of different items.
    async fn write(
        &self,
        project: &ProjectId,
        import: &mut DatasetImport,
        mut rows: Vec<ParsedRow>,
        n_bytes: u64,
    ) -> Result<Flow, Problem> {
        let on_existing = match import.settings.duplicates {
            DuplicatePolicy::Update => OnExisting::Update,
            DuplicatePolicy::Skip | DuplicatePolicy::Stop => OnExisting::Skip,
        };
        let is_dry_run = import.state == ImportState::Checking;
        let options = WriteOptions { on_existing, is_dry_run };
        self.replace_foreign_ids(project, import, &mut rows).await?;
        let stop = match import.settings.duplicates {
            DuplicatePolicy::Stop if !is_dry_run => self.cut(project, import, &mut rows).await?,
            _ => None,
        };
        let items = rows.iter().filter_map(|row| row.item.as_ref().ok());
        let writes: Vec<ItemWrite> = items.cloned().collect();
        let advance = |outcomes: &[ItemOutcome]| {
            let (mut counts, rejects) = progress(import, &rows, outcomes);
            counts.n_bytes = n_bytes;
            let mut advance = ImportAdvance { rejects, ..self.advance(project, import, counts) };
            if let Some(reason) = &stop {
                advance.state = ImportState::Failed;
                advance.error = Some(reason.clone());
            }
            advance
        };
        let (writer, dataset_id) = (&self.writer, &import.dataset_id);
        let written =
            Box::pin(writer.write_with(project, dataset_id, &writes, options, Some(&advance)));
        let Some(outcomes) = written.await? else { return Ok(Flow::Ended) };
        let done = advance(&outcomes);
        if is_dry_run && !writer.store.catalog.advance_dataset_import(&done).await? {
            return Ok(Flow::Ended);
        }
        import.counts = done.counts;
        if stop.is_some() {
            self.spool.delete(&import.id).await;
            return Ok(Flow::Ended);
        }
        Ok(Flow::Continues)
    }

    /// Removes the rows from the first one on whose item exists; the reason to stop there.
    async fn cut(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
        rows: &mut Vec<ParsedRow>,
    ) -> Result<Option<String>, Problem> {
        let ids = rows.iter().filter_map(|row| row.item.as_ref().ok());
        let ids: Vec<&str> = ids.map(|write| write.id.as_str()).collect();
        let known = self.writer.store.catalog.dataset_item_states(project, &ids).await?;
        let known = known.into_iter().filter(|version| !version.is_deleted);
        let known = known.filter(|version| version.item.dataset_id == import.dataset_id);
        let known: HashSet<String> = known.map(|version| version.item.id).collect();
        let is_known =
            |row: &ParsedRow| row.item.as_ref().is_ok_and(|write| known.contains(&write.id));
        let Some(at) = rows.iter().position(is_known) else { return Ok(None) };
        let number = rows[at].number;
        let id = rows[at].item.as_ref().map_or_else(|_| String::new(), |write| write.id.clone());
        rows.truncate(at);
        Ok(Some(format!(
            "row {number}: an item with the id {id:?} exists; earlier rows are imported"
        )))
    }

    /// Gives a row whose id an item of another dataset has the id of a copy of this item, so that an export can be
    /// imported into another dataset.
    async fn replace_foreign_ids(
        &self,
        project: &ProjectId,
        import: &DatasetImport,
        rows: &mut [ParsedRow],
    ) -> Result<(), Problem> {
        let ids = rows.iter().filter_map(|row| row.item.as_ref().ok());
        let ids: Vec<&str> = ids.map(|write| write.id.as_str()).collect();
        let catalog = &self.writer.store.catalog;
        let foreign = catalog.item_ids_of_other_datasets(project, &import.dataset_id, &ids).await?;
        let foreign: HashSet<String> = foreign.into_iter().collect();
        for row in rows {
            if let Ok(write) = &mut row.item
                && foreign.contains(&write.id)
            {
                write.id = copy_id(&import.dataset_id, &write.id);
            }
        }
        Ok(())
    }

    /// Fails an import that no server has worked on since a time, because no server has the file.
    async fn fail_without_file(
        &self,
        project: &ProjectId,
        id: &str,
        since: Timestamp,
    ) -> Result<(), JobError> {
        let catalog = &self.writer.store.catalog;
        let import = catalog.dataset_import(project, id).await?;
        if let Some(import) = import.filter(|import| import.updated_at < since) {
            let advance = ImportAdvance {
                state: ImportState::Failed,
                error: Some("no server has the uploaded file".to_owned()),
                ..self.advance(project, &import, import.counts)
            };
            catalog.advance_dataset_import(&advance).await?;
        }
        Ok(())
    }

    /// Ends uploads without an import, and deletes old states and files.
    async fn sweep(&self) -> Result<(), JobError> {
        let (catalog, now) = (&self.writer.store.catalog, self.writer.web.clock.now());
        for (project, id) in
            catalog.abandoned_dataset_imports(now.plus_millis(-ABANDONED_MS)).await?
        {
            if catalog.cancel_dataset_import(&project, &id, now).await? {
                self.spool.delete(&id).await;
            }
        }
        for (project, id) in catalog.running_dataset_imports().await? {
            if !self.spool.has(&id) {
                self.fail_without_file(&project, &id, now.plus_millis(-ABANDONED_MS)).await?;
            }
        }
        for (project, id) in catalog.old_dataset_imports(now.plus_millis(-OLD_MS)).await? {
            catalog.delete_dataset_import(&project, &id).await?;
        }
        let open = catalog.open_dataset_imports().await?;
        if let Err(error) = self.spool.delete_old(system_time(now), &open) {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "old uploaded files not deleted");
        }
        Ok(())
    }
}

impl Job for DatasetImports {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            tokio::select! {
                done = self.run_due() => done,
                // The next start continues after the rows that are written.
                () = shutdown.cancelled() => Ok(Progress::default()),
            }
        })
    }
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.as_micros().unsigned_abs())
}

/// Reads a file on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "a file of an import was not read");
        Problem::internal()
    })?
    .map_err(|error| {
        let cause: &dyn std::error::Error = &error;
        tracing::error!(error = cause, "a file of an import cannot be read");
        Problem::new(Code::Unprocessable, "the uploaded file cannot be read any more")
    })
}

fn next_chunk(
    mut reader: RowReader,
    settings: &ImportSettings,
    import_id: &str,
) -> std::io::Result<(RowReader, Chunk)> {
    let places: HashMap<String, usize> =
        reader.columns().iter().enumerate().rev().map(|(at, name)| (name.clone(), at)).collect();
    let mut chunk = Chunk { rows: Vec::new(), n_bytes: 0, is_last: false };
    let mut n_bytes = 0;
    while chunk.rows.len() < CHUNK_ROWS && n_bytes < CHUNK_BYTES {
        let Some(row) = reader.next_row()? else {
            chunk.is_last = true;
            break;
        };
        n_bytes += row.n_bytes;
        chunk.rows.push(parsed(row, settings, &places, import_id));
    }
    chunk.n_bytes = reader.n_bytes();
    Ok((reader, chunk))
}

fn parsed(
    row: Row,
    settings: &ImportSettings,
    places: &HashMap<String, usize>,
    import_id: &str,
) -> ParsedRow {
    let number = row.number;
    let item = match row.content {
        RowContent::Broken(message) => {
            Err(vec![RowFault { column: String::new(), pointer: String::new(), message }])
        }
        RowContent::Cells(cells) => settings.item(|column| {
            let cell = cells.get(*places.get(column)?)?;
            Some(Value::from(cell.as_str()))
        }),
        RowContent::Members(members) => settings.item(|column| members.get(column).cloned()),
    };
    let item = item.map(|item| ItemWrite {
        id: item.id.unwrap_or_else(|| row_item_id(import_id, number)),
        change: ItemChange::Put(Box::new(item.patch)),
    });
    ParsedRow { number, item }
}

/// Consecutive rows in groups without a repeated id.
fn groups(rows: Vec<ParsedRow>) -> Vec<Vec<ParsedRow>> {
    let mut groups: Vec<Vec<ParsedRow>> = Vec::new();
    let mut ids: HashSet<String> = HashSet::new();
    let mut group = Vec::new();
    for row in rows {
        if let Ok(write) = &row.item
            && !ids.insert(write.id.clone())
        {
            groups.push(std::mem::take(&mut group));
            ids.clear();
            ids.insert(write.id.clone());
        }
        group.push(row);
    }
    groups.push(group);
    groups
}

/// The counts of an import after rows, and the problems of these rows.
fn progress(
    import: &DatasetImport,
    rows: &[ParsedRow],
    outcomes: &[ItemOutcome],
) -> (ImportCounts, Vec<ImportReject>) {
    let mut counts = import.counts;
    let mut rejects = Vec::new();
    let mut outcomes = outcomes.iter();
    for row in rows {
        counts.n_rows = row.number;
        let faults: Vec<RowFault> = match &row.item {
            Err(faults) => faults.clone(),
            Ok(_) => {
                let Some(outcome) = outcomes.next() else { continue };
                outcome.result.count(&mut counts);
                if outcome.result != ItemResult::Invalid {
                    continue;
                }
                faults_of(&import.settings, outcome)
            }
        };
        if row.item.is_err() {
            counts.n_invalid += 1;
        }
        if counts.n_invalid <= MAX_REJECTS {
            let faults = faults.into_iter().take(PER_ROW).enumerate();
            rejects.extend(faults.map(|(at, fault)| ImportReject {
                place: row.number * PER_ROW as u64 + at as u64,
                row: row.number,
                column: fault.column,
                pointer: fault.pointer,
                message: fault.message.chars().take(MAX_MESSAGE_CHARS).collect(),
            }));
        }
    }
    (counts, rejects)
}

/// The problems of an item, with the column that sets the member.
fn faults_of(settings: &ImportSettings, outcome: &ItemOutcome) -> Vec<RowFault> {
    let faults = outcome.problems.iter().map(|problem| {
        let pointer = format!("/{}{}", problem.field, problem.pointer);
        let is_column = |mapping: &&perpend_domain::dataset_import::ColumnMapping| {
            let start = mapping.path.iter().fold(format!("/{}", mapping.target), |start, key| {
                format!("{start}/{}", key.replace('~', "~0").replace('/', "~1"))
            });
            pointer == start || pointer.starts_with(&format!("{start}/"))
        };
        let column = settings.mapping.iter().find(is_column);
        RowFault {
            column: column.map_or_else(String::new, |mapping| mapping.column.clone()),
            pointer,
            message: problem.message.clone(),
        }
    });
    faults.collect()
}
