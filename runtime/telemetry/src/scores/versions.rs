//! Number of scores of versions of evaluators.

use perpend_db::Sql;
use perpend_domain::evaluation::Fingerprint;
use perpend_domain::ids::{EvaluatorVersionId, ProjectId};
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

/// Versions per statement.
const PER_STATEMENT: usize = 100;

impl Telemetry {
    /// Number of current scores of each of these versions since a time, counted up to `limit`, in the order of
    /// the versions.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version_score_counts(
        &self,
        project: &ProjectId,
        versions: &[(Fingerprint, EvaluatorVersionId)],
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<u64>, Error> {
        let mut counts = vec![0; versions.len()];
        for (chunk, some) in versions.chunks(PER_STATEMENT).enumerate() {
            let first = chunk * PER_STATEMENT;
            let mut sql = Sql::default();
            let project = sql.bind_text(project.as_str());
            let since = sql.bind(since.map_or(i64::MIN, Timestamp::as_micros).into());
            for (at, (fingerprint, version)) in some.iter().enumerate() {
                if at > 0 {
                    sql.push(" UNION ALL ");
                }
                let place = first + at;
                let fingerprint = sql.bind(fingerprint.as_bytes().to_vec().into());
                let version = sql.bind_text(version.as_str());
                // Versions with the same definition have the same fingerprint, which alone has an index.
                sql.push(&format!(
                    "SELECT CAST({place} AS BIGINT), COUNT(*) \
                       FROM (SELECT 1 AS one FROM scores s \
                              WHERE s.project_id = {project} AND s.fingerprint = {fingerprint} \
                                AND s.timestamp >= {since} AND s.evaluator_version_id = {version} \
                              LIMIT {limit}) p{at}"
                ));
            }
            let rows: Vec<(i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
            for (place, n) in rows {
                let count = usize::try_from(place).ok().and_then(|place| counts.get_mut(place));
                if let Some(count) = count {
                    *count = n.unsigned_abs();
                }
            }
        }
        Ok(counts)
    }
}
