//! Metrics of this process for Prometheus: the recorder behind the macros of `metrics`, the catalogue, and the gauges that
//! are read at an interval.
//!
//! Invariants:
//! - **Off by default.** Without the setting `metrics.token` no recorder is installed, and the macros do nothing.
//! - **No tenant in a label.** Values of labels are routes, statuses, states and other names in this code.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use perpend_domain::evaluation::ExecutionState;
use perpend_domain::time::Clock;
use perpend_http_kit::Web;
use perpend_jobs::runner::{Job, JobError, Progress};
use perpend_storage::Store;
use tokio_util::sync::CancellationToken;

/// Upper bounds of the buckets of every histogram, in seconds.
const BUCKETS: [f64; 15] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Executions that are counted at most, which bounds the time of a count.
const MAX_COUNTED: u32 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    #[cfg(test)]
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Name, type, labels and meaning of each metric; `docs/operations.md` has the same table.
const CATALOGUE: &[(&str, Kind, &[&str], &str)] = &[
    (
        "perpend_http_requests_total",
        Kind::Counter,
        &["route", "method", "status"],
        "HTTP requests. `route` is the template of the path, or `unmatched`.",
    ),
    (
        "perpend_http_request_seconds",
        Kind::Histogram,
        &["route"],
        "Time from the head of a request to the head of its response.",
    ),
    (
        "perpend_ingest_requests_total",
        Kind::Counter,
        &["signal"],
        "Authorized OTLP requests; `signal` is `traces`, `logs` or `metrics`.",
    ),
    (
        "perpend_ingest_bytes_total",
        Kind::Counter,
        &["signal"],
        "Bytes of the bodies of OTLP requests, as received.",
    ),
    (
        "perpend_ingest_spans_total",
        Kind::Counter,
        &[],
        "Spans that OTLP requests stored, repeated ones included.",
    ),
    (
        "perpend_ingest_rejected_total",
        Kind::Counter,
        &["signal", "reason"],
        "Rejected OTLP requests; `reason` is the code of the error.",
    ),
    ("perpend_ingest_rejected_spans_total", Kind::Counter, &[], "Invalid spans in OTLP requests."),
    (
        "perpend_ingest_in_flight_bytes",
        Kind::Gauge,
        &[],
        "Memory in use of `ingest.max_in_flight_mib`.",
    ),
    (
        "perpend_commit_seconds",
        Kind::Histogram,
        &[],
        "Time to write and commit a group of telemetry batches.",
    ),
    (
        "perpend_executions",
        Kind::Gauge,
        &["state"],
        "Unfinished executions of evaluators in the database, counted up to 100,000.",
    ),
    (
        "perpend_evaluation_lag_seconds",
        Kind::Gauge,
        &[],
        "Time since the oldest unfinished execution became due; 0 if none is due.",
    ),
    (
        "perpend_executions_finished_total",
        Kind::Counter,
        &["outcome"],
        "Executions that reached a final state.",
    ),
    ("perpend_workers", Kind::Gauge, &[], "Running worker processes."),
    (
        "perpend_worker_losses_total",
        Kind::Counter,
        &["class"],
        "Worker processes that ended prematurely.",
    ),
    (
        "perpend_model_calls_total",
        Kind::Counter,
        &["outcome"],
        "Requests to model providers; `outcome` is `success` or the class of the failure.",
    ),
    (
        "perpend_model_call_seconds",
        Kind::Histogram,
        &[],
        "Time from sending a request to a model provider to the end of the response.",
    ),
    (
        "perpend_job_runs_total",
        Kind::Counter,
        &["job", "outcome"],
        "Runs of background jobs; `outcome` is `success` or `failure`.",
    ),
    (
        "perpend_job_last_success_seconds",
        Kind::Gauge,
        &["job"],
        "Unix time of the end of the latest successful run.",
    ),
    (
        "perpend_build_info",
        Kind::Gauge,
        &["version"],
        "Always 1; `version` is that of the program.",
    ),
];

/// The recorder of this process. Several servers in one process, as in tests, share it.
static RECORDER: LazyLock<Result<PrometheusHandle, BuildError>> = LazyLock::new(install);

fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new().set_buckets(&BUCKETS)?.install_recorder()?;
    for (name, kind, _, meaning) in CATALOGUE.iter().copied() {
        match kind {
            Kind::Counter => metrics::describe_counter!(name, meaning),
            Kind::Gauge => metrics::describe_gauge!(name, meaning),
            Kind::Histogram => metrics::describe_histogram!(name, meaning),
        }
    }
    metrics::gauge!("perpend_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Installs the recorder, so that the process is measured from now on.
pub(crate) fn start() -> anyhow::Result<()> {
    match &*RECORDER {
        Ok(_) => Ok(()),
        Err(error) => anyhow::bail!("cannot measure this process (metrics.token): {error}"),
    }
}

/// All metrics in the text format of Prometheus.
pub(crate) fn render() -> String {
    match &*RECORDER {
        Ok(recorder) => recorder.render(),
        Err(_) => String::new(),
    }
}

/// The job that sets the gauges, and bounds the memory of the recorder without a scraper.
#[derive(Debug)]
pub(crate) struct Gauges {
    pub(crate) web: Web,
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Gauges {
    async fn set(&self) -> Result<Progress, JobError> {
        if let Ok(recorder) = &*RECORDER {
            recorder.run_upkeep();
        }
        let in_flight_bytes = self.web.in_flight_bytes() as f64;
        metrics::gauge!("perpend_ingest_in_flight_bytes").set(in_flight_bytes);
        let counts = self.store.ledger.open_counts(MAX_COUNTED).await?;
        for state in ExecutionState::ALL.iter().filter(|state| !state.is_final()) {
            let n = counts.iter().find(|count| count.state == *state).map_or(0, |count| count.n);
            metrics::gauge!("perpend_executions", "state" => state.as_str()).set(n as f64);
        }
        let queues = self.store.ledger.execution_queues().await?;
        let now = self.clock.now();
        let due_at = queues.iter().map(|queue| queue.due_at).min();
        let lag_micros = due_at.map_or(0, |due_at| now.micros_since(due_at)).max(0);
        metrics::gauge!("perpend_evaluation_lag_seconds").set(lag_micros as f64 / 1e6);
        Ok(Progress::default())
    }
}

impl Job for Gauges {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(15)
    }

    fn run<'a>(
        &'a self,
        _shutdown: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Progress, JobError>> {
        Box::pin(self.set())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_in_the_table_of_the_documentation() {
        let page = include_str!("../../../docs/operations.md");
        let rows: Vec<Vec<&str>> = page
            .lines()
            .filter(|line| line.starts_with("| `perpend_"))
            .map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect())
            .collect();
        assert_eq!(rows.len(), CATALOGUE.len());
        for (row, (name, kind, labels, meaning)) in rows.iter().zip(CATALOGUE) {
            let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
            assert_eq!(
                row,
                &[format!("`{name}`").as_str(), kind.name(), labels.as_str(), *meaning]
            );
        }
    }
}
