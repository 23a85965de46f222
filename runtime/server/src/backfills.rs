//! The job that advances backfills.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_scheduler::{BACKFILL_JOB, Scheduler};
use tokio_util::sync::CancellationToken;

/// Interval of steps while executions of a backfill are open. It doubles with each step in which none has ended.
const WHILE_OPEN: Duration = Duration::from_millis(100);
/// Doublings at most: executions may be held for days.
const MAX_DOUBLINGS: u32 = 5;

/// The job; a new or resumed backfill wakes it.
#[derive(Debug)]
pub(crate) struct Backfills {
    scheduler: Scheduler,
    /// Steps without progress since the last one with progress.
    n_idle: AtomicU32,
}

impl Backfills {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        Self { scheduler, n_idle: AtomicU32::new(0) }
    }

    /// The time until the next step while executions are open.
    fn pause(&self, has_progress: bool) -> Duration {
        if has_progress {
            self.n_idle.store(0, Ordering::Relaxed);
            return WHILE_OPEN;
        }
        let n_idle = self.n_idle.fetch_add(1, Ordering::Relaxed);
        WHILE_OPEN * 2_u32.pow(n_idle.min(MAX_DOUBLINGS))
    }
}

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
            let mut is_waiting = false;
            while !shutdown.is_cancelled() {
                let advance = self.scheduler.advance_backfills().await?;
                progress.n_items += advance.n_items;
                is_waiting = advance.is_waiting;
                if !advance.may_continue {
                    break;
                }
            }
            progress.again_after = is_waiting.then(|| self.pause(0 < progress.n_items));
            Ok(progress)
        })
    }
}
