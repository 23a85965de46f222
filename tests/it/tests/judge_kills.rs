//! Servers that are killed repeatedly while judges call a provider, on one database.
//!
//! The test starts itself as another process, which opens the server, executes pending evaluations, and aborts at a named
//! point inside a transaction. The provider runs in the test and counts requests: a repeated one was under way at a kill.
//! At the end each target has one score.

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
use perpend_it::{TestApp, TestClock, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, generations};

/// Kills on each of the two databases, unless `PERPEND_TEST_KILLS` has another number.
const N_KILLS: u32 = 40;
/// Targets that wait for each process.
const N_TARGETS: u64 = 2;
/// Requests of an execution: two repeats, of which the first reply to one does not fit its schema.
const N_REQUESTS: usize = 3;
/// Set for the process that is killed: its number, the breakpoint, the number of times it is passed before, the
/// database, the directory.
const ORDER: &str = "PERPEND_TEST_JUDGE_KILL";
const NAME: &str = "judge_kills::a_killed_server_pays_for_no_reply_twice_and_loses_no_score";
/// Longer than a lease.
const BETWEEN: Duration = Duration::from_secs(600);
const PLACES: [&str; 4] =
    ["asking: kept", "finishing: ended", "finishing: scored", "finishing: counted"];
/// For a process that is not killed.
const NOWHERE: &str = "nowhere";
pub(crate) const PRIVATE: (&str, &str) = ("exports.private_endpoints", "127.0.0.1");

/// How often each request came.
type RequestCounts = Arc<Mutex<BTreeMap<String, u32>>>;

/// A provider that speaks like OpenAI, and gives one reply of each execution in a form that does not fit.
async fn provider() -> (String, RequestCounts) {
    let counts = RequestCounts::default();
    let counted = Arc::clone(&counts);
    let answer = async move |Json(request): Json<Value>| {
        *counted.lock().unwrap().entry(request.to_string()).or_default() += 1;
        let messages = request["messages"].as_array().unwrap();
        let is_odd = request["seed"].as_u64().is_some_and(|seed| seed % 2 == 1);
        // Two seeds follow each other, so that one of them is odd.
        let is_first = messages.iter().all(|message| message["role"] != "assistant");
        let score = if is_odd && is_first { "high" } else { "0.5" };
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
    (url, counts)
}

fn settings(url: &str) -> Vec<(&'static str, &str)> {
    let mut settings = vec![PRIVATE];
    if url.starts_with("postgres") {
        settings.push(("database.url", url));
    }
    settings
}

/// Sends traces and waits for their scores, until it is killed.
async fn process(order: &str) {
    let mut parts = order.splitn(5, '|');
    let mut part = || parts.next().unwrap();
    let number: u32 = part().parse().unwrap();
    let at = part().to_owned();
    let n_left = AtomicU32::new(part().parse().unwrap());
    let (url, data) = (part(), part());
    let stops = Breakpoints::new(move |point| {
        if point == at && n_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            std::process::abort();
        }
        false
    });
    let ahead = BETWEEN * (number + 1);
    let settings = settings(url);
    let app = TestApp::in_dir(Path::new(data), &settings, TestClock::ahead(ahead), stops);
    let app = app.await.unwrap();
    for n in 0..N_TARGETS {
        let n = 1_000 + u64::from(number) * N_TARGETS + n;
        let text = format!("Thank you for waiting, number {n}.");
        let trace = Trace::new(n, "ticket").generation("answer", &text);
        app.ingest(&trace).await.unwrap();
        let path = format!("/api/public/v3/scores?traceId={}", trace.id);
        let is_scored = |scores: &Value| count(scores) == 1;
        app.wait_for(&path, is_scored).await.unwrap();
    }
    let (path, is_done) = (counters(&app).await, done(0));
    app.wait_for(&path, is_done).await.unwrap();
    app.stop().await.unwrap();
}

/// Where the counters of the only rule are.
async fn counters(app: &TestApp) -> String {
    let rules = app.client.get("/api/public/v2/evaluation-rules").await;
    let rules = rules.unwrap().json();
    let rule = rules["data"][0]["id"].as_str().unwrap();
    format!("/api/v1/evaluation-rules/{rule}/counters?hours=720")
}

/// Whether so many executions are completed and none waits or failed.
fn done(n_least: u32) -> impl Fn(&Value) -> bool {
    move |counters| {
        let counts = counters["data"].as_array().unwrap().iter();
        let completed = counts.filter(|count| count["reason"] == "completed");
        let n: u64 = completed.filter_map(|count| count["count"].as_u64()).sum();
        let states = counters["states"].as_object();
        u64::from(n_least) <= n && states.is_some_and(serde_json::Map::is_empty)
    }
}

/// Runs the process of this order; whether it was killed.
fn run(order: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env(ORDER, order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    !status.success()
}

/// Creates a connection, and a judge that calls it twice for each target.
pub(crate) async fn connect(app: &TestApp, url: &str) {
    let connection = json!({
        "provider": "main", "adapter": "openai", "secretKey": "sk-never-shown-again", "baseURL": url,
    });
    let path = "/api/public/llm-connections";
    let (status, response) = call(app, Method::PUT, path, connection).await;
    assert!(status == 200 || status == 201, "{response}");
    let judge = json!({
        "type": "plugin", "name": "politeness", "plugin": "perpend/judge", "evaluator": "judge",
        "config": {
            "prompt": "How polite is this?\n{{output}}", "seed": true,
            "output": { "dataType": "NUMERIC", "score": { "minValue": 0, "maxValue": 1 }, "reasoning": {} },
            "panel": { "repeats": 2, "reducer": "mean" },
        },
        "grants": ["model"],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": "gpt-4o-mini" } }],
    });
    let (status, made) = call(app, Method::POST, "/api/public/v2/evaluators", judge).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap();
    app.rule(evaluator, generations()).await.unwrap();
}

async fn kill_and_check(database: TempDatabase) {
    let url = match database.url() {
        DatabaseUrl::Sqlite(_) => "sqlite".to_owned(),
        DatabaseUrl::Postgres(raw) => raw.clone(),
    };
    let (provider, counts) = provider().await;
    let data = tempfile::tempdir().unwrap();
    let now = Breakpoints::default();
    let with = settings(&url);
    let app = TestApp::in_dir(data.path(), &with, TestClock::default(), now);
    let app = app.await.unwrap();
    connect(&app, &provider).await;
    // The judge was tried when it was saved and when its rule was switched on.
    counts.lock().unwrap().clear();
    app.stop().await.unwrap();
    let (mut n_kills, mut number) = (0, 0);
    let mut killed_at: BTreeMap<&str, u32> = BTreeMap::new();
    let min_kills = std::env::var("PERPEND_TEST_KILLS").ok();
    let min_kills = min_kills.map_or(N_KILLS, |n| n.parse().unwrap());
    while n_kills < min_kills {
        // An execution whose process was killed ten times in a row is given up: in between everything ends.
        let at = match number % 5 {
            4 => NOWHERE,
            _ => PLACES[(number / 5 + number % 5) as usize % PLACES.len()],
        };
        let n_before = match at {
            "asking: kept" => number / 4 % (N_REQUESTS as u32 * 2),
            _ => number / 4 % 2,
        };
        let dir = data.path().display();
        let order = format!("{number}|{at}|{n_before}|{url}|{dir}");
        let is_killed = tokio::task::spawn_blocking(move || run(&order));
        let is_killed = is_killed.await.unwrap();
        n_kills += u32::from(is_killed);
        *killed_at.entry(at).or_default() += u32::from(is_killed);
        number += 1;
        assert!(number < 3 * min_kills, "processes are not killed: {killed_at:?}");
    }
    eprintln!("{url}: {killed_at:?} in {number} processes");
    check(data.path(), &url, (number, min_kills), &counts).await;
}

/// `number`: processes; `n_kills`: those that were killed.
async fn check(data: &Path, url: &str, (number, n_kills): (u32, u32), counts: &RequestCounts) {
    let ahead = BETWEEN * (number + 2);
    let settings = settings(url);
    let app = TestApp::in_dir(data, &settings, TestClock::ahead(ahead), Breakpoints::default());
    let app = app.await.unwrap();
    let mut scores = BTreeMap::new();
    let all = "/api/public/v3/scores?fields=details,subject&limit=100";
    let mut path = all.to_owned();
    // A process that is killed over its first target sends no other.
    let (counters, is_done) = (counters(&app).await, done(number));
    app.wait_for(&counters, is_done).await.unwrap();
    loop {
        let page = app.client.get(&path).await.unwrap().json();
        for score in page["data"].as_array().unwrap() {
            assert_eq!(score["value"], json!(0.5), "{score}");
            let execution = score["origin"]["executionId"].as_str().unwrap();
            let before = scores.insert(execution.to_owned(), ());
            assert!(before.is_none(), "{execution} has two scores");
        }
        match page["meta"]["cursor"].as_str() {
            Some(cursor) => path = format!("{all}&cursor={cursor}"),
            None => break,
        }
    }
    let n_targets = scores.len();
    assert!(number as usize <= n_targets, "a score is missing");
    let costs =
        "/api/v1/model-costs?groupBy=model&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z";
    let costs = app.client.get(costs).await.unwrap().json();
    assert_eq!(count(&costs), 1, "{costs}");
    let (n_distinct, n_requests) = {
        let counts = counts.lock().unwrap();
        let n_requests: u64 = counts.values().map(|n| u64::from(*n)).sum();
        (counts.len() as u64, n_requests)
    };
    assert_eq!(n_distinct, (n_targets * N_REQUESTS) as u64);
    assert_eq!(
        costs["total"]["calls"].as_u64(),
        Some(n_distinct),
        "each request was paid for once"
    );
    // Both repeats of the judge may be under way when the server is killed.
    let n_again = n_requests - n_distinct;
    let most = u64::from(n_kills) * 2;
    assert!(0 < n_again && n_again <= most, "{n_again} of {n_requests} were repeated");
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_pays_for_no_reply_twice_and_loses_no_score() {
    if let Ok(order) = std::env::var(ORDER) {
        return process(&order).await;
    }
    let on_each = TempDatabase::each_migrated().await.into_iter();
    futures_util::future::join_all(on_each.map(kill_and_check)).await;
}
