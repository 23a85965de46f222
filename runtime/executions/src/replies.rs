//! Usable replies of providers, stored for equal requests of the same project (evaluation.md 3.7).

use perpend_db::Arg;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;

use crate::{Error, Ledger};

/// Rows per transaction of the sweep.
const CHUNK: i64 = 500;

const READ: &str = "
    SELECT method, body FROM stored_replies WHERE project_id = $1 AND key = $2 AND $3 < stored_at";
const PUT: &str = "
    INSERT INTO stored_replies (project_id, key, connection_id, method, body, size, stored_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (project_id, key) DO UPDATE SET
        connection_id = excluded.connection_id, method = excluded.method, body = excluded.body,
        size = excluded.size, stored_at = excluded.stored_at";
const OF_CONNECTION: &str = "
    DELETE FROM stored_replies WHERE project_id = $1 AND key IN
        (SELECT key FROM stored_replies WHERE project_id = $1 AND connection_id = $2 LIMIT $3)";
/// Of all projects: only the age counts.
const EXPIRED: &str = "
    DELETE FROM stored_replies WHERE (project_id, key) IN
        (SELECT project_id, key FROM stored_replies WHERE stored_at <= $1 LIMIT $2)";
/// Projects that exceed their limit.
const FULL: &str = "
    SELECT project_id, CAST(SUM(size) AS BIGINT) FROM stored_replies
     GROUP BY project_id HAVING CAST($1 AS BIGINT) < SUM(size)";
/// Replies that exceed the limit when the newest are counted first.
const OVERFLOWING: &str = "
    DELETE FROM stored_replies WHERE project_id = $1 AND key IN
        (SELECT key
           FROM (SELECT key, stored_at, SUM(size) OVER (ORDER BY stored_at DESC, key) AS held
                   FROM stored_replies WHERE project_id = $1) newest
          WHERE CAST($2 AS BIGINT) < held ORDER BY stored_at LIMIT $3)";

/// Approximate size of a row without its body: keys, ids and columns.
const ROW_BYTES: usize = 200;

/// A stored reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReply {
    /// The method that requested structured output, such as `json_schema`.
    pub method: String,
    /// The body of the response, compressed by the caller.
    pub body: Vec<u8>,
}

impl Ledger {
    /// The reply to an equal request that was stored after `since`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn stored_reply(
        &self,
        project: &ProjectId,
        key: &Digest,
        since: Timestamp,
    ) -> Result<Option<StoredReply>, Error> {
        let args: [Arg<'_>; 3] =
            [project.as_str().into(), key.as_bytes().as_slice().into(), since.as_micros().into()];
        let mut rows: Vec<(String, Vec<u8>)> = self.pool.select(READ, &args).await?;
        Ok(rows.pop().map(|(method, body)| StoredReply { method, body }))
    }

    /// Stores a reply; it replaces that of an equal request.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn store_reply(
        &self,
        project: &ProjectId,
        (key, connection): (&Digest, &str),
        reply: &StoredReply,
        now: Timestamp,
    ) -> Result<(), Error> {
        let size = i64::try_from(reply.body.len() + ROW_BYTES).unwrap_or(i64::MAX);
        let args: [Arg<'_>; 7] = [
            project.as_str().into(),
            key.as_bytes().as_slice().into(),
            connection.into(),
            reply.method.as_str().into(),
            reply.body.as_slice().into(),
            size.into(),
            now.as_micros().into(),
        ];
        self.pool.change(PUT, &args).await.map(|_| ())
    }

    /// Deletes the replies of a connection.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_replies(&self, project: &ProjectId, connection: &str) -> Result<(), Error> {
        let args: [Arg<'_>; 3] = [project.as_str().into(), connection.into(), CHUNK.into()];
        self.pool.repeat(OF_CONNECTION, &args).await.map(|_| ())
    }

    /// Deletes replies of all projects that were stored at `until` or before, and the oldest replies of each
    /// project beyond `max_bytes`. Returns the number of deleted replies.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep_replies(&self, until: Timestamp, max_bytes: u64) -> Result<u64, Error> {
        let expired = [until.as_micros().into(), CHUNK.into()];
        let mut n_gone = self.pool.repeat(EXPIRED, &expired).await?;
        let most = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let full: Vec<(String, i64)> = self.pool.select(FULL, &[most.into()]).await?;
        for (project, _) in full {
            let args: [Arg<'_>; 3] = [project.as_str().into(), most.into(), CHUNK.into()];
            n_gone += self.pool.repeat(OVERFLOWING, &args).await?;
        }
        Ok(n_gone)
    }
}
