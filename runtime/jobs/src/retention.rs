//! Deletes the data of deleted projects and traces past the retention of their project.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::time::Clock;
use perpend_storage::Store;
use tokio_util::sync::CancellationToken;

use crate::runner::{Job, JobError, Progress};

/// Time until the next run while data of deleted projects may still arrive.
const SOON: Duration = Duration::from_secs(60);

/// The job; the deletion of a project wakes it.
#[derive(Debug)]
pub struct Retention {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl Retention {
    /// The name of the job.
    pub const NAME: &str = "retention";
}

impl Job for Retention {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            let swept = tokio::select! {
                swept = self.store.sweep(self.clock.now()) => swept?,
                // The next run continues.
                () = shutdown.cancelled() => return Ok(Progress::default()),
            };
            match swept.n_failed {
                0 => Ok(Progress {
                    n_items: swept.n_expired + swept.n_gone,
                    again_after: (0 < swept.n_lingering).then_some(SOON),
                }),
                n_failed => Err(JobError::Incomplete { n_failed }),
            }
        })
    }
}
