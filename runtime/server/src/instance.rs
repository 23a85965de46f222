//! The job that observes this server for the alarms and the page of the instance.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_broker::Engine;
use perpend_http_kit::Web;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_pages::{DiskFigures, InstanceCheck, InstanceState, WorkerFigures};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;
use tokio_util::sync::CancellationToken;

/// Time between two observations.
const INTERVAL: Duration = Duration::from_secs(10);

/// The job. An observation replaces the previous one.
#[derive(Debug)]
pub(crate) struct InstanceObserver {
    web: Web,
    store: Store,
    engine: Arc<Engine>,
    scheduler: Scheduler,
    state: InstanceState,
}

impl InstanceObserver {
    pub(crate) fn new(
        (web, store): (&Web, &Store),
        engine: &Arc<Engine>,
        scheduler: &Scheduler,
        state: &InstanceState,
    ) -> Self {
        Self {
            web: web.clone(),
            store: store.clone(),
            engine: Arc::clone(engine),
            scheduler: scheduler.clone(),
            state: state.clone(),
        }
    }

    async fn observe(&self) {
        let now = self.web.clock.now();
        // A slow write is no refusal. If it does not end, pages report that the observation is missing.
        let accepts_writes = match self.store.prove_writes(now).await {
            Ok(()) => true,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "the database refuses writes");
                false
            }
        };
        let workers = self.engine.workers().map(|workers| WorkerFigures {
            n_workers: workers.n_workers,
            cannot_start: workers.cannot_start(),
            has_stopped: workers.has_stopped,
            pids: workers.pids,
        });
        self.state.set(InstanceCheck {
            at: now,
            accepts_writes,
            workers,
            since_step: self.scheduler.since_step(),
            disk: disk(&self.web.config.data_dir),
        });
    }
}

/// The disk of a directory.
fn disk(directory: &Path) -> Option<DiskFigures> {
    let found = rustix::fs::statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(DiskFigures { free: bytes(found.f_bavail), all: bytes(found.f_blocks) })
}

impl Job for InstanceObserver {
    fn name(&self) -> &'static str {
        "instance"
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.observe() => {}
            }
            Ok(Progress::default())
        })
    }
}
