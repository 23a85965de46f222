//! The job that executes runs of experiments.

use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_broker::server_runs::RunEngine;
use perpend_jobs::runner::{Job, JobError, Progress};
use tokio_util::sync::CancellationToken;

/// The job; the start of a run wakes it.
#[derive(Debug)]
pub(crate) struct ServerRuns(pub(crate) RunEngine);

impl Job for ServerRuns {
    fn name(&self) -> &'static str {
        perpend_broker::server_runs::JOB
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            let n_items = self.0.run(shutdown).await?;
            Ok(Progress { n_items, again_after: None })
        })
    }
}
