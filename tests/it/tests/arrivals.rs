//! Spans that arrive right after their rule was made are scored.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use futures_util::future::join_all;
use perpend_db::DatabaseUrl;
use perpend_it::{TestApp, Trace};
use perpend_storage::testing::TempDatabase;
use serde_json::Value;

use crate::judges::generations;

const N_CLIENTS: u64 = 4;
const N_ROUNDS: u64 = 4;

/// Makes rules and sends a trace right after each; the rules with their traces.
async fn client(app: &TestApp, evaluator: &str, number: u64) -> Vec<(String, Trace)> {
    let mut sent = Vec::new();
    for n in 0..N_ROUNDS {
        let n = number * 1_000 + n;
        let trace = Trace::new(n, "ticket").generation("answer", "Your order is here.");
        let rule = app.rule(evaluator, generations()).await.unwrap();
        app.ingest(&trace).await.unwrap();
        sent.push((rule, trace));
    }
    sent
}

async fn story(settings: &[(&'static str, &str)]) {
    let app = TestApp::with(settings).await.unwrap();
    let config = serde_json::json!({ "terms": ["order"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config);
    let evaluator = evaluator.await.unwrap();
    let clients = (1..=N_CLIENTS).map(|number| client(&app, &evaluator, number));
    for (rule, trace) in join_all(clients).await.into_iter().flatten() {
        let path = format!("/api/v1/executions?traceId={}", trace.id);
        let is_made = |answer: &Value| {
            let mut made = answer["data"].as_array().unwrap().iter();
            made.any(|made| made["evaluationRuleId"] == *rule)
        };
        app.wait_for(&path, is_made).await.unwrap();
    }
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_span_that_arrives_right_after_its_rule_has_an_execution() {
    story(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_postgresql_each_span_that_arrives_right_after_its_rule_has_an_execution() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    story(&[("database.url", url.as_str())]).await;
}
