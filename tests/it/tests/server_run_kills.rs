//! Servers that are killed repeatedly while they execute a run, on one database.
//!
//! The test starts itself as another process, which continues the run and aborts at a named point inside a transaction. The
//! provider runs in the test and counts requests: a repeated one was under way at a kill.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test provider need no guard")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use axum::routing::post;
use axum::{Json, Router};
use perpend_db::{Breakpoints, DatabaseUrl};
use perpend_it::{TestApp, TestClock};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judge_kills::PRIVATE;
use crate::judges::call;
use crate::server_runs::{dataset, prompt, questions, start, status};

const N_ITEMS: usize = 40;
const CONCURRENCY: u64 = 4;
const N_KILLS: u32 = 8;
/// Set for the process that is killed: its number, the breakpoint, the number of times it is passed before, the run, the
/// database, the directory.
const ORDER: &str = "PERPEND_TEST_RUN_KILL";
const NAME: &str = "server_run_kills::a_killed_server_repeats_no_call_whose_answer_is_stored";
/// Longer than a lease.
const BETWEEN: Duration = Duration::from_secs(600);
const PLACES: [&str; 2] = ["asking: kept", "server run: finished"];

type Requests = Arc<Mutex<BTreeMap<String, u64>>>;

/// A provider that speaks like OpenAI and counts its requests by their last message.
async fn provider() -> (String, Requests) {
    let requests = Requests::default();
    let counted = Arc::clone(&requests);
    let answer = async move |Json(request): Json<Value>| {
        let text = request["messages"][0]["content"].to_string();
        *counted.lock().unwrap().entry(text).or_default() += 1;
        Json(json!({
            "model": "gpt-4o-mini",
            "choices": [{ "message": { "role": "assistant", "content": "Paris" }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
        }))
    };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, requests)
}

fn settings(url: &str) -> Vec<(&'static str, &str)> {
    let mut settings = vec![PRIVATE];
    if url.starts_with("postgres") {
        settings.push(("database.url", url));
    }
    settings
}

/// Continues the run until it is completed, or until it is killed.
async fn process(order: &str) {
    let mut parts = order.splitn(6, '|');
    let mut part = || parts.next().unwrap();
    let number: u32 = part().parse().unwrap();
    let at = part().to_owned();
    let n_left = AtomicU32::new(part().parse().unwrap());
    let (run, url, data) = (part(), part(), part());
    let stops = Breakpoints::new(move |point| {
        if point == at && n_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            std::process::abort();
        }
        false
    });
    let settings = settings(url);
    let clock = TestClock::ahead(BETWEEN * (number + 1));
    let app = TestApp::in_dir(Path::new(data), &settings, clock, stops).await.unwrap();
    status(&app, run, "completed").await;
    app.stop().await.unwrap();
}

/// Runs the process of this order; whether it was killed.
fn is_killed(order: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(ORDER, order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    !status.success()
}

async fn prepare(app: &TestApp, provider: &str) -> String {
    let connection = json!({
        "provider": "main", "adapter": "openai", "secretKey": "sk-never-shown-again", "baseURL": provider,
    });
    let (status, made) = call(app, Method::PUT, "/api/public/llm-connections", connection).await;
    assert!(status == 200 || status == 201, "{made}");
    dataset(app, "capitals", &questions(N_ITEMS)).await;
    prompt(app, "answer", "Answer {{question}}").await;
    let body = json!({
        "dataset": "capitals", "prompts": [{ "name": "answer" }],
        "models": [{ "provider": "main", "model": "gpt-4o-mini" }], "concurrency": CONCURRENCY,
    });
    start(app, body).await.remove(0)
}

async fn kill_and_check(database: TempDatabase) {
    let url = match database.url() {
        DatabaseUrl::Sqlite(_) => "sqlite".to_owned(),
        DatabaseUrl::Postgres(raw) => raw.clone(),
    };
    let (provider, requests) = provider().await;
    let data = tempfile::tempdir().unwrap();
    let settings = settings(&url);
    let clock = TestClock::default();
    // The first process stops the run before its first answer is stored.
    let stops = Breakpoints::new(|point| point == PLACES[0]);
    let app = TestApp::in_dir(data.path(), &settings, clock, stops).await.unwrap();
    let run = prepare(&app, &provider).await;
    app.stop().await.unwrap();
    requests.lock().unwrap().clear();
    let (mut n_kills, mut number) = (0, 0);
    while n_kills < N_KILLS {
        let at = PLACES[number as usize % PLACES.len()];
        let n_before = number % 3 + 1;
        let order = format!("{number}|{at}|{n_before}|{run}|{url}|{}", data.path().display());
        let killed = tokio::task::spawn_blocking(move || is_killed(&order)).await.unwrap();
        n_kills += u32::from(killed);
        number += 1;
        if !killed {
            break;
        }
    }
    assert!(3 <= n_kills, "the run was completed after {n_kills} kills");
    let clock = TestClock::ahead(BETWEEN * (number + 2));
    let app = TestApp::in_dir(data.path(), &settings, clock, Breakpoints::default()).await.unwrap();
    let completed = status(&app, &run, "completed").await;
    assert_eq!(completed["completedCount"], json!(N_ITEMS), "{completed}");
    assert_eq!(completed["failedCount"], 0, "{completed}");
    let costs =
        "/api/v1/model-costs?groupBy=model&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z";
    let costs = app.client.get(costs).await.unwrap().json();
    assert_eq!(
        costs["total"]["calls"],
        json!(N_ITEMS),
        "each stored answer was paid for once: {costs}"
    );
    let n_requests: u64 = requests.lock().unwrap().values().sum();
    let n_again = n_requests - N_ITEMS as u64;
    assert!(n_again <= u64::from(n_kills) * CONCURRENCY, "{n_again} of {n_requests} were repeated");
    let n_repeated = completed["repeatedCallCount"].as_u64().unwrap();
    assert!(n_again <= n_repeated, "{n_again} were repeated, {n_repeated} are counted");
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_repeats_no_call_whose_answer_is_stored() {
    if let Ok(order) = std::env::var(ORDER) {
        return process(&order).await;
    }
    let on_each = TempDatabase::each_migrated().await.into_iter();
    futures_util::future::join_all(on_each.map(kill_and_check)).await;
}
