//! Stores when keys were last used.

use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_http_kit::Web;
use perpend_jobs::runner::{Job, JobError, Progress};
use tokio_util::sync::CancellationToken;

/// The job. Times of use are collected in memory, so that a request need not write.
#[derive(Debug)]
pub(crate) struct KeyUses(pub(crate) Web);

impl KeyUses {
    async fn store(&self) -> Result<Progress, JobError> {
        let mut n_items = 0;
        let mut failure = None;
        // A failure for one key must not lose the times of the others.
        for one in self.0.keys.take_uses() {
            match self.0.catalog.record_key_use(&one.key, &one.secret, one.at).await {
                Ok(()) => n_items += 1,
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(Progress { n_items, again_after: None }),
        }
    }
}

impl Job for KeyUses {
    fn name(&self) -> &'static str {
        "key_uses"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn run<'a>(
        &'a self,
        _shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(self.store())
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Err(error) = self.store().await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "times of the last use of keys were lost");
            }
        })
    }
}
