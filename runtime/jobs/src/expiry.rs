//! Deletes what expires: cached replies of models, browser sessions and log lines of executions.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::time::Clock;
use perpend_storage::Store;
use tokio_util::sync::CancellationToken;

use crate::runner::{Job, JobError, Progress};

/// The job.
#[derive(Debug)]
pub struct Expiry {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Age in milliseconds at which a cached reply is deleted.
    pub reply_lifetime_ms: i64,
    /// Bytes of cached replies that a project keeps.
    pub max_reply_bytes: u64,
}

impl Expiry {
    async fn delete(&self) -> Result<Progress, JobError> {
        let now = self.clock.now();
        let until = now.plus_millis(-self.reply_lifetime_ms);
        // Each of them even where another one fails.
        let replies = self.store.ledger.sweep_replies(until, self.max_reply_bytes).await;
        let sessions = self.store.catalog.delete_expired_sessions(now).await;
        let logs = self.store.ledger.delete_old_logs(now).await;
        let accounts = self.store.catalog.delete_expired_account_sessions(now).await;
        let links = self.store.catalog.delete_expired_links(now).await;
        sessions?;
        accounts?;
        links?;
        logs?;
        Ok(Progress { n_items: replies?, again_after: None })
    }
}

impl Job for Expiry {
    fn name(&self) -> &'static str {
        "expiry"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            tokio::select! {
                deleted = self.delete() => deleted,
                () = shutdown.cancelled() => Ok(Progress::default()),
            }
        })
    }
}
