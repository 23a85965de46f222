//! Exports to buckets: changes in a project are written to a bucket at intervals.
//!
//! Invariants:
//! - **Every change is in one window.** A window ends `LAG_MS` in the past, when everything that was received
//!   before has been committed; the next window starts at its end. Rows are assigned by the time of their
//!   last change on the server, never by a time of the sender.
//! - **Idempotent.** File names follow from the end of the window, which is stored before the first file is
//!   written, so that the successor of a crashed writer writes the same names.
//! - **One writer, bounded memory.** An export is held under a lease; memory holds a page of rows and some
//!   parts of one upload.

pub mod bucket;
mod file;
mod rows;
mod state;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use perpend_catalog::blob_exports::{BlobExport, ExportLease, ExportPlace, ExportSettings};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::list::{ChangeCursor, ChangeWindow};
use perpend_domain::time::Timestamp;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::runner::{Job, JobError, Progress};
use bucket::Retries;
use file::ExportFile;
use rows::{ExportRange, ExportTable};

pub use rows::groups;

pub use state::App;

/// Distance of the end of a window from the present, milliseconds.
pub const LAG_MS: i64 = 20 * 60_000;
/// Poll interval.
const EVERY: Duration = Duration::from_secs(15);
/// Maximum of concurrent exports.
const LANES: usize = 2;
/// Length of a lease, milliseconds. Longer than the upload of a page.
const LEASE_MS: i64 = 10 * 60_000;
/// Interval of lease renewals, milliseconds.
const RENEW_MS: i64 = 60_000;
/// Rows of the first page.
const FIRST_ROWS: u32 = 50;
const MAX_ROWS: u32 = 1_000;
/// Rows of the largest page with content, regardless of the size of earlier pages.
const MAX_ROWS_WITH_CONTENT: u32 = 100;
const PAGE_BYTES: usize = 4 << 20;
/// Bytes of one request of an upload.
const PART_BYTES: usize = 8 << 20;
const PARTS: usize = 2;
/// The first wait after a failure; it doubles up to the maximum.
const FIRST_WAIT_MS: i64 = 60_000;
const LAST_WAIT_MS: i64 = 60 * 60_000;

/// Reason for an unwritten window.
#[derive(Debug, thiserror::Error)]
enum WindowFailure {
    /// Another writer holds the export, or it was deleted.
    #[error("the lease of the export was lost")]
    Lost,
    #[error("{0}")]
    Bucket(#[from] object_store::Error),
    #[error("{0}")]
    Path(#[from] object_store::path::Error),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the key of the export: {0}")]
    Secret(#[from] perpend_http_client::Error),
    #[error("the database could not be read")]
    Store(#[from] perpend_db::Error),
    #[error("the file could not be written")]
    Panicked(#[from] tokio::task::JoinError),
    #[error("the export failed because of an internal error; see the log of the server")]
    Broken,
}

/// The job that writes the exports that are due.
#[derive(Debug)]
pub struct Exports(pub App);

impl Job for Exports {
    fn name(&self) -> &'static str {
        "exports"
    }

    fn interval(&self) -> Duration {
        EVERY
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            let n_writing = AtomicUsize::new(0);
            let lanes = (0..LANES).map(|_| lane(&self.0, &n_writing, shutdown));
            let lanes = join_all(lanes).await.into_iter();
            let n_items = lanes.sum::<Result<u64, JobError>>()?;
            Ok(Progress { n_items, again_after: None })
        })
    }
}

/// Writes exports until none is due. While another lane writes a long one, this one keeps looking.
async fn lane(
    app: &App,
    n_writing: &AtomicUsize,
    shutdown: &CancellationToken,
) -> Result<u64, JobError> {
    let mut n_written = 0;
    while !shutdown.is_cancelled() {
        if let Some(export) = claim(app).await? {
            n_writing.fetch_add(1, Ordering::Relaxed);
            write_claimed(app, export, shutdown).await;
            n_writing.fetch_sub(1, Ordering::Relaxed);
            n_written += 1;
        } else if n_writing.load(Ordering::Relaxed) == 0 {
            break;
        } else {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
        }
    }
    Ok(n_written)
}

/// Writes all exports that are due.
///
/// # Errors
/// When the database fails.
pub async fn write_due(app: &App) -> Result<(), JobError> {
    while let Some(export) = claim(app).await? {
        write_claimed(app, export, &CancellationToken::new()).await;
    }
    Ok(())
}

/// An export under a lease of this process.
struct ClaimedExport {
    export: BlobExport,
    lease: ExportLease,
    claimed_at: Timestamp,
}

/// Claims an export that is due.
async fn claim(app: &App) -> Result<Option<ClaimedExport>, JobError> {
    let now = app.clock.now();
    let fence = fence(app);
    let claimed = app.store.catalog.claim_blob_export(fence, now.plus_millis(LEASE_MS), now).await;
    Ok(claimed?.map(|export| ClaimedExport {
        lease: ExportLease { project: export.project.clone(), fence },
        export,
        claimed_at: now,
    }))
}

async fn write_claimed(app: &App, claimed: ClaimedExport, shutdown: &CancellationToken) {
    let ClaimedExport { export, lease, claimed_at } = claimed;
    // The lane serves all exports: a panic is a failure of that export only.
    let writing = AssertUnwindSafe(write(app, &export, &lease, claimed_at)).catch_unwind();
    let settled = tokio::select! {
        outcome = writing => {
            let outcome = outcome.unwrap_or(Err(WindowFailure::Broken));
            settle(app, &export, &lease, outcome).await
        }
        // Another server continues with the unfinished file.
        () = shutdown.cancelled() => app.store.catalog.release_blob_export(&lease, None).await,
    };
    if let Err(error) = settled {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(error, project.id = %lease.project, "outcome of an export not stored");
    }
}

/// 62 random bits, and not 0.
fn fence(app: &App) -> i64 {
    let random = (app.ids.uuid().as_u128() >> 66) as i64;
    random | 1
}

async fn settle(
    app: &App,
    export: &BlobExport,
    lease: &ExportLease,
    outcome: Result<WriteProgress, WindowFailure>,
) -> Result<(), perpend_db::Error> {
    let error = match outcome {
        Ok(WriteProgress { n_rows, is_whole }) => {
            tracing::debug!(project.id = %lease.project, n_rows, is_whole, "exported");
            // After the waiting ones: a long history does not delay the others.
            return match is_whole {
                true => Ok(()),
                false => {
                    let now = app.clock.now();
                    app.store.catalog.release_blob_export(lease, Some(now)).await
                }
            };
        }
        Err(WindowFailure::Lost) => return Ok(()),
        Err(error) => error,
    };
    let reason = bucket::shown(&error.to_string());
    let n_failures = export.state.n_failures;
    tracing::warn!(project.id = %lease.project, reason, n_failures, "export failed; it will be retried");
    let wait = FIRST_WAIT_MS << n_failures.min(10);
    let wait = wait.min(LAST_WAIT_MS).min(export.settings.frequency.as_millis());
    let now = app.clock.now();
    app.store.catalog.fail_blob_export(lease, &reason, now, now.plus_millis(wait)).await
}

/// Result of one turn.
#[derive(Clone, Copy, Debug)]
struct WriteProgress {
    n_rows: u64,
    /// Whether the window was completed, or only a file of it.
    is_whole: bool,
}

/// Writes the due window, or a part of it up to a full file.
async fn write(
    app: &App,
    export: &BlobExport,
    lease: &ExportLease,
    now: Timestamp,
) -> Result<WriteProgress, WindowFailure> {
    let settings = &export.settings;
    let from = export.state.last_sync_at.or(settings.start);
    let to = export.state.window_end;
    let to = to.unwrap_or_else(|| Timestamp::from_millis(now.as_millis() - LAG_MS));
    if let Some(from) = from.filter(|from| to <= *from) {
        let next = from.plus_millis(LAG_MS + 1);
        app.store.catalog.finish_blob_export(lease, None, next).await?;
        return Ok(WriteProgress { n_rows: 0, is_whole: true });
    }
    let secret = app.vault.unseal(&SealedAt::Export.owner(&export.project), &export.secret)?;
    let mut writing = WindowWriter {
        app,
        settings,
        lease,
        bucket: bucket::open(settings, &secret, &app.outbound, Retries::Some)?,
        window: ChangeWindow { from, to },
        place: export.state.place.clone(),
        renewed_at: now,
        n_rows: 0,
    };
    // From here on the file names of the window are fixed.
    writing.advance().await?;
    let tables = ExportTable::of(settings.source);
    while let Some(table) = tables.get(writing.place.n_tables) {
        writing.file(*table).await?;
        writing.advance().await?;
        if 0 < writing.place.n_files {
            let n_rows = writing.n_rows;
            return Ok(WriteProgress { n_rows, is_whole: false });
        }
    }
    // Relative to the start of the first turn of the window; this one may be later.
    let next = to.plus_millis(LAG_MS + settings.frequency.as_millis());
    let is_ours = app.store.catalog.finish_blob_export(lease, Some(to), next).await?;
    match is_ours {
        true => Ok(WriteProgress { n_rows: writing.n_rows, is_whole: true }),
        false => Err(WindowFailure::Lost),
    }
}

/// A window that is being written.
struct WindowWriter<'a> {
    app: &'a App,
    settings: &'a ExportSettings,
    lease: &'a ExportLease,
    bucket: Arc<dyn ObjectStore>,
    window: ChangeWindow,
    /// The position of the next file, as stored.
    place: ExportPlace,
    renewed_at: Timestamp,
    n_rows: u64,
}

impl WindowWriter<'_> {
    /// Stores the position, which also renews the lease.
    async fn advance(&mut self) -> Result<(), WindowFailure> {
        let now = self.app.clock.now();
        let until = now.plus_millis(LEASE_MS);
        let advanced = self.app.store.catalog.advance_blob_export(
            self.lease,
            until,
            self.window.to,
            &self.place,
        );
        if !advanced.await? {
            return Err(WindowFailure::Lost);
        }
        self.renewed_at = now;
        Ok(())
    }

    /// The name of the next file in the folder of the project.
    fn name(&self, table: ExportTable) -> String {
        let end = self.window.to.to_string().replace([':', '.'], "-");
        let ending = file::ending(self.settings.file_type, self.settings.is_compressed);
        match self.place.n_files {
            0 => format!("{}/{end}.{ending}", table.folder()),
            n => format!("{}/{end}-{:04}.{ending}", table.folder(), n + 1),
        }
    }

    /// Writes one file, and advances the position. Each window has at least one file of each table, so that
    /// consumers can detect its end.
    async fn file(&mut self, table: ExportTable) -> Result<(), WindowFailure> {
        let path = bucket::path(self.settings, &self.lease.project, &self.name(table))?;
        let mut upload = BufWriter::with_capacity(Arc::clone(&self.bucket), path, PART_BYTES)
            .with_max_concurrency(PARTS);
        let made = match self.rows_into(table, &mut upload).await {
            // Directly before the file becomes visible: a writer that lost the export leaves the file to its
            // successor.
            Ok(end) => self.advance().await.map(|()| end),
            Err(failure) => Err(failure),
        };
        let end = match made {
            Ok(end) => end,
            Err(failure) => {
                // The uploaded parts are useless. If the abort fails too, the lifecycle rules of the provider
                // remove them.
                let _ = upload.abort().await;
                return Err(failure);
            }
        };
        upload.shutdown().await?;
        self.place = match end {
            FileEnd::OfTable => {
                ExportPlace { n_tables: self.place.n_tables + 1, ..ExportPlace::default() }
            }
            FileEnd::OfFile(last) => ExportPlace {
                n_tables: self.place.n_tables,
                n_files: self.place.n_files + 1,
                after: last,
            },
        };
        Ok(())
    }

    async fn rows_into(
        &mut self,
        table: ExportTable,
        upload: &mut BufWriter,
    ) -> Result<FileEnd, WindowFailure> {
        let (kind, is_compressed) = (self.settings.file_type, self.settings.is_compressed);
        let mut file = ExportFile::new(kind, is_compressed, table.columns(self.settings))?;
        let max_rows = match table.has_content(self.settings) {
            true => MAX_ROWS_WITH_CONTENT,
            false => MAX_ROWS,
        };
        let mut limit = FIRST_ROWS;
        let max_bytes = self.app.max_file_bytes;
        let mut after = self.place.after.clone();
        let end = loop {
            let range = ExportRange {
                project: &self.lease.project,
                window: &self.window,
                after: after.as_ref(),
                limit,
            };
            let rows = table.rows(self.app, self.settings, range).await?;
            let (n_rows, is_full, last) = (rows.values.len(), rows.is_full, rows.last);
            let n_before = file.n_bytes;
            let values = rows.values;
            let appending = tokio::task::spawn_blocking(move || append(file, &values));
            let (appended, made) = appending.await??;
            file = appended;
            self.send(upload, made).await?;
            after = last.or(after);
            self.n_rows += n_rows as u64;
            if !is_full {
                break FileEnd::OfTable;
            }
            if max_bytes <= file.n_bytes {
                break FileEnd::OfFile(after);
            }
            let mean = (file.n_bytes - n_before) / n_rows.max(1);
            limit = u32::try_from(PAGE_BYTES / mean.max(1)).unwrap_or(max_rows);
            limit = limit.clamp(1, max_rows);
        };
        self.send(upload, file.end()?).await?;
        Ok(end)
    }

    /// Sent in parts: each waits for its memory, and the lease is renewed between them.
    async fn send(&mut self, upload: &mut BufWriter, bytes: Vec<u8>) -> Result<(), WindowFailure> {
        let mut rest = Bytes::from(bytes);
        while !rest.is_empty() {
            let part = rest.split_to(rest.len().min(PART_BYTES));
            upload.put(part).await?;
            self.renew().await?;
        }
        self.renew().await
    }

    /// Renews the lease if the last renewal is old.
    async fn renew(&mut self) -> Result<(), WindowFailure> {
        let age = self.app.clock.now().micros_since(self.renewed_at);
        match RENEW_MS * 1_000 <= age {
            true => self.advance().await,
            false => Ok(()),
        }
    }
}

/// Position at which a file ended.
enum FileEnd {
    /// At the end of the table.
    OfTable,
    /// After this row, because the file was full.
    OfFile(Option<ChangeCursor>),
}

fn append(
    mut file: ExportFile,
    rows: &[Vec<serde_json::Value>],
) -> std::io::Result<(ExportFile, Vec<u8>)> {
    for row in rows {
        file.row(row)?;
    }
    let made = file.take();
    Ok((file, made))
}
