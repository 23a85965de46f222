//! Deletion of the data of deleted projects, and of traces beyond the retention of their project.
//!
//! Invariants:
//! - **In steps.** Each crate deletes in small transactions, so that writers wait for a step and not for a
//!   project.
//! - **Restartable.** A step finds its work in the tables. It can be continued by any process and by several
//!   at once, and nothing that is to be kept is deleted.
//! - **Complete.** The row of a project is deleted last, after a pass that started [`LINGER_MS`] after the
//!   deletion and found nothing: requests that were running when its keys were deleted have ended by then.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::time::Timestamp;

use crate::Store;
use perpend_catalog::DeletedProject;
use perpend_db::Error;

/// Longer than the cache of keys and than a request.
const LINGER_MS: i64 = 120_000;
const DAY_MS: i64 = 86_400_000;

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Traces beyond the retention of their project.
    pub n_expired: u64,
    /// Deleted projects without remaining rows.
    pub n_gone: u64,
    /// Deleted projects that another sweep has to check, two minutes after their deletion.
    pub n_lingering: u64,
    /// Projects in which a statement failed. The cause is logged, and the next sweep tries them again.
    pub n_failed: u64,
}

impl Store {
    /// Deletes everything due at `now`: all data of deleted projects, and the expired data of the others. The
    /// future may be dropped at any point; the next sweep continues.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep(&self, now: Timestamp) -> Result<SweepReport, Error> {
        let mut swept = SweepReport::default();
        for DeletedProject { project, at } in self.catalog.deleted_projects().await? {
            // A failure in one project must not keep the others from being swept.
            let n_found = self.empty(&project).await.unwrap_or_else(|error| {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, %project, "deletion of a project failed");
                swept.n_failed += 1;
                1
            });
            if at.plus_millis(LINGER_MS) <= now && n_found == 0 {
                self.catalog.delete_project_row(&project).await?;
                swept.n_gone += 1;
            } else {
                swept.n_lingering += 1;
            }
        }
        for (project, days) in self.catalog.retaining_projects().await? {
            let before = now.plus_millis(days.saturating_mul(-DAY_MS));
            match self.expire(&project, before).await {
                Ok(n) => swept.n_expired += n,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, %project, "deletion of expired traces failed");
                    swept.n_failed += 1;
                }
            }
        }
        Ok(swept)
    }

    /// Deletes traces, after the logs of evaluators and the comments of backtests about them: both may quote them.
    ///
    /// # Errors
    /// When the database fails. The call can be repeated.
    pub async fn delete_traces(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<(), Error> {
        let sessions = self.telemetry.sessions_of(project, traces).await?;
        let sessions = sessions.into_iter().map(|(_, session)| session).collect();
        self.ledger.delete_logs(project, traces, &sessions).await?;
        self.telemetry.delete_traces(project, traces).await?;
        Ok(())
    }

    /// Deletes the data of a project beyond its retention. Returns the number of traces.
    async fn expire(&self, project: &ProjectId, before: Timestamp) -> Result<u64, Error> {
        let mut n_traces = 0;
        loop {
            let traces = self.telemetry.expired_traces(project, before).await?;
            if traces.is_empty() {
                break;
            }
            Box::pin(self.delete_traces(project, &traces)).await?;
            n_traces += traces.len() as u64;
        }
        self.ledger.expire_backtest_comments(project, before).await?;
        Ok(n_traces + self.telemetry.expire(project, before).await?)
    }

    /// Deletes every row of a project except its own. Returns the number of rows. Its rules are deleted
    /// first, so that no more executions are made of its data.
    async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        Ok(self.catalog.empty(project).await?
            + self.telemetry.empty(project).await?
            + self.ledger.empty(project).await?)
    }
}
