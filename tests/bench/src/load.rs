//! The load generator: batches over several connections, each answer waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;

use crate::server::Server;
use crate::spans::Batch;

/// Spans in one request.
pub(crate) const SPANS_PER_BATCH: usize = 250;

/// What a run of load gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// Spans acknowledged.
    pub(crate) n_spans: u64,
    /// From the first request to the last answer.
    pub(crate) took: Duration,
    /// Latency of each request, sorted.
    pub(crate) latencies: Vec<Duration>,
    /// Highest resident memory seen, in bytes.
    pub(crate) peak_resident: u64,
}

impl Run {
    /// Acknowledged spans in a second.
    #[must_use]
    pub(crate) fn spans_per_second(&self) -> f64 {
        self.n_spans as f64 / self.took.as_secs_f64()
    }

    /// The latency that `share` of the requests stayed under.
    #[must_use]
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        quantile(&self.latencies, share)
    }
}

/// The value at `share` of a sorted list; zero when it is empty.
#[must_use]
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((share * last as f64).round() as usize).copied().unwrap_or_default()
}

/// How much load, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Connections, each with one request under way.
    pub(crate) n_connections: usize,
    /// Requests in all.
    pub(crate) n_batches: u64,
    /// Spans in a second over all connections; `None`: as fast as the server responds.
    pub(crate) pace: Option<f64>,
    /// Number of the first batch: no two batches with one number in one database.
    pub(crate) first_serial: u64,
}

/// Sends the batches and waits for every answer.
///
/// # Errors
/// When the server refuses a batch.
pub(crate) async fn run(server: &Server, plan: Plan) -> anyhow::Result<Run> {
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut senders = Vec::new();
    for _ in 0..plan.n_connections {
        let mut connection = server.connect().await?;
        let next = Arc::clone(&next);
        senders.push(tokio::spawn(async move {
            let mut batch = Batch::new(SPANS_PER_BATCH);
            let mut latencies = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if plan.n_batches <= at {
                    return anyhow::Ok(latencies);
                }
                if let Some(pace) = plan.pace {
                    let due = started
                        + Duration::from_secs_f64(at as f64 * SPANS_PER_BATCH as f64 / pace);
                    tokio::time::sleep_until(due.into()).await;
                }
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
                let body = Bytes::copy_from_slice(batch.stamp(plan.first_serial + at, now));
                let sent = Instant::now();
                let (status, answer) = connection
                    .send("POST", "/api/public/otel/v1/traces", "application/x-protobuf", body)
                    .await?;
                anyhow::ensure!(
                    status == 200 && answer.is_empty(),
                    "batch {at}: {status} {}",
                    String::from_utf8_lossy(&answer)
                );
                latencies.push(sent.elapsed());
            }
        }));
    }
    let mut peak_resident = 0;
    while senders.iter().any(|sender| !sender.is_finished()) {
        peak_resident = peak_resident.max(server.resident_bytes());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut latencies = Vec::new();
    for sender in senders {
        latencies.extend(sender.await??);
    }
    let took = started.elapsed();
    latencies.sort_unstable();
    Ok(Run {
        n_spans: latencies.len() as u64 * SPANS_PER_BATCH as u64,
        took,
        latencies,
        peak_resident,
    })
}
