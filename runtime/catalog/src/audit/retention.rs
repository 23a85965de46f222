//! Deletion of old records.

use perpend_db::{in_transaction, query, query_scalar};
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};

const CHAINS: &str = "SELECT organization FROM audit_chains ORDER BY organization";
/// Keeps writers of the chain out until the transaction ends.
const LOCK: &str = "UPDATE audit_chains SET cut_seq = cut_seq WHERE organization = $1";
const FIRST_KEPT: &str =
    "SELECT MIN(seq) FROM audit_records WHERE organization = $1 AND $2 <= recorded_at";
const LAST_EXPIRED: &str = "
    SELECT seq, hash FROM audit_records
     WHERE organization = $1 AND seq <= $2 ORDER BY seq DESC LIMIT 1";
const CUT: &str = "UPDATE audit_chains SET cut_seq = $1, cut_hash = $2 WHERE organization = $3";
const DELETE: &str = "DELETE FROM audit_records WHERE organization = $1 AND seq <= $2";

impl Catalog {
    /// Deletes the records before a time. The chain starts with the hash of the last deleted one. Returns the number of deleted
    /// records. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire_audit(&self, before: Timestamp) -> Result<u64, Error> {
        let chains: Vec<(String,)> = self.pool.select(CHAINS, &[]).await?;
        let mut n_deleted = 0;
        for (organization,) in chains {
            n_deleted += self.expire_chain(&organization, before).await?;
        }
        Ok(n_deleted)
    }

    async fn expire_chain(&self, organization: &str, before: Timestamp) -> Result<u64, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            query(LOCK).bind(organization).execute(&mut tx).await?;
            let first_kept: Option<i64> = query_scalar(FIRST_KEPT)
                .bind(organization)
                .bind(before.as_micros())
                .fetch_one(&mut tx)
                .await?;
            let last: Option<(i64, Vec<u8>)> = query(LAST_EXPIRED)
                .bind(organization)
                .bind(first_kept.map_or(i64::MAX, |first| first - 1))
                .fetch_optional(&mut tx)
                .await?;
            let Some((seq, hash)) = last else { return Ok(0) };
            query(CUT).bind(seq).bind(hash).bind(organization).execute(&mut tx).await?;
            query(DELETE).bind(organization).bind(seq).execute(&mut tx).await?
        }))
    }
}
