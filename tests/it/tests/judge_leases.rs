//! A judge whose lease expires while it waits for a provider: the new owner of the execution repeats the call, and the
//! former owner makes no more calls.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test provider need no guard")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use perpend_db::DatabaseUrl;
use perpend_it::{TestApp, Trace};
use perpend_storage::testing::TempDatabase;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::judge_kills::{PRIVATE, connect};

/// A provider that delays one request, and responds to all others at once.
#[derive(Debug)]
struct Provider {
    n_requests: AtomicU32,
    is_gated: AtomicBool,
    waiting: Semaphore,
    gate: Semaphore,
}

impl Provider {
    async fn start() -> (String, Arc<Self>) {
        let provider = Arc::new(Self {
            n_requests: AtomicU32::new(0),
            is_gated: AtomicBool::new(false),
            waiting: Semaphore::new(0),
            gate: Semaphore::new(0),
        });
        let answering = Arc::clone(&provider);
        let answer = async move || {
            let is_first = answering.n_requests.fetch_add(1, Ordering::SeqCst) == 0;
            let is_late = is_first && answering.is_gated.load(Ordering::SeqCst);
            if is_late {
                answering.waiting.add_permits(1);
                drop(answering.gate.acquire().await.unwrap());
            }
            // The late reply does not match the schema and would be retried.
            let score = if is_late { "high" } else { "0.5" };
            let content = format!(r#"{{"reasoning":"It thanks.","score":{score}}}"#);
            let message = json!({ "role": "assistant", "content": content });
            Json(json!({
                "model": "gpt-4o-mini-2024",
                "choices": [{ "message": message, "finish_reason": "stop" }],
                "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
            }))
        };
        let router = Router::new().route("/v1/chat/completions", post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (url, provider)
    }

    fn n_requests(&self) -> u32 {
        self.n_requests.load(Ordering::SeqCst)
    }

    /// From now on requests are counted, and the first of them waits.
    fn close(&self) {
        self.n_requests.store(0, Ordering::SeqCst);
        self.is_gated.store(true, Ordering::SeqCst);
    }
}

async fn story(settings: &[(&'static str, &str)]) {
    let (url, provider) = Provider::start().await;
    let settings = [&[PRIVATE], settings].concat();
    let app = TestApp::with(&settings).await.unwrap();
    // The judge is tried when it is saved.
    connect(&app, &url).await;
    provider.close();
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you.");
    app.ingest(&trace).await.unwrap();
    drop(provider.waiting.acquire().await.unwrap());
    // The reply to the other question is stored, so the call is not repeated.
    let of_trace = format!("/api/v1/executions?traceId={}", trace.id);
    let is_started = |listed: &serde_json::Value| listed["data"][0]["id"].is_string();
    let listed = app.wait_for(&of_trace, is_started).await.unwrap();
    let path = format!("/api/v1/executions/{}", listed["data"][0]["id"].as_str().unwrap());
    let n_calls = |shown: &serde_json::Value| shown["modelCalls"].as_array().map_or(0, Vec::len);
    app.wait_for(&path, |shown| 1 <= n_calls(shown)).await.unwrap();
    app.clock.advance(Duration::from_secs(600));
    // Another batch takes the execution, repeats the unanswered one of its two calls, and scores.
    let scores = app.scores(1).await.unwrap();
    assert_eq!(provider.n_requests(), 3, "only the call under way is repeated");
    provider.gate.add_permits(1);
    // The batch that lost the lease ends before the server does.
    assert!(path.ends_with(scores[0]["origin"]["executionId"].as_str().unwrap()));
    app.wait_for(&path, |shown| 3 <= n_calls(shown)).await.unwrap();
    app.stop().await.unwrap();
    assert_eq!(provider.n_requests(), 3, "the former owner makes no more calls");
}

#[tokio::test]
async fn a_judge_that_lost_its_lease_makes_no_more_calls() {
    story(&[]).await;
}

#[tokio::test]
async fn on_postgresql_a_judge_that_lost_its_lease_makes_no_more_calls() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    story(&[("database.url", url.as_str())]).await;
}
