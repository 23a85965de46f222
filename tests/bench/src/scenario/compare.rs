//! A comparison of two runs over REST: first, and again while nothing has changed.

use std::time::Instant;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::report::{Bar, Figure};
use crate::server::Server;

const N_ITEMS: u64 = 5_000;
/// Spans or scores per request.
const PER_REQUEST: u64 = 500;
const N_REQUESTS: u64 = 20;
const START_NS: u64 = 1_760_000_000_000_000_000;
const RUNS: [&str; 2] = ["main", "new"];
const MAX_FIRST_MS: f64 = 150.0;
const MAX_AGAIN_MS: f64 = 50.0;

/// Two runs of 5,000 items with three scores each.
///
/// # Errors
/// When the server refuses a request.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    let mut connection = server.connect().await?;
    for (at, run) in (0..).zip(RUNS) {
        for first in (0..N_ITEMS).step_by(PER_REQUEST as usize) {
            let items = first..first + PER_REQUEST;
            let spans: Vec<Value> = items.clone().map(|item| span(run, at, item)).collect();
            let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
            connection.json("POST", "/api/public/otel/v1/traces", Some(&body)).await?;
            let scores: Vec<Value> = items.flat_map(|item| scores(at, item)).collect();
            let body = json!({ "batch": scores });
            connection.json("POST", "/api/public/ingestion", Some(&body)).await?;
        }
    }
    for score in ["accuracy", "relevance", "tone"] {
        let path = format!("/api/v1/score-directions/{score}");
        let direction = json!({ "direction": "higher_is_better" });
        connection.json("PUT", &path, Some(&direction)).await?;
    }
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for at in 0..=N_REQUESTS {
        // Another level is another comparison.
        let alpha = 0.05 + at as f64 / 10_000.0;
        let path =
            format!("/api/v1/experiments/compare?runs={}&alpha={alpha}&limit=50", RUNS.join(","));
        for times in [&mut first, &mut again] {
            let started_at = Instant::now();
            let found = connection.json("GET", &path, None).await?;
            let milliseconds = started_at.elapsed().as_secs_f64() * 1e3;
            ensure!(found["nItems"] == N_ITEMS, "{found}");
            // The first comparison warms the server up.
            if 0 < at {
                times.push(milliseconds);
            }
        }
    }
    server.stop().await?;
    let figure = |what: &str, times: Vec<f64>, most| Figure {
        scenario: "compare",
        what: format!("2 runs of {N_ITEMS} items, {what}: p95"),
        value: p95(times),
        unit: "ms",
        bar: Bar::AtMost(most),
    };
    Ok(vec![figure("first", first, MAX_FIRST_MS), figure("again", again, MAX_AGAIN_MS)])
}

fn p95(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 95 / 100).copied().unwrap_or_default()
}

/// A number that looks random, below 1.
fn noise(run: u64, item: u64, salt: u64) -> f64 {
    let mixed = (item * 3 + run * 7 + salt * 11 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as f64 / f64::from(1_u32 << 24)
}

fn trace(run: u64, item: u64) -> String {
    format!("{:032x}", (run + 1) << 32 | item)
}

/// The span of an item, the root of its trace.
fn span(name: &str, run: u64, item: u64) -> Value {
    let id = format!("{:016x}", item + 1);
    let start = START_NS + item * 1_000_000;
    let end = start + 500_000_000 + (noise(run, item, 0) * 1e9) as u64;
    let text = |key: &str, value: String| json!({ "key": key, "value": { "stringValue": value } });
    json!({
        "traceId": trace(run, item), "spanId": id, "name": "experiment-item-task",
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(),
        "attributes": [
            text("langfuse.experiment.id", name.to_owned()),
            text("langfuse.experiment.name", name.to_owned()),
            text("langfuse.experiment.item.id", format!("item-{item}")),
            text("langfuse.experiment.item.root_observation_id", id.clone()),
        ],
    })
}

fn scores(run: u64, item: u64) -> [Value; 3] {
    let score = |salt: u64, name: &str, value: f64, data_type: &str| {
        json!({
            "id": format!("event-{run}-{item}-{salt}"), "type": "score-create",
            "timestamp": "2025-10-09T09:00:00.000Z",
            "body": {
                "id": format!("score-{run}-{item}-{salt}"), "traceId": trace(run, item), "name": name, "value": value,
                "dataType": data_type,
            },
        })
    };
    let passes = noise(run, item, 1) < 0.8;
    [
        score(1, "accuracy", f64::from(u8::from(passes)), "BOOLEAN"),
        score(2, "relevance", noise(run, item, 2), "NUMERIC"),
        score(3, "tone", (noise(run, item, 3) * 5.0).floor(), "NUMERIC"),
    ]
}
