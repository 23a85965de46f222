//! Media that clients upload: announced, uploaded, and read back.
//!
//! Invariants:
//! - **The hash names the bytes.** Bytes are stored only under their digest, once per project; an id is the
//!   prefix of that digest.
//! - **Readable means stored.** A medium is shown when its bytes are stored, whatever a client reports.
//! - **A new link resets the age.** Linking a medium updates its time in the same transaction, and the
//!   deletion of old media checks the age again after it has waited for the row. So a link that the deletion
//!   could not see yet keeps the bytes.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use perpend_domain::dataset::{DatasetItem, media_ids};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::in_transaction;
use perpend_db::{Arg, Tx, query, query_scalar, value_list};

/// An upload that a client announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMedia {
    /// First 22 characters of the URL-safe base64 of `sha256`.
    pub id: String,
    /// Digest of the bytes.
    pub sha256: [u8; 32],
    /// MIME type.
    pub content_type: String,
    /// Number of bytes.
    pub content_length: i64,
    /// The object that refers to the medium.
    pub place: MediaOwner,
    /// `input`, `output`, `metadata` or `expectedOutput`.
    pub field: String,
}

/// The object that refers to a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaOwner {
    /// A trace, and optionally one of its observations.
    Trace(String, Option<String>),
    /// An item of a dataset: ids of the dataset and the item.
    Item(String, String),
}

/// A medium without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Its id.
    pub id: String,
    /// Digest of its bytes.
    pub sha256: Vec<u8>,
    /// MIME type.
    pub content_type: String,
    /// Number of its bytes.
    pub content_length: i64,
    /// When the bytes arrived; absent until then.
    pub uploaded_at: Option<Timestamp>,
}

/// Report of a client about its upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadReport {
    /// Status code of the response to the upload.
    pub http_status: i64,
    /// Error message.
    pub http_error: Option<String>,
    /// Duration of the upload, milliseconds.
    pub time_ms: Option<i64>,
}

perpend_db::record! {
    struct MediumRow {
        id: String,
        sha256: Vec<u8>,
        content_type: String,
        content_length: i64,
        uploaded_at: Option<i64>,
    }
}

impl From<MediumRow> for Medium {
    fn from(row: MediumRow) -> Self {
        Self {
            id: row.id,
            sha256: row.sha256,
            content_type: row.content_type,
            content_length: row.content_length,
            uploaded_at: row.uploaded_at.map(Timestamp::from_micros),
        }
    }
}

/// References of one item that keep their medium.
const MAX_MEDIA: usize = 300;
const MAX_MEDIA_ID: usize = 200;

/// Half a day in microseconds. Projects keep their data for days: a younger medium is not deleted, and its
/// row, which holds the bytes, need not be rewritten.
macro_rules! young {
    () => {
        "43200000000"
    };
}

/// Handling of stored bytes that arrive again.
macro_rules! renewed {
    () => {
        concat!(
            "ON CONFLICT (tenant, sha256) DO UPDATE SET created_at = excluded.created_at
              WHERE media.created_at < excluded.created_at - ",
            $crate::media::young!()
        )
    };
}
pub(crate) use {renewed, young};

const ANNOUNCE: &str = concat!(
    "
    INSERT INTO media_uploads (project_id, id, sha256, content_type, content_length, created_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (project_id, id) DO UPDATE SET
        content_type = CASE WHEN media_uploads.uploaded_at IS NULL
                            THEN excluded.content_type ELSE media_uploads.content_type END,
        content_length = CASE WHEN media_uploads.uploaded_at IS NULL
                              THEN excluded.content_length ELSE media_uploads.content_length END,
        created_at = excluded.created_at
        WHERE media_uploads.uploaded_at IS NULL
           OR media_uploads.created_at < excluded.created_at - ",
    young!()
);
/// Renews a medium that is linked at `$3`, so that it is not deleted as old.
const RENEW: &str = concat!(
    "
    UPDATE media SET created_at = $3
     WHERE tenant = (SELECT number FROM tenants WHERE project_id = $1) AND id = $2
       AND created_at < $3 - ",
    young!()
);
const NUMBER: &str = "INSERT INTO tenants (project_id) VALUES ($1) ON CONFLICT DO NOTHING";
const LINK_TRACE: &str = "
    INSERT INTO media_links (tenant, trace_id, observation_id, field, media_id)
    SELECT number, $2, $3, $4, $5 FROM tenants WHERE project_id = $1
    ON CONFLICT (tenant, trace_id, observation_id, field, media_id) DO NOTHING";
const LINK_ITEM: &str = "
    INSERT INTO media_item_links (project_id, dataset_id, item_id, field, media_id)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (project_id, dataset_id, item_id, field, media_id) DO NOTHING";
const STORE_BYTES: &str = concat!(
    "
    INSERT INTO media (tenant, id, sha256, content_type, bytes, created_at)
    SELECT number, $2, $3, $4, $5, $6 FROM tenants WHERE project_id = $1 ",
    renewed!()
);
const ARRIVED: &str = "
    UPDATE media_uploads SET uploaded_at = COALESCE(uploaded_at, $3)
     WHERE project_id = $1 AND id = $2";
const REPORT: &str = "
    UPDATE media_uploads SET http_status = $3, http_error = $4, time_ms = $5
     WHERE project_id = $1 AND id = $2";
/// Media per statement.
const PER_STATEMENT: usize = 100;
/// Media inside payloads are never announced.
const FIND_STORED: &str = "
    SELECT m.id, m.sha256, m.content_type, CAST(length(m.bytes) AS BIGINT) AS content_length, m.created_at AS uploaded_at
      FROM media m
     WHERE m.tenant = (SELECT number FROM tenants WHERE project_id = $1) AND m.id";
const FIND_ANNOUNCED: &str = "
    SELECT id, sha256, content_type, content_length, uploaded_at
      FROM media_uploads WHERE project_id = $1 AND id";
const BYTES: &str = "
    SELECT bytes FROM media
     WHERE tenant = (SELECT number FROM tenants WHERE project_id = $1) AND id = $2";

impl Telemetry {
    /// Records the announcement of an upload and the object that refers to it. `true` if the bytes are
    /// already stored.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn announce_media(
        &self,
        project: &ProjectId,
        new: &NewMedia,
        now: Timestamp,
    ) -> Result<bool, Error> {
        in_transaction!(&self.pool, |tx| {
            query(NUMBER).bind(project.as_str()).execute(&mut tx).await?;
            query(ANNOUNCE)
                .bind(project.as_str())
                .bind(&new.id)
                .bind(new.sha256.as_slice())
                .bind(&new.content_type)
                .bind(new.content_length)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            query(RENEW)
                .bind(project.as_str())
                .bind(&new.id)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let (link, first, second) = match &new.place {
                MediaOwner::Trace(trace, observation) => {
                    (LINK_TRACE, trace, observation.as_deref().unwrap_or_default())
                }
                MediaOwner::Item(dataset, item) => (LINK_ITEM, dataset, item.as_str()),
            };
            query(link)
                .bind(project.as_str())
                .bind(first)
                .bind(second)
                .bind(&new.field)
                .bind(&new.id)
                .execute(&mut tx)
                .await?;
        });
        let existing = self.medium(project, &new.id).await?;
        Ok(existing
            .is_some_and(|medium| medium.uploaded_at.is_some() && medium.sha256 == new.sha256))
    }

    /// Stores the bytes of an announced medium. The caller has verified their digest.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no medium was announced under this id.
    pub async fn store_media(
        &self,
        project: &ProjectId,
        medium: &Medium,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<(), Error> {
        let n_announced = in_transaction!(&self.pool, |tx| {
            query(STORE_BYTES)
                .bind(project.as_str())
                .bind(&medium.id)
                .bind(medium.sha256.as_slice())
                .bind(&medium.content_type)
                .bind(bytes)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            query(ARRIVED)
                .bind(project.as_str())
                .bind(&medium.id)
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?
        });
        match n_announced {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Records the report of a client about its upload.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such medium.
    pub async fn report_upload(
        &self,
        project: &ProjectId,
        id: &str,
        report: &UploadReport,
    ) -> Result<(), Error> {
        let n_known = in_transaction!(&self.pool, |tx| {
            query(REPORT)
                .bind(project.as_str())
                .bind(id)
                .bind(report.http_status)
                .bind(report.http_error.as_deref())
                .bind(report.time_ms)
                .execute(&mut tx)
                .await?
        });
        match n_known {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// A medium, announced or stored.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn medium(&self, project: &ProjectId, id: &str) -> Result<Option<Medium>, Error> {
        let args: [Arg<'_>; 2] = [project.as_str().into(), id.into()];
        let announced: Vec<MediumRow> =
            self.pool.select(&format!("{FIND_ANNOUNCED} = $2"), &args).await?;
        let announced = announced.into_iter().next().map(Medium::from);
        if announced.as_ref().is_some_and(|medium| medium.uploaded_at.is_some()) {
            return Ok(announced);
        }
        let there: Vec<MediumRow> = self.pool.select(&format!("{FIND_STORED} = $2"), &args).await?;
        Ok(there.into_iter().next().map(Medium::from).or(announced))
    }

    /// The stored media among these, by id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn stored_media(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<HashMap<String, Medium>, Error> {
        let mut found = HashMap::new();
        for some in ids.chunks(PER_STATEMENT) {
            let list = value_list(some.len(), 2);
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|id| Arg::from(*id)));
            // Media inside payloads are never announced; an announcement has more columns.
            for sql in [
                format!("{FIND_STORED} IN ({list})"),
                format!("{FIND_ANNOUNCED} IN ({list}) AND uploaded_at IS NOT NULL"),
            ] {
                let rows: Vec<MediumRow> = self.pool.select(&sql, &args).await?;
                found.extend(rows.into_iter().map(|row| (row.id.clone(), row.into())));
            }
        }
        Ok(found)
    }

    /// The bytes of a medium.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn media_bytes(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<Vec<u8>>, Error> {
        query_scalar(BYTES).bind(project.as_str()).bind(id).fetch_optional(&self.pool).await
    }
}

/// Links the media to which an item of a dataset refers, inside the transaction that writes the item, so that
/// they outlive the trace from which it was made.
///
/// # Errors
/// When the database fails.
pub async fn link_item(tx: &mut Tx, project: &ProjectId, item: &DatasetItem) -> Result<(), Error> {
    for (field, id) in media_of(item) {
        query(RENEW)
            .bind(project.as_str())
            .bind(id)
            .bind(item.valid_from.as_micros())
            .execute(tx)
            .await?;
        query(LINK_ITEM)
            .bind(project.as_str())
            .bind(&item.dataset_id)
            .bind(&item.id)
            .bind(field)
            .bind(id)
            .execute(tx)
            .await?;
    }
    Ok(())
}

/// The media to which an item refers, by field.
fn media_of(item: &DatasetItem) -> Vec<(&'static str, &str)> {
    let fields = [
        ("input", &item.input),
        ("expectedOutput", &item.expected_output),
        ("metadata", &item.metadata),
    ];
    let ids = fields.into_iter().flat_map(|(field, value)| {
        let ids = media_ids(value).into_iter();
        // Longer texts are not ids of media.
        ids.filter(|id| id.len() <= MAX_MEDIA_ID).map(move |id| (field, id))
    });
    ids.take(MAX_MEDIA).collect()
}
