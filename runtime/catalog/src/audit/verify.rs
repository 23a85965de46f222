//! Verification of the chains.

use std::collections::BTreeMap;

use perpend_db::{digest, query, query_scalar};
use perpend_domain::plugin::Digest;

use super::chain::RecordRow;
use crate::{Catalog, Error};

/// Records per statement.
const PER_STATEMENT: i64 = 500;

const CHAINS: &str =
    "SELECT organization, seq, hash, cut_seq, cut_hash FROM audit_chains ORDER BY organization";
/// Up to `$3`: records that are appended during the verification do not belong to the chain as it was read.
const RECORDS: &str = "
    SELECT * FROM audit_records
     WHERE organization = $1 AND $2 < seq AND seq <= $3 ORDER BY seq LIMIT $4";
/// The first record before or after those of the chain.
const OUTSIDE: &str = "
    SELECT MIN(r.seq) FROM audit_records r JOIN audit_chains c ON c.organization = r.organization
     WHERE r.organization = $1 AND (r.seq <= c.cut_seq OR c.seq < r.seq)";
/// Organizations with records and without a chain.
const ORPHANS: &str = "
    SELECT organization, MIN(seq) FROM audit_records
     WHERE organization NOT IN (SELECT organization FROM audit_chains)
     GROUP BY organization ORDER BY organization";

/// A record that was read before, such as a line of an export. A chain without it was cut or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditCheckpoint {
    /// The organization.
    pub organization: String,
    /// Position of the record.
    pub seq: i64,
    /// Its hash.
    pub hash: Digest,
}

/// The first fault of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    /// A member or the hash of this record was changed, or the record before it.
    #[error("record {0} was changed")]
    Changed(i64),
    /// The record with this number does not exist.
    #[error("record {0} is missing")]
    Missing(i64),
    /// A record after the last one of the chain, or before its first one.
    #[error("record {0} was added and does not belong to the chain")]
    Added(i64),
    /// The record differs from a checkpoint.
    #[error("record {0} differs from the checkpoint")]
    Replaced(i64),
}

/// The result of the verification of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// The organization.
    pub organization: String,
    /// Number of records.
    pub n_records: u64,
    /// Number of the first record, or of the next one in an empty chain: older records were deleted after their
    /// retention.
    pub first: i64,
    /// The last record, to be kept as a checkpoint; absent without records.
    pub head: Option<AuditCheckpoint>,
    /// The first fault.
    pub fault: Option<AuditFault>,
}

perpend_db::record! {
    struct ChainRow {
        organization: String,
        seq: i64,
        hash: Vec<u8>,
        cut_seq: i64,
        cut_hash: Vec<u8>,
    }
}

impl Catalog {
    /// The heads of all chains with records. Crosses tenants: for the log of the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn audit_heads(&self) -> Result<Vec<AuditCheckpoint>, Error> {
        let chains: Vec<ChainRow> = self.pool.select(CHAINS, &[]).await?;
        let chains = chains.into_iter().filter(|chain| 0 < chain.seq);
        let head = |chain: ChainRow| {
            let hash = digest("audit chain", &chain.hash)?;
            Ok(AuditCheckpoint { organization: chain.organization, seq: chain.seq, hash })
        };
        chains.map(head).collect()
    }

    /// Verifies every chain against its hashes and against checkpoints of the same installation. Crosses tenants: for the
    /// operator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn verify_audit(
        &self,
        checkpoints: &[AuditCheckpoint],
    ) -> Result<Vec<ChainReport>, Error> {
        let chains: Vec<ChainRow> = self.pool.select(CHAINS, &[]).await?;
        let mut of_organizations: BTreeMap<&str, BTreeMap<i64, Digest>> = BTreeMap::new();
        for one in checkpoints {
            let of = of_organizations.entry(one.organization.as_str()).or_default();
            of.insert(one.seq, one.hash);
        }
        let mut reports = Vec::with_capacity(chains.len());
        for chain in chains {
            let known = of_organizations.remove(chain.organization.as_str()).unwrap_or_default();
            reports.push(self.verify_chain(chain, known).await?);
        }
        let orphans: Vec<(String, i64)> = self.pool.select(ORPHANS, &[]).await?;
        let orphans =
            orphans.into_iter().map(|(organization, seq)| (organization, AuditFault::Added(seq)));
        let lost = of_organizations.into_iter().filter_map(|(organization, known)| {
            let (seq, _) = known.into_iter().next()?;
            Some((organization.to_owned(), AuditFault::Missing(seq)))
        });
        reports.extend(orphans.chain(lost).map(|(organization, fault)| ChainReport {
            organization,
            n_records: 0,
            first: 1,
            head: None,
            fault: Some(fault),
        }));
        Ok(reports)
    }

    async fn verify_chain(
        &self,
        chain: ChainRow,
        known: BTreeMap<i64, Digest>,
    ) -> Result<ChainReport, Error> {
        let mut report = ChainReport {
            organization: chain.organization.clone(),
            n_records: 0,
            first: chain.cut_seq + 1,
            head: None,
            fault: None,
        };
        let outside: Option<i64> =
            query_scalar(OUTSIDE).bind(&chain.organization).fetch_one(&self.pool).await?;
        if let Some(seq) = outside {
            report.fault = Some(AuditFault::Added(seq));
            return Ok(report);
        }
        let mut last = (chain.cut_seq, digest("audit chain", &chain.cut_hash)?);
        loop {
            let rows: Vec<RecordRow> = query(RECORDS)
                .bind(&chain.organization)
                .bind(last.0)
                .bind(chain.seq)
                .bind(PER_STATEMENT)
                .fetch_all(&self.pool)
                .await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                report.fault = fault_of(&row, last, &known);
                if report.fault.is_some() {
                    return Ok(report);
                }
                last = (row.seq, digest("audit record", &row.hash)?);
                report.n_records += 1;
            }
        }
        if last.0 < chain.seq {
            report.fault = Some(AuditFault::Missing(last.0 + 1));
        } else if last.1.as_bytes().as_slice() != chain.hash.as_slice() {
            report.fault = Some(AuditFault::Changed(last.0));
        } else if let Some((seq, _)) = known.range(last.0 + 1..).next() {
            report.fault = Some(AuditFault::Missing(*seq));
        }
        report.head = (0 < report.n_records).then_some(AuditCheckpoint {
            organization: chain.organization,
            seq: last.0,
            hash: last.1,
        });
        Ok(report)
    }
}

/// The fault of a record that follows the record `last`.
fn fault_of(
    row: &RecordRow,
    (last_seq, last_hash): (i64, Digest),
    known: &BTreeMap<i64, Digest>,
) -> Option<AuditFault> {
    let expected = row.expected_hash(last_hash.as_bytes());
    if row.seq != last_seq + 1 {
        return Some(AuditFault::Missing(last_seq + 1));
    }
    if row.hash.as_slice() != expected.as_bytes().as_slice() {
        return Some(AuditFault::Changed(row.seq));
    }
    known.get(&row.seq).filter(|hash| **hash != expected).map(|_| AuditFault::Replaced(row.seq))
}
