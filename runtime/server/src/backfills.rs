//! The job that advances backfills.

use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_scheduler::{BACKFILL_JOB, Scheduler};
use tokio_util::sync::CancellationToken;

/// Interval of steps while executions of a backfill are open.
const WHILE_OPEN: Duration = Duration::from_millis(100);

/// The job; a new or resumed backfill wakes it.
#[derive(Debug)]
pub(crate) struct Backfills(pub(crate) Scheduler);

impl Job for Backfills {
    fn name(&self) -> &'static str {
        BACKFILL_JOB
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            let mut progress = Progress::default();
            while !shutdown.is_cancelled() {
                let advance = self.0.advance_backfills().await?;
                progress.n_items += advance.n_items;
                progress.again_after = advance.is_waiting.then_some(WHILE_OPEN);
                if !advance.may_continue {
                    break;
                }
            }
            Ok(progress)
        })
    }
}
