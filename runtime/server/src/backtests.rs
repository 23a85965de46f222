//! The job that advances backtests.

use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_scheduler::{BACKTEST_JOB, Scheduler};
use tokio_util::sync::CancellationToken;

/// The job; a new or resumed backtest wakes it.
#[derive(Debug)]
pub(crate) struct Backtests(pub(crate) Scheduler);

impl Job for Backtests {
    fn name(&self) -> &'static str {
        BACKTEST_JOB
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
                let advance = tokio::select! {
                    biased;
                    // The open steps start again at their positions.
                    () = shutdown.cancelled() => break,
                    advance = self.0.advance_backtests() => advance?,
                };
                progress.n_items += advance.n_items;
                if !advance.may_continue {
                    break;
                }
            }
            Ok(progress)
        })
    }
}
