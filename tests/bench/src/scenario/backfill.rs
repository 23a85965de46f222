//! A backfill over stored observations.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::http::Connection;
use crate::load::{Plan, SPANS_PER_BATCH, run};
use crate::report::{Bar, Figure};
use crate::server::Server;

/// Interval of requests for the progress.
const POLL: Duration = Duration::from_millis(200);
/// Seconds for a million observations.
const MAX_SECONDS: f64 = 240.0;
const MAX_MIB: f64 = 300.0;
/// Longest duration.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// All observations by an evaluator in Rust.
///
/// # Errors
/// When the server refuses a request, or the backfill does not end.
pub(crate) async fn measure(n_spans: u64) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    let n_batches = n_spans / SPANS_PER_BATCH as u64;
    let load = Plan { n_connections: 4, n_batches, pace: None, first_serial: 0 };
    let loaded = run(&server, load).await?;
    let mut connection = server.connect().await?;
    let rule = rule(&mut connection).await?;
    let backfill = json!({ "ruleId": rule, "from": "2020-01-01T00:00:00Z" });
    let started_at = Instant::now();
    let started = connection.json("POST", "/api/v1/backfills", Some(&backfill)).await?;
    let id = started["id"].as_str().context("the backfill has an id")?;
    let path = format!("/api/v1/backfills/{id}");
    let mut peak = 0;
    let found = loop {
        let found: Value = connection.json("GET", &path, None).await?;
        peak = peak.max(server.resident_bytes_together());
        if found["state"] != "running" {
            break found;
        }
        ensure!(started_at.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(POLL).await;
    };
    let seconds = started_at.elapsed().as_secs_f64();
    ensure!(found["state"] == "completed" && found["failedCount"] == 0, "{found}");
    let n = found["itemCount"].as_u64().unwrap_or_default();
    // Those that arrived last may have been scored live.
    let n_present = found["presentCount"].as_u64().unwrap_or_default();
    ensure!(n + n_present == loaded.n_spans, "{found}");
    server.stop().await?;
    let figure = |what: &str, value, unit, bar| Figure {
        scenario: "backfill",
        what: format!("{n} observations: {what}"),
        value,
        unit,
        bar,
    };
    let max_seconds = MAX_SECONDS * n_spans as f64 / 1e6;
    let memory = peak as f64 / f64::from(1 << 20);
    Ok(vec![
        figure("all scored", seconds, "s", Bar::AtMost(max_seconds)),
        figure("rate", n as f64 / seconds, "/s", Bar::None),
        figure("peak memory, workers included", memory, "MiB", Bar::AtMost(MAX_MIB)),
    ])
}

/// A rule of all observations.
async fn rule(connection: &mut Connection) -> anyhow::Result<Value> {
    let evaluator = json!({
        "type": "plugin", "name": "answer length", "plugin": "perpend/text", "evaluator": "length",
        "config": { "max": 2_000 },
    });
    let made = connection.json("POST", "/api/public/v2/evaluators", Some(&evaluator)).await?;
    let rule = json!({
        "name": "every observation", "enabled": true, "onMissing": "empty",
        "evaluatorAssignments": [{
            "evaluatorId": made["id"],
            "variableMapping": [{ "variable": "output", "source": "output" }],
        }],
    });
    let made = connection.json("POST", "/api/public/v2/evaluation-rules", Some(&rule)).await?;
    Ok(made["id"].clone())
}
