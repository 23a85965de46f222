//! Exports to buckets: where a project has its data written to, and how far that has come. Secrets arrive here
//! encrypted.
//!
//! Invariants:
//! - **One writer.** Whoever claims an export gets a fence; each statement that moves the export on repeats it,
//!   so a slow writer cannot overwrite its successor, nor one whose settings were changed.
//! - **A window is written under the same names again.** Its end is stored before its first file is begun, and
//!   each finished file moves the place on: what was cut off goes on with the file it was at.

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Catalog, Error};
use perpend_db::{Arg, checked, from_json, in_transaction, query, to_json};
use perpend_domain::list::ChangeCursor;

const WHAT: &str = "export";

/// Who keeps the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum BucketKind {
    /// Amazon.
    S3,
    /// Anybody who speaks S3.
    S3Compatible,
    /// Microsoft.
    AzureBlobStorage,
    /// Google.
    GoogleCloudStorage,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FileType {
    /// A list of objects.
    Json,
    /// Comma-separated values under a line of names.
    Csv,
    /// An object per line.
    Jsonl,
}

/// Since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExportMode {
    /// Everything there is.
    FullHistory,
    /// From the start of the day on which the export was made, UTC.
    FromToday,
    /// From a time that was named.
    FromCustomDate,
}

/// How often.
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
    /// From the begin of one export to that of the next, milliseconds.
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

/// Which tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExportSource {
    /// Traces, observations and scores.
    #[serde(rename = "LEGACY_TRACES_OBSERVATIONS")]
    Older,
    /// Observations as the second version of the API shows them, and scores.
    #[serde(rename = "OBSERVATIONS_V2")]
    ObservationsV2,
    /// Both.
    #[serde(rename = "LEGACY_TRACES_AND_ENRICHED_OBSERVATIONS")]
    Both,
}

/// What an export is told, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSettings {
    /// Who keeps the bucket.
    pub kind: BucketKind,
    /// Its name.
    pub bucket: String,
    /// Where it is, when that does not follow from kind and region.
    pub endpoint: Option<String>,
    /// The region.
    pub region: String,
    /// Who writes: an access key, an account of Azure.
    pub access_key_id: Option<String>,
    /// Put before the names of all files; empty, or ends with a slash.
    pub prefix: String,
    /// How often.
    pub frequency: Frequency,
    /// The bucket stands in the path of addresses, not in their host.
    pub force_path_style: bool,
    /// How rows are written.
    pub file_type: FileType,
    /// Since when.
    pub mode: ExportMode,
    /// The time that was named, or followed from the mode.
    pub start: Option<Timestamp>,
    /// Files are compressed with gzip.
    pub is_compressed: bool,
    /// Which tables.
    pub source: ExportSource,
    /// Groups of columns of observations; none means all.
    pub field_groups: Vec<String>,
}

/// How far an export has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportState {
    /// When it is due.
    pub next_sync_at: Option<Timestamp>,
    /// End of the last window that was written whole.
    pub last_sync_at: Option<Timestamp>,
    /// End of the window under way.
    pub window_end: Option<Timestamp>,
    /// Where in that window.
    pub place: ExportPlace,
    /// Since the last success.
    pub n_failures: u32,
    /// Why the last one failed; none after a success.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Timestamp>,
    /// Somebody writes until then at most.
    pub leased_until: Option<Timestamp>,
}

/// The next file of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportPlace {
    /// Tables that are done.
    pub n_tables: usize,
    /// Files of the table that are done.
    pub n_files: u32,
    /// The last row that is done.
    pub after: Option<ChangeCursor>,
}

/// Where a project has its data written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobExport {
    /// The project.
    pub project: ProjectId,
    /// Its id.
    pub id: String,
    /// What it is told.
    pub settings: ExportSettings,
    /// The key, encrypted.
    pub secret: Vec<u8>,
    /// Whether anything is written.
    pub is_enabled: bool,
    /// How far it has come.
    pub state: ExportState,
    /// Made at.
    pub created_at: Timestamp,
    /// Last changed at.
    pub updated_at: Timestamp,
}

/// The right to write the files of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportLease {
    /// Whose export.
    pub project: ProjectId,
    /// Unique for each claim.
    pub fence: i64,
}

const COLUMNS: &str = "b.project_id, b.id, b.settings, b.secret, b.is_enabled, b.next_sync_at, b.last_sync_at, \
    b.window_end, b.place, b.n_failures, b.last_error, b.last_error_at, b.leased_until, b.created_at, \
    b.updated_at";
/// Whoever writes under the old settings has lost its fence.
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
/// The outer conditions stand there twice: of two servers that chose the same row, the second finds it leased.
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

    /// An export by its id, when it is one of this organization.
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

    /// Writes the export of a project, which replaces the one there is, all but its id and the time it was
    /// made at. What was written of a window under way is written again.
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
        self.pool.change(UPSERT, &args).await?;
        Ok(())
    }

    /// Deletes an export. What it wrote stays where it is.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such export.
    pub async fn delete_blob_export(&self, project: &ProjectId, id: &str) -> Result<(), Error> {
        match self.pool.change(DELETE, &[project.as_str().into(), id.into()]).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Takes the export that has been due for longest and that nobody writes, for as long as until `until`.
    /// Crosses tenants: for the server. `fence` is different for each call, and not 0.
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

    /// Writes down how far a window has come and keeps the export until `until`. `false` when it is not
    /// the caller's any more: then the caller stops.
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

    /// Ends a window that was written whole, or none where nothing was due; `false` when the export is not
    /// the caller's any more.
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

    /// Writes down why a window was not written, and when to try again.
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

    /// Lets an export go, for others to go on with: at once, or behind those that are due before `next`.
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
