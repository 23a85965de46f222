//! Deletes what expires: cached replies of models, browser sessions, log lines of executions and records of the audit trail.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_catalog::audit::AuditCheckpoint;
use perpend_domain::time::{Clock, Timestamp};
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
    /// Age in days at which a record of the audit trail is deleted.
    pub audit_keep_days: u32,
    /// Positions of the chains of the audit trail that are in the log, by organization.
    pub checkpoints: Checkpoints,
}

/// Writes the heads of the chains of the audit trail to the log, so that a chain that is cut later differs from the log.
#[derive(Debug, Default)]
pub struct Checkpoints(Mutex<HashMap<String, i64>>);

impl Checkpoints {
    async fn log(&self, store: &Store) -> Result<(), JobError> {
        let heads = store.catalog.audit_heads().await?;
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for AuditCheckpoint { organization, seq, hash } in heads {
            if logged.get(&organization) != Some(&seq) {
                tracing::info!(organization, seq, %hash, "checkpoint of the audit trail");
                logged.insert(organization, seq);
            }
        }
        Ok(())
    }
}

/// The start of the first day (UTC) whose records are kept.
fn audit_start(now: Timestamp, keep_days: u32) -> Timestamp {
    const DAY_MICROS: i64 = 86_400_000_000;
    let day = now.as_micros().div_euclid(DAY_MICROS) - i64::from(keep_days);
    Timestamp::from_micros(day.saturating_mul(DAY_MICROS))
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
        let audit = audit_start(now, self.audit_keep_days);
        let audit = self.store.catalog.expire_audit(audit).await;
        let checkpoints = self.checkpoints.log(&self.store).await;
        sessions?;
        accounts?;
        links?;
        audit?;
        checkpoints?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_of_the_audit_trail_are_deleted() {
        let now = Timestamp::parse("2026-03-31T15:04:05Z").unwrap();
        assert_eq!(audit_start(now, 30), Timestamp::parse("2026-03-01T00:00:00Z").unwrap());
    }
}
