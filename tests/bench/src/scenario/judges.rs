//! Judges: many executions that each wait for a provider, here a scripted one that takes its time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::load::{Plan, run};
use crate::report::{Bar, Figure};
use crate::scenario::end_to_end::{n_generations, reader, wait_for_scores};
use crate::server::Server;

/// How long the provider takes for an answer.
const LATENCY_MS: u64 = 200;
const LOOK: Duration = Duration::from_millis(100);

/// A thousand with 50 at a time, and ten thousand with 500.
///
/// # Errors
/// When the server refuses something, or scores stop coming before all are there.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let mut figures = judged(10, 50, (8.0, None)).await?;
    figures.extend(judged(100, 500, (60.0, Some(900.0))).await?);
    Ok(figures)
}

async fn judged(
    n_batches: u64,
    n_at_a_time: u64,
    (most_seconds, most_memory): (f64, Option<f64>),
) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    judge_generations(&server, n_at_a_time).await?;
    let mut reader = reader(&server).await?;
    // The workers are started and the judge is compiled.
    let plan =
        |n_batches, first_serial| Plan { n_connections: 1, n_batches, pace: None, first_serial };
    run(&server, plan(1, 0)).await?;
    let n_before = n_generations(1);
    wait_for_scores(&mut reader, n_before).await?;

    let started = Instant::now();
    let n_judges = n_generations(n_batches);
    let load = run(&server, plan(n_batches, 1)).await?;
    let mut peak = load.peak_resident;
    let all = wait_for_scores(&mut reader, n_before + n_judges);
    let mut all = std::pin::pin!(all);
    loop {
        tokio::select! {
            scored = &mut all => break scored?,
            () = tokio::time::sleep(LOOK) => peak = peak.max(server.resident_bytes()),
        }
    }
    let took = started.elapsed().as_secs_f64();
    server.stop().await?;
    let what = |of: &str| {
        format!("{n_judges} judges, {n_at_a_time} at a time, {LATENCY_MS} ms each: {of}")
    };
    let figure = |of: &str, value, unit, bar| Figure {
        scenario: "judges",
        what: what(of),
        value,
        unit,
        bar,
    };
    let memory = peak as f64 / f64::from(1 << 20);
    let memory_bar = most_memory.map_or(Bar::None, Bar::AtMost);
    Ok(vec![
        figure("all scored", took, "s", Bar::AtMost(most_seconds)),
        figure("peak resident memory", memory, "MiB", memory_bar),
    ])
}

/// A rule that lets a judge score each generation.
async fn judge_generations(server: &Server, n_at_a_time: u64) -> anyhow::Result<()> {
    let mut connection = server.connect().await?;
    let mut call = async |method: &str, path: &str, body: Value| -> anyhow::Result<Value> {
        connection.json(method, path, Some(&body)).await
    };
    let script = json!({
        "provider": "main", "adapter": "mock", "secretKey": "none",
        "config": { "replies": [{
            "reply": { "reasoning": "It answers.", "score": 0.5 }, "latencyMs": LATENCY_MS,
            "usage": { "input": 100, "output": 20 },
        }] },
    });
    let made = call("PUT", "/api/public/llm-connections", script).await?;
    let id = made["id"].as_str().unwrap_or_default();
    let path = format!("/api/v1/llm-connections/{id}");
    call("PATCH", &path, json!({ "maxInFlight": n_at_a_time })).await?;
    let judge = json!({
        "type": "llm_as_judge", "name": "quality", "prompt": "How good is this answer?\n{{output}}",
        "modelConfig": { "provider": "main", "model": "gpt-4o-mini" },
        "variableMapping": [{ "variable": "output", "source": "output" }],
        "outputDefinition": { "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 },
    });
    let made = call("POST", "/api/public/v2/evaluators", judge).await?;
    let generation = json!({
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
    });
    let rule = json!({
        "name": "judges", "enabled": true, "settleMs": 0, "filter": [generation],
        "evaluatorAssignments": [{ "evaluatorId": made["id"] }],
    });
    call("POST", "/api/public/v2/evaluation-rules", rule).await?;
    Ok(())
}
