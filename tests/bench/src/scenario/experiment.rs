//! An experiment that the server executes: items with two models of a scripted provider that takes its time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::report::{Bar, Figure};
use crate::server::Server;

const N_ITEMS: u64 = 1_000;
const N_IN_FLIGHT: u64 = 50;
/// Latency of the provider.
const LATENCY_MS: u64 = 200;
/// Interval of requests for the status.
const POLL: Duration = Duration::from_millis(100);
/// Longest duration of a run.
const PATIENCE: Duration = Duration::from_secs(300);
const MAX_SECONDS: f64 = 12.0;

/// A thousand items with two models and 50 calls in flight.
///
/// # Errors
/// When the server refuses a request, or the runs do not end.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    let mut connection = server.connect().await?;
    let mut call = async |method: &str, path: &str, body: Option<Value>| -> anyhow::Result<Value> {
        connection.json(method, path, body.as_ref()).await
    };
    let script = json!({
        "provider": "main", "adapter": "mock", "secretKey": "none",
        "config": { "replies": [{
            "reply": "Paris", "latencyMs": LATENCY_MS, "usage": { "input": 100, "output": 20 },
        }] },
    });
    let made = call("PUT", "/api/public/llm-connections", Some(script)).await?;
    let id = made["id"].as_str().unwrap_or_default();
    let path = format!("/api/v1/llm-connections/{id}");
    call("PATCH", &path, Some(json!({ "maxInFlight": N_IN_FLIGHT }))).await?;
    call("POST", "/api/public/v2/datasets", Some(json!({ "name": "questions" }))).await?;
    for n in 0..N_ITEMS {
        let item = json!({
            "datasetName": "questions", "input": { "question": format!("Number {n}?") }, "expectedOutput": "Paris",
        });
        call("POST", "/api/public/dataset-items", Some(item)).await?;
    }
    let prompt =
        json!({ "name": "answer", "prompt": "Answer {{question}}", "labels": ["production"] });
    call("POST", "/api/public/v2/prompts", Some(prompt)).await?;
    let model = |name: &str| json!({ "provider": "main", "model": name });
    let experiment = json!({
        "dataset": "questions", "prompts": [{ "name": "answer" }],
        "models": [model("gpt-4o-mini"), model("gpt-4o")], "concurrency": N_IN_FLIGHT,
    });
    let started_at = Instant::now();
    let started = call("POST", "/api/v1/experiments", Some(experiment)).await?;
    let runs = started["runs"].as_array().cloned().unwrap_or_default();
    for run in &runs {
        let id = run["id"].as_str().context("the run has an id")?;
        let path = format!("/api/v1/experiments/{id}/status");
        loop {
            let status = call("GET", &path, None).await?;
            if status["state"] == "completed" {
                ensure!(status["completedCount"] == N_ITEMS, "{status}");
                break;
            }
            ensure!(status["state"] == "running" && started_at.elapsed() < PATIENCE, "{status}");
            tokio::time::sleep(POLL).await;
        }
    }
    let seconds = started_at.elapsed().as_secs_f64();
    server.stop().await?;
    let what = format!(
        "{N_ITEMS} items x {} models, {N_IN_FLIGHT} calls in flight, {LATENCY_MS} ms each",
        runs.len()
    );
    Ok(vec![Figure {
        scenario: "experiment",
        what,
        value: seconds,
        unit: "s",
        bar: Bar::AtMost(MAX_SECONDS),
    }])
}
