//! The revision of the results of a run, by which a cache detects that it is outdated.

use perpend_domain::ids::ProjectId;

use super::spans::{about, push_not_deleted};
use crate::{Error, Telemetry};

/// A state of the results of a run. Equal revisions have equal results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRevision(Vec<(i64, i64, i64)>);

impl Telemetry {
    /// The revision of a run: numbers of its spans, links and scores with the revisions of their traces, and the last
    /// changes of its links and of any score, score config and dataset of the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_revision(
        &self,
        project: &ProjectId,
        run_id: &str,
    ) -> Result<RunRevision, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        self.folder.of_tenant(tenant).await?;
        let mut sql = about(project, tenant);
        sql.bind_text(run_id);
        sql.push(
            "SELECT COUNT(*) AS n, CAST(COALESCE(SUM(t.revision), 0) AS BIGINT) AS revisions,
                    CAST(0 AS BIGINT) AS changed_at
               FROM observations o JOIN traces t ON t.number = o.trace
              WHERE o.tenant = $2 AND o.experiment_id = $3",
        );
        push_not_deleted(&mut sql);
        sql.push(
            " UNION ALL
             SELECT COUNT(*), CAST(COALESCE(SUM(t.revision), 0) AS BIGINT), COALESCE(MAX(l.updated_at), 0)
               FROM dataset_run_items l
               LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = l.trace_id
              WHERE l.project_id = $1 AND l.run_id = $3
             UNION ALL
             SELECT COUNT(*), CAST(0 AS BIGINT),
                    COALESCE((SELECT MAX(c.updated_at) FROM scores c WHERE c.project_id = $1), 0)
               FROM (SELECT l.trace_id FROM dataset_run_items l
                      WHERE l.project_id = $1 AND l.run_id = $3
                      UNION
                     SELECT t.trace_id FROM observations o JOIN traces t ON t.number = o.trace
                      WHERE o.tenant = $2 AND o.experiment_id = $3) r
              CROSS JOIN scores s WHERE s.project_id = $1 AND s.trace_id = r.trace_id
             UNION ALL
             SELECT COUNT(*), CAST(0 AS BIGINT), COALESCE(MAX(updated_at), 0)
               FROM dataset_runs WHERE project_id = $1 AND id = $3
             UNION ALL
             SELECT COUNT(*), CAST(0 AS BIGINT), COALESCE(MAX(updated_at), 0)
               FROM score_configs WHERE project_id = $1
             UNION ALL
             SELECT COUNT(*), CAST(COALESCE(SUM(items_revision), 0) AS BIGINT), COALESCE(MAX(updated_at), 0)
               FROM datasets WHERE project_id = $1",
        );
        let mut rows: Vec<(i64, i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        // A union has no order.
        rows.sort_unstable();
        Ok(RunRevision(rows))
    }
}
