//! The job that records the firings of rules.

use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_scheduler::{SCHEDULE_JOB, Scheduler};
use tokio_util::sync::CancellationToken;

/// The job; a change of a rule wakes it.
#[derive(Debug)]
pub(crate) struct Schedules(pub(crate) Scheduler);

impl Job for Schedules {
    fn name(&self) -> &'static str {
        SCHEDULE_JOB
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn run<'a>(&'a self, _: &'a CancellationToken) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            let n_items = self.0.advance_schedules().await?;
            Ok(Progress { n_items, ..Progress::default() })
        })
    }
}
