//! How long people wait: lists and metrics over 1,000,000 observations in 200,000 traces on SQLite.
//!
//! `cargo run --release -p perpend-storage --features testing --example queries [observations]`

#![expect(clippy::print_stdout, reason = "its output is what it is for")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails says so by panicking")]

use std::time::Instant;

use perpend_domain::batch::Batch;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, find};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::metrics::{Aggregation, Granularity, Metric, MetricQuery, MetricView};
use perpend_domain::observation::ObservationKind;
use perpend_domain::patch::{Patch, PatchSubject, merge};
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceQuery;
use perpend_storage::testing::{OpenStore as _, TempDatabase};

const PER_TRACE: i64 = 5;
const DAYS: i64 = 30;
const DAY_MS: i64 = 86_400_000;
const START_MS: i64 = 1_770_000_000_000;
const N_ROUNDS: usize = 21;

fn observation(n: i64, total: i64) -> perpend_domain::observation::Observation {
    let id = ObservationId::new(&format!("{n:016x}")).unwrap();
    let at = Timestamp::from_millis(START_MS + n * (DAYS * DAY_MS) / total);
    let mut patch = Patch::new(String::new(), at, false, PatchSubject::Observation(id));
    patch.trace_id = TraceId::new(&format!("{:032x}", n / PER_TRACE + 1)).ok();
    patch.start = Some(at);
    patch.end = Some(at.plus_millis(20 + n % 900));
    patch.name = Some(format!("step {}", n % PER_TRACE));
    patch.input = Some(Payload::Text("What is the answer to this question?".to_owned()));
    if n % PER_TRACE == 0 {
        patch.user_id = Some(format!("user {}", n % 997));
    } else {
        patch.parent_id = ObservationId::new(&format!("{:016x}", n - n % PER_TRACE)).ok();
    }
    if n % 2 == 1 {
        patch.kind = ObservationKind::Generation;
        patch.model = Some(format!("model-{}", n % 7));
        let usage = [("input", 100 + n % 50), ("output", n % 80), ("total", 100 + n % 130)];
        patch.usage = usage.map(|(name, n)| (name.to_owned(), n.unsigned_abs().into())).into();
        patch.cost = [("total".to_owned(), 0.001)].into();
    }
    merge([&patch]).unwrap()
}

/// Median and 95th percentile in milliseconds.
async fn timed<F: Future>(name: &str, mut ask: impl FnMut() -> F) {
    let mut took = Vec::new();
    for _ in 0..N_ROUNDS {
        let start = Instant::now();
        ask().await;
        took.push(start.elapsed().as_secs_f64() * 1_000.0);
    }
    took.sort_by(f64::total_cmp);
    println!("{name}: p50 {:.1} ms, p95 {:.1} ms", took[N_ROUNDS / 2], took[N_ROUNDS - 2]);
}

fn question(metrics: &[(Aggregation, &str)], from_day: i64, dimension: &str) -> MetricQuery {
    let view = MetricView::Observations;
    let metric = |(aggregation, name): &(Aggregation, &str)| Metric {
        measure: view.measure(name).unwrap(),
        aggregation: *aggregation,
    };
    MetricQuery {
        view,
        with_booleans: true,
        dimensions: vec![view.dimension(dimension).unwrap()],
        metrics: metrics.iter().map(metric).collect(),
        filter: Filter::default(),
        // Not on the hour: the edges are counted too.
        from: Timestamp::from_millis(START_MS + from_day * DAY_MS + 1_234_567),
        to: Timestamp::from_millis(START_MS + DAYS * DAY_MS - 1_234_567),
        granularity: Some(Granularity::Day),
        top: None,
    }
}

#[tokio::main]
async fn main() {
    let total: i64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().unwrap());
    let database = TempDatabase::sqlite();
    let store = database.open().await;
    let telemetry = &store.telemetry;
    let project = ProjectId::new("bench").unwrap();
    let start = Instant::now();
    for first in (0..total).step_by(250) {
        let batch = Batch {
            observations: (first..(first + 250).min(total))
                .map(|n| observation(n, total))
                .collect(),
            ..Batch::default()
        };
        let now = Timestamp::from_millis(START_MS);
        telemetry.write_batch(&project, batch, now).await.unwrap();
    }
    let took = start.elapsed().as_secs_f64();
    println!("wrote {total} observations in {took:.1} s, {:.0} a second", total as f64 / took);

    let sums = [
        (Aggregation::Count, "count"),
        (Aggregation::Sum, "totalCost"),
        (Aggregation::Sum, "totalTokens"),
    ];
    let ask = |question: MetricQuery| {
        let (telemetry, project) = (telemetry.clone(), project.clone());
        async move { telemetry.metrics(&project, &question).await.unwrap().len() }
    };
    timed("metrics by day and model, all", || ask(question(&sums, 0, "providedModelName"))).await;
    timed("metrics by day and model, last day", || {
        ask(question(&sums, DAYS - 1, "providedModelName"))
    })
    .await;
    timed("metrics by day and name, last day", || ask(question(&sums, DAYS - 1, "name"))).await;
    let p95 = [(Aggregation::P95, "latency")];
    timed("p95 of latency by model, last day", || {
        ask(question(&p95, DAYS - 1, "providedModelName"))
    })
    .await;
    let list = || {
        let (telemetry, project) = (telemetry.clone(), project.clone());
        async move {
            let query = TraceQuery {
                filter: Filter {
                    conditions: vec![Condition {
                        column: find(TRACES, "userId"),
                        test: Test::AnyOf(vec!["user 5".to_owned()]),
                    }],
                },
                ..TraceQuery::default()
            };
            telemetry.traces(&project, &query).await.unwrap().items.len()
        }
    };
    timed("traces of a user, first page", list).await;
    store.close().await;
}
