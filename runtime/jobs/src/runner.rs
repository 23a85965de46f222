//! Runs jobs at their intervals and when they are woken, and records how each run ended.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use perpend_domain::time::{Clock, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Longest time until a failed run is retried.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Background work that needs no request.
///
/// A run has no input but the database: it finds what is due there and does it. It may be dropped at any await point;
/// the next run, here or on another node, continues.
pub trait Job: std::fmt::Debug + Send + Sync {
    /// Unique name in snake case.
    fn name(&self) -> &'static str;

    /// Time between the end of a run and the start of the next one, unless the job is woken. A failed run is retried
    /// after a minute at the latest.
    fn interval(&self) -> Duration;

    /// Does what is due. A job that holds leases releases them when `shutdown` is cancelled.
    fn run<'a>(
        &'a self,
        shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>>;

    /// Saves what only this process has, after the last run.
    fn finish(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows, files or other items that the run processed.
    pub n_items: u64,
    /// Replaces the interval once, because work is known to become due earlier.
    pub again_after: Option<Duration>,
}

/// A failed run. The cause is logged; callers of the API see the class only.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A statement failed.
    #[error("the database failed")]
    Database(#[from] perpend_db::Error),
    /// The run continued after failures, whose causes it logged.
    #[error("the run failed for {n_failed} projects")]
    Incomplete {
        /// Projects without a result.
        n_failed: u64,
    },
    /// The run panicked.
    #[error("the job panicked")]
    Panicked,
}

/// How a job has run since the start of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobStatus {
    /// The name of the job.
    pub name: &'static str,
    /// The usual time between two runs.
    pub interval: Duration,
    /// A run is under way.
    pub is_running: bool,
    /// Completed runs, failed ones included.
    pub n_runs: u64,
    /// Failed runs.
    pub n_failed: u64,
    /// Start of the latest run.
    pub started_at: Option<Timestamp>,
    /// End of the latest successful run.
    pub succeeded_at: Option<Timestamp>,
    /// Items that the latest successful run processed.
    pub n_items: u64,
    /// The end and the text of the latest run, if it failed.
    pub error: Option<(Timestamp, String)>,
}

#[derive(Debug)]
struct Entry {
    job: Box<dyn Job>,
    wake: Arc<Notify>,
    status: Mutex<JobStatus>,
}

/// The jobs of a server; cheap to clone.
#[derive(Clone, Debug)]
pub struct Jobs {
    clock: Arc<dyn Clock>,
    entries: Arc<[Entry]>,
}

impl Jobs {
    /// Takes the jobs, none of which runs yet.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, jobs: Vec<Box<dyn Job>>) -> Self {
        let entries = jobs.into_iter().map(|job| {
            let status =
                JobStatus { name: job.name(), interval: job.interval(), ..JobStatus::default() };
            Entry { job, wake: Arc::default(), status: Mutex::new(status) }
        });
        Self { clock, entries: entries.collect() }
    }

    /// Starts the next run of a job; nothing happens if no job has the name.
    pub fn wake(&self, name: &str) {
        for entry in self.entries.iter().filter(|entry| entry.job.name() == name) {
            entry.wake.notify_one();
        }
    }

    /// The status of each job, in the order in which they were passed.
    #[must_use]
    pub fn statuses(&self) -> Vec<JobStatus> {
        self.entries.iter().map(|entry| entry.status().clone()).collect()
    }

    /// Runs all jobs until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        join_all(self.entries.iter().map(|entry| self.repeat(entry, &shutdown))).await;
    }

    /// Runs each job once.
    pub async fn run_once(&self) {
        for entry in self.entries.iter() {
            self.run_entry(entry, &CancellationToken::new()).await;
        }
    }

    async fn repeat(&self, entry: &Entry, shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            let pause = self.run_entry(entry, shutdown).await;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = entry.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        entry.job.finish().await;
    }

    /// Runs a job; the time until its next run.
    async fn run_entry(&self, entry: &Entry, shutdown: &CancellationToken) -> Duration {
        let started_at = self.clock.now();
        {
            let mut status = entry.status();
            status.is_running = true;
            status.started_at = Some(started_at);
        }
        // A panic of one job must not end the others.
        let span = tracing::info_span!(
            "job",
            otel.name = format!("job {}", entry.job.name()),
            otel.status_code = Empty,
            perpend.job.items = Empty,
        );
        let run = AssertUnwindSafe(entry.job.run(shutdown)).catch_unwind();
        let result = run.instrument(span.clone()).await.unwrap_or(Err(JobError::Panicked));
        match &result {
            Ok(progress) => span.record("perpend.job.items", progress.n_items as i64),
            Err(_) => span.record("otel.status_code", "ERROR"),
        };
        drop(span);
        let now = self.clock.now();
        measure(entry.job.name(), result.is_ok(), now);
        let mut status = entry.status();
        status.is_running = false;
        status.n_runs += 1;
        match result {
            Ok(progress) => {
                status.succeeded_at = Some(now);
                status.n_items = progress.n_items;
                status.error = None;
                if 0 < progress.n_items {
                    tracing::debug!(job = status.name, n_items = progress.n_items, "job done");
                }
                progress.again_after.unwrap_or(status.interval)
            }
            Err(error) => {
                status.n_failed += 1;
                status.error = Some((now, error.to_string()));
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, job = status.name, "job failed and will be retried");
                status.interval.min(RETRY_AFTER)
            }
        }
    }
}

/// Counts a run for the metrics of this process.
fn measure(job: &'static str, is_success: bool, now: Timestamp) {
    let outcome = if is_success { "success" } else { "failure" };
    metrics::counter!("perpend_job_runs_total", "job" => job, "outcome" => outcome).increment(1);
    if is_success {
        let seconds = now.as_millis() as f64 / 1_000.0;
        metrics::gauge!("perpend_job_last_success_seconds", "job" => job).set(seconds);
    }
}

impl Entry {
    fn status(&self) -> std::sync::MutexGuard<'_, JobStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Fails in its first run, panics in the second and succeeds in later ones.
    #[derive(Clone, Debug, Default)]
    struct Flaky {
        n_runs: Arc<AtomicU64>,
        n_finished: Arc<AtomicU64>,
        done: Arc<Notify>,
    }

    impl Job for Flaky {
        fn name(&self) -> &'static str {
            "flaky"
        }

        fn interval(&self) -> Duration {
            Duration::from_secs(3_600)
        }

        fn run<'a>(
            &'a self,
            _shutdown: &'a CancellationToken,
        ) -> BoxFuture<'a, Result<Progress, JobError>> {
            Box::pin(async {
                match self.n_runs.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(JobError::Panicked),
                    1 => panic!("as planned"),
                    _ => {
                        self.done.notify_one();
                        Ok(Progress { n_items: 3, again_after: None })
                    }
                }
            })
        }

        fn finish(&self) -> BoxFuture<'_, ()> {
            self.n_finished.fetch_add(1, Ordering::Relaxed);
            std::future::ready(()).boxed()
        }
    }

    fn jobs(job: &Flaky) -> Jobs {
        Jobs::new(Arc::new(Timestamp::from_millis(1_000)), vec![Box::new(job.clone())])
    }

    #[tokio::test]
    async fn a_failure_and_a_panic_are_recorded_and_the_next_success_clears_them() {
        let jobs = jobs(&Flaky::default());
        for n_failed in [1, 2] {
            jobs.run_once().await;
            let status = jobs.statuses().remove(0);
            assert_eq!((status.n_runs, status.n_failed), (n_failed, n_failed));
            assert!(status.error.is_some() && status.succeeded_at.is_none(), "{status:?}");
        }
        jobs.run_once().await;
        let status = jobs.statuses().remove(0);
        assert_eq!((status.n_runs, status.n_failed, status.n_items), (3, 2, 3));
        assert!(status.error.is_none() && !status.is_running, "{status:?}");
        assert_eq!(status.succeeded_at, Some(Timestamp::from_millis(1_000)));
    }

    #[tokio::test]
    async fn a_woken_job_runs_before_its_interval_ends_and_finishes_at_shutdown() {
        let job = Flaky { n_runs: Arc::new(AtomicU64::new(2)), ..Flaky::default() };
        let jobs = jobs(&job);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn({
            let (jobs, shutdown) = (jobs.clone(), shutdown.clone());
            async move { jobs.run(shutdown).await }
        });
        job.done.notified().await;
        jobs.wake("another");
        jobs.wake("flaky");
        job.done.notified().await;
        shutdown.cancel();
        running.await.unwrap();
        assert_eq!(job.n_finished.load(Ordering::Relaxed), 1);
    }
}
