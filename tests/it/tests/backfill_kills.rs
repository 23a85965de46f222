//! Servers that are killed repeatedly during a backfill, on one database.
//!
//! The test starts itself as another process, which continues the backfill and aborts at a named point inside a
//! transaction. At the end each target has one score.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use perpend_db::{Breakpoints, DatabaseUrl};
use perpend_it::{TestApp, TestClock, Trace};
use perpend_storage::testing::TempDatabase;
use serde_json::json;

use crate::backfills::{disabled_rule, enable_after, ended, start};
use crate::judges::generations;

const N_TRACES: u64 = 3;
/// More than two pages of a backfill.
const PER_TRACE: u64 = 350;
const N_TARGETS: u64 = N_TRACES * PER_TRACE;
/// Set for the process that is killed: its number, the breakpoint, the number of times it is passed before, the backfill,
/// the database, the directory.
const ORDER: &str = "PERPEND_TEST_BACKFILL_KILL";
const NAME: &str = "backfill_kills::a_killed_server_continues_a_backfill_exactly";
/// Exit code of a test process with a failed test.
const PANICKED: i32 = 101;
/// Longer than a lease.
const BETWEEN: Duration = Duration::from_secs(600);
/// The breakpoint of each kill, and the number of times it is passed before.
const KILLS: [(&str, u32); 6] = [
    ("backfill: advanced", 0),
    ("backfill: made", 0),
    ("backfill: made", 1),
    ("finishing: scored", 1),
    ("backfill: advanced", 2),
    ("finishing: counted", 0),
];

fn settings(url: &str) -> Vec<(&'static str, &str)> {
    match url.starts_with("postgres") {
        true => vec![("database.url", url)],
        false => Vec::new(),
    }
}

/// Continues the backfill until it has ended, or until it is killed.
async fn process(order: &str) {
    let mut parts = order.splitn(6, '|');
    let mut part = || parts.next().unwrap();
    let number: u32 = part().parse().unwrap();
    let at = part().to_owned();
    let n_left = AtomicU32::new(part().parse().unwrap());
    let (backfill, url, data) = (part(), part(), part());
    let stops = Breakpoints::new(move |point| {
        if point == at && n_left.fetch_sub(1, Ordering::SeqCst) == 0 {
            std::process::abort();
        }
        false
    });
    let settings = settings(url);
    let clock = TestClock::ahead(BETWEEN * (number + 1));
    let app = TestApp::in_dir(Path::new(data), &settings, clock, stops).await.unwrap();
    ended(&app, backfill).await;
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
    assert_ne!(status.code(), Some(PANICKED), "the process panicked");
    !status.success()
}

async fn prepare(app: &TestApp) -> String {
    let config = json!({ "terms": ["Thank"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config).await.unwrap();
    let rule = disabled_rule(app, &evaluator, generations()).await;
    for n in 1..=N_TRACES {
        let mut trace = Trace::new(n, "ticket");
        for _ in 0..PER_TRACE {
            trace = trace.generation("answer", "Thank you.");
        }
        app.ingest(&trace).await.unwrap();
    }
    enable_after(app, &rule, N_TRACES * (PER_TRACE + 1)).await;
    start(app, &rule, json!({})).await
}

/// The observations of all scores, and the number of scores.
async fn scored(app: &TestApp) -> (BTreeSet<String>, u64) {
    let (mut observations, mut n_scores) = (BTreeSet::new(), 0);
    let mut cursor = String::new();
    loop {
        let path = format!("/api/public/v3/scores?fields=subject&limit=100{cursor}");
        let page = app.client.get(&path).await.unwrap().json();
        for score in page["data"].as_array().unwrap() {
            observations.insert(score["subject"].to_string());
            n_scores += 1;
        }
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (observations, n_scores),
        }
    }
}

async fn kill_and_check(database: TempDatabase) {
    let url = match database.url() {
        DatabaseUrl::Sqlite(_) => "sqlite".to_owned(),
        DatabaseUrl::Postgres(raw) => raw.clone(),
    };
    let data = tempfile::tempdir().unwrap();
    let settings = settings(&url);
    // The first process makes no step.
    let stops = Breakpoints::new(|point| point == "backfill: advanced");
    let clock = TestClock::default();
    let app = TestApp::in_dir(data.path(), &settings, clock, stops).await.unwrap();
    let backfill = prepare(&app).await;
    app.stop().await.unwrap();
    let mut n_kills = 0;
    for (number, (at, n_before)) in KILLS.into_iter().enumerate() {
        let folder = data.path().display();
        let order = format!("{number}|{at}|{n_before}|{backfill}|{url}|{folder}");
        let killed = tokio::task::spawn_blocking(move || is_killed(&order)).await.unwrap();
        n_kills += u32::from(killed);
    }
    assert!(3 <= n_kills, "the backfill ended after {n_kills} kills");
    let clock = TestClock::ahead(BETWEEN * (KILLS.len() as u32 + 2));
    let app = TestApp::in_dir(data.path(), &settings, clock, Breakpoints::default()).await.unwrap();
    let found = ended(&app, &backfill).await;
    assert_eq!(found["state"], "completed", "{found}");
    let all = json!(N_TARGETS);
    for name in ["itemCount", "executionCount", "completedCount"] {
        assert_eq!(found[name], all, "{name}: {found}");
    }
    assert_eq!(found["examinedCount"], json!(N_TARGETS + N_TRACES), "{found}");
    let (observations, n_scores) = scored(&app).await;
    assert_eq!((observations.len() as u64, n_scores), (N_TARGETS, N_TARGETS));
    assert_eq!(found["failedCount"], 0, "{found}");
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_continues_a_backfill_exactly() {
    if let Ok(order) = std::env::var(ORDER) {
        return process(&order).await;
    }
    let on_each = TempDatabase::each_migrated().await.into_iter();
    futures_util::future::join_all(on_each.map(kill_and_check)).await;
}
