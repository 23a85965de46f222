//! What time takes away: the data of deleted projects, and traces past the retention of their project.
//!
//! Invariants:
//! - **In steps.** Each room deletes in small transactions, so that writers wait for a step and not for a project.
//! - **Killed anywhere, done once.** A step finds its work in the tables; whoever goes on, and however many do it at
//!   once, nothing is taken that was to stay.
//! - **Nothing is left behind.** A project's own row goes last, when a pass that began [`LINGER_MS`] after
//!   the deletion found nothing: what was under way as its keys were taken is over by then.

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::Store;
use perpend_catalog::Deleted;
use perpend_db::Error;

/// Longer than a key is remembered and than a request takes.
const LINGER_MS: i64 = 120_000;
const DAY_MS: i64 = 86_400_000;

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Traces past the retention of their project.
    pub n_expired: u64,
    /// Deleted projects of which nothing is left.
    pub n_gone: u64,
    /// Deleted projects that another sweep has to look at, two minutes after their deletion.
    pub n_lingering: u64,
}

impl Store {
    /// Deletes what is due at `now`: all there is of deleted projects, and of the others what is older than they keep. It
    /// may be dropped at any point; the next one goes on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep(&self, now: Timestamp) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        for Deleted { project, at } in self.catalog.deleted_projects().await? {
            // What one project has must not keep the others from being swept.
            let n_found = self.empty(&project).await.unwrap_or_else(|error| {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, %project, "a deleted project could not be emptied");
                1
            });
            if at.plus_millis(LINGER_MS) <= now && n_found == 0 {
                self.catalog.forget_project(&project).await?;
                swept.n_gone += 1;
            } else {
                swept.n_lingering += 1;
            }
        }
        for (project, days) in self.catalog.retaining_projects().await? {
            let before = now.plus_millis(days.saturating_mul(-DAY_MS));
            match self.telemetry.expire(&project, before).await {
                Ok(n) => swept.n_expired += n,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, %project, "what is past its retention stays for now");
                }
            }
        }
        Ok(swept)
    }

    /// Deletes every row of a project but its own; how many were found. Its rules go first, so that nothing more is
    /// made of what it was sent.
    async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        Ok(self.catalog.empty(project).await?
            + self.telemetry.empty(project).await?
            + self.ledger.empty(project).await?)
    }
}
