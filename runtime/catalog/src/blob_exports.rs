//! Exports to buckets: the destination and the progress of the export of a project. Secrets are already
//! encrypted here.
//!
//! - **One writer.** Each claim of an export gets a fence, and each statement that updates the export repeats
//!   it. So a slow writer cannot overwrite its successor, nor an export with changed settings.
//! - **A window is rewritten under the same names.** Its end is stored before its first file is started, and
//!   each finished file advances the position, so that an interrupted export continues with the unfinished
//!   file.

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Catalog, Error, audit};
use perpend_db::{Arg, checked, from_json, in_transaction, query, to_json};
use perpend_domain::list::ChangeCursor;

const WHAT: &str = "export";

/// Provider of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BucketKind {
    /// Amazon.
    S3,
    /// Any other provider with the S3 API.
    S3Compatible,
    /// Microsoft.
    AzureBlobStorage,
    /// Google.
    GoogleCloudStorage,
}

/// File format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileType {
    /// A JSON array of objects.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// One object per line.
    Jsonl,
}

/// Start of the exported data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExportMode {
    /// All stored data.
    FullHistory,
    /// From the start of the day on which the export was made, UTC.
    FromToday,
    /// From a given time.
    FromCustomDate,
}

/// Interval of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frequency {
    /// Three times an hour.
    #[serde(rename = "every_20_minutes")]
    Every20Minutes,
    /// Once an hour.
    Hourly,
    /// Once a day.
    Daily,
    /// Once a week.
    Weekly,
}

impl Frequency {
    /// The interval in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        const MINUTE: i64 = 60_000;
        match self {
            Self::Every20Minutes => 20 * MINUTE,
            Self::Hourly => 60 * MINUTE,
            Self::Daily => 24 * 60 * MINUTE,
            Self::Weekly => 7 * 24 * 60 * MINUTE,
        }
    }
}

/// Exported tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExportSource {
    /// Traces, observations and scores.
    #[serde(rename = "LEGACY_TRACES_OBSERVATIONS")]
    Older,
    /// Observations as the second version of the API shows them, and scores.
    #[serde(rename = "OBSERVATIONS_V2")]
    ObservationsV2,
    /// Both of the above.
    #[serde(rename = "LEGACY_TRACES_AND_ENRICHED_OBSERVATIONS")]
    Both,
}

/// Settings of an export, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSettings {
    /// Provider of the bucket.
    pub kind: BucketKind,
    /// Name of the bucket.
    pub bucket: String,
    /// Address, if it does not follow from kind and region.
    pub endpoint: Option<String>,
    /// Region of the bucket.
    pub region: String,
    /// Access key id, or account of Azure.
    pub access_key_id: Option<String>,
    /// Prefix of the names of all files; empty, or ends with a slash.
    pub prefix: String,
    /// Interval of exports.
    pub frequency: Frequency,
    /// Whether the bucket is part of the path of addresses and not of their host.
    pub force_path_style: bool,
    /// File format.
    pub file_type: FileType,
    /// Start of the exported data.
    pub mode: ExportMode,
    /// The start time, given or derived from the mode.
    pub start: Option<Timestamp>,
    /// Whether files are compressed with gzip.
    pub is_compressed: bool,
    /// Exported tables.
    pub source: ExportSource,
    /// Groups of columns of observations; empty means all.
    pub field_groups: Vec<String>,
}

/// Progress of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportState {
    /// When the next window is due.
    pub next_sync_at: Option<Timestamp>,
    /// End of the last complete window.
    pub last_sync_at: Option<Timestamp>,
    /// End of the current window.
    pub window_end: Option<Timestamp>,
    /// Position in the current window.
    pub place: ExportPlace,
    /// Failures since the last success.
    pub n_failures: u32,
    /// Error of the last failure; absent after a success.
    pub last_error: Option<String>,
    /// Time of the last failure.
    pub last_error_at: Option<Timestamp>,
    /// End of the current lease.
    pub leased_until: Option<Timestamp>,
}

/// Position of the next file of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPlace {
    /// Number of finished tables.
    pub n_tables: usize,
    /// Number of finished files of the current table.
    pub n_files: u32,
    /// The last exported row.
    pub after: Option<ChangeCursor>,
}

/// The export of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobExport {
    /// The project.
    pub project: ProjectId,
    /// Its id.
    pub id: String,
    /// Its settings.
    pub settings: ExportSettings,
    /// The encrypted secret.
    pub secret: Vec<u8>,
    /// Whether the export runs.
    pub is_enabled: bool,
    /// Its progress.
    pub state: ExportState,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// The right to write the files of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportLease {
    /// Project of the export.
    pub project: ProjectId,
    /// Unique per claim.
    pub fence: i64,
}

const COLUMNS: &str = "b.project_id, b.id, b.settings, b.secret, b.is_enabled, b.next_sync_at, b.last_sync_at, \
    b.window_end, b.place, b.n_failures, b.last_error, b.last_error_at, b.leased_until, b.created_at, \
    b.updated_at";
/// A writer with the old settings loses its fence.
const UPSERT: &str = "
    INSERT INTO blob_exports (project_id, id, settings, secret, is_enabled, next_sync_at, last_sync_at,
                              window_end, place, n_failures, last_error, last_error_at, fence, leased_until,
                              created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, 0, NULL, NULL, 0, 0, $9, $10)
    ON CONFLICT (project_id) DO UPDATE
       SET settings = excluded.settings, secret = excluded.secret, is_enabled = excluded.is_enabled,
           next_sync_at = excluded.next_sync_at, last_sync_at = excluded.last_sync_at,
           window_end = excluded.window_end, place = NULL, n_failures = 0, last_error = NULL,
           last_error_at = NULL, fence = 0, leased_until = 0, updated_at = excluded.updated_at";
const OF_ORGANIZATION: &str = "
      FROM blob_exports b JOIN projects p ON p.id = b.project_id
     WHERE p.organization_id = $1 AND p.deleted_at IS NULL";
const DELETE: &str = "DELETE FROM blob_exports WHERE project_id = $1 AND id = $2";
/// The outer conditions repeat the inner ones: of two servers that chose the same row, the second finds it
/// leased.
const CLAIM: &str = "
    UPDATE blob_exports SET fence = $1, leased_until = $2
     WHERE leased_until <= $3 AND is_enabled = 1 AND project_id =
        (SELECT b.project_id FROM blob_exports b JOIN projects p ON p.id = b.project_id
          WHERE b.is_enabled = 1 AND b.next_sync_at <= $3 AND b.leased_until <= $3 AND p.deleted_at IS NULL
          ORDER BY b.next_sync_at, b.project_id LIMIT 1)";
const CLAIMED: &str = "FROM blob_exports b WHERE b.fence = $1";
const ADVANCE: &str = "
    UPDATE blob_exports SET leased_until = $3, window_end = $4, place = $5
     WHERE project_id = $1 AND fence = $2";
const FINISH: &str = "
    UPDATE blob_exports
       SET last_sync_at = COALESCE($3, last_sync_at), next_sync_at = $4, window_end = NULL, place = NULL,
           n_failures = 0, last_error = NULL, last_error_at = NULL, fence = 0, leased_until = 0
     WHERE project_id = $1 AND fence = $2";
const FAIL: &str = "
    UPDATE blob_exports
       SET next_sync_at = $3, n_failures = n_failures + 1, last_error = $4, last_error_at = $5, fence = 0,
           leased_until = 0
     WHERE project_id = $1 AND fence = $2";
const RELEASE: &str = "
    UPDATE blob_exports SET next_sync_at = COALESCE($3, next_sync_at), fence = 0, leased_until = 0
     WHERE project_id = $1 AND fence = $2";

perpend_db::record! {
    struct ExportRow {
        project_id: String,
        id: String,
        settings: String,
        secret: Vec<u8>,
        is_enabled: i16,
        next_sync_at: Option<i64>,
        last_sync_at: Option<i64>,
        window_end: Option<i64>,
        place: Option<String>,
        n_failures: i64,
        last_error: Option<String>,
        last_error_at: Option<i64>,
        leased_until: i64,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ExportRow> for BlobExport {
    type Error = Error;

    fn try_from(row: ExportRow) -> Result<Self, Error> {
        let time = |micros: Option<i64>| micros.map(Timestamp::from_micros);
        let place = row.place.as_deref().map(|raw| from_json(WHAT, raw));
        Ok(Self {
            project: checked(WHAT, &row.project_id)?,
            id: row.id,
            settings: from_json(WHAT, &row.settings)?,
            secret: row.secret,
            is_enabled: row.is_enabled != 0,
            state: ExportState {
                next_sync_at: time(row.next_sync_at),
                last_sync_at: time(row.last_sync_at),
                window_end: time(row.window_end),
                place: place.transpose()?.unwrap_or_default(),
                n_failures: u32::try_from(row.n_failures).unwrap_or(u32::MAX),
                last_error: row.last_error,
                last_error_at: time(row.last_error_at),
                leased_until: time((row.leased_until != 0).then_some(row.leased_until)),
            },
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::as_micros)
}

impl Catalog {
    async fn exports_where(&self, rest: &str, args: &[Arg<'_>]) -> Result<Vec<BlobExport>, Error> {
        let rows: Vec<ExportRow> =
            self.pool.select(&format!("SELECT {COLUMNS} {rest}"), args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The export of a project, if it has one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn blob_export(&self, project: &ProjectId) -> Result<Option<BlobExport>, Error> {
        let args = [project.as_str().into()];
        let rest = "FROM blob_exports b WHERE b.project_id = $1";
        Ok(self.exports_where(rest, &args).await?.pop())
    }

    /// The exports of an organization's projects, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_blob_exports(
        &self,
        organization: &OrganizationId,
    ) -> Result<Vec<BlobExport>, Error> {
        let rest = format!("{OF_ORGANIZATION} ORDER BY b.created_at, b.id");
        let args = [organization.as_str().into()];
        self.exports_where(&rest, &args).await
    }

    /// An export of this organization by its id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_blob_export(
        &self,
        organization: &OrganizationId,
        id: &str,
    ) -> Result<Option<BlobExport>, Error> {
        let rest = format!("{OF_ORGANIZATION} AND b.id = $2");
        let args = [organization.as_str().into(), id.into()];
        Ok(self.exports_where(&rest, &args).await?.pop())
    }

    /// Writes the export of a project. It replaces an existing one except its id and its creation time. The
    /// current window is written again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn put_blob_export(&self, export: &BlobExport) -> Result<(), Error> {
        let settings = to_json(WHAT, &export.settings)?;
        let state = &export.state;
        let args: [Arg<'_>; 10] = [
            export.project.as_str().into(),
            export.id.as_str().into(),
            settings.as_str().into(),
            export.secret.as_slice().into(),
            export.is_enabled.into(),
            micros(state.next_sync_at).into(),
            micros(state.last_sync_at).into(),
            micros(state.window_end).into(),
            export.created_at.as_micros().into(),
            export.updated_at.as_micros().into(),
        ];
        let before = self.blob_export(&export.project).await?;
        let id = before.as_ref().map_or(&export.id, |before| &before.id);
        let states = (
            before.as_ref().map(audit::objects::bucket_export),
            Some(audit::objects::bucket_export(export)),
        );
        audit::note("bucket-export", id, states.0, states.1);
        self.pool.change(UPSERT, &args).await?;
        Ok(())
    }

    /// Deletes an export. Its files in the bucket stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such export.
    pub async fn delete_blob_export(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        audit::note("bucket-export", id, None, None);
        match self.pool.change(DELETE, &[project.as_str().into(), id.into()]).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Claims the unleased export that has been due for longest, until `until`. Crosses tenants: for the
    /// server. `fence` is different for each call, and not 0.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn claim_blob_export(
        &self,
        fence: i64,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Option<BlobExport>, Error> {
        let args: [Arg<'_>; 3] = [fence.into(), until.as_micros().into(), now.as_micros().into()];
        let sql = format!("SELECT {COLUMNS} {CLAIMED}");
        let mut rows: Vec<ExportRow> = in_transaction!(&self.pool, |tx| {
            let n = query(CLAIM).bind_all(&args).execute(&mut tx).await?;
            match n {
                0 => Vec::new(),
                _ => query(sql).bind(fence).fetch_all(&mut tx).await?,
            }
        });
        rows.pop().map(TryInto::try_into).transpose()
    }

    /// Stores the progress of a window and extends the lease until `until`. `false` if the caller has lost
    /// the export and must stop.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn advance_blob_export(
        &self,
        lease: &ExportLease,
        until: Timestamp,
        window_end: Timestamp,
        place: &ExportPlace,
    ) -> Result<bool, Error> {
        let place = to_json(WHAT, place)?;
        let args: [Arg<'_>; 5] = [
            lease.project.as_str().into(),
            lease.fence.into(),
            until.as_micros().into(),
            window_end.as_micros().into(),
            place.as_str().into(),
        ];
        Ok(self.pool.change(ADVANCE, &args).await? == 1)
    }

    /// Ends a complete window, or none if nothing was due; `false` if the caller has lost the export.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn finish_blob_export(
        &self,
        lease: &ExportLease,
        window_end: Option<Timestamp>,
        next: Timestamp,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 4] = [
            lease.project.as_str().into(),
            lease.fence.into(),
            micros(window_end).into(),
            next.as_micros().into(),
        ];
        Ok(self.pool.change(FINISH, &args).await? == 1)
    }

    /// Records the failure of a window and the time of the next try.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fail_blob_export(
        &self,
        lease: &ExportLease,
        reason: &str,
        now: Timestamp,
        next: Timestamp,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 5] = [
            lease.project.as_str().into(),
            lease.fence.into(),
            next.as_micros().into(),
            reason.into(),
            now.as_micros().into(),
        ];
        self.pool.change(FAIL, &args).await?;
        Ok(())
    }

    /// Releases an export to other writers: at once, or after the exports that are due before `next`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn release_blob_export(
        &self,
        lease: &ExportLease,
        next: Option<Timestamp>,
    ) -> Result<(), Error> {
        let args = [lease.project.as_str().into(), lease.fence.into(), micros(next).into()];
        self.pool.change(RELEASE, &args).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
