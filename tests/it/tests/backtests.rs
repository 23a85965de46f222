//! Backtests over HTTP: their results equal a recomputation, live scores stay as they are, and a killed server loses and
//! repeats nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::http::Method;
use perpend_db::Breakpoints;
use perpend_it::{KEYS, TestApp, TestClock, Trace, trace_id};
use serde_json::{Value, json};

use crate::backfills::{COST, on_postgres};
use crate::judges::{call, connect, generations, judge};

const BACKTESTS: &str = "/api/v1/backtests";
/// Before the traces of tests.
const FROM: &str = "2026-01-01T00:00:00Z";
const N_TRACES: u64 = 10;
const PER_TRACE: u64 = 20;
/// The length of the outputs that pass with the live version.
const MAX: u64 = 100;

/// An evaluator that passes outputs of at most [`MAX`] characters, and its rule.
async fn judged(app: &TestApp) -> (String, String) {
    let config = json!({ "max": MAX });
    let evaluator = app.evaluator("perpend/text", "length", config).await.unwrap();
    let rule = app.rule(&evaluator, generations()).await.unwrap();
    (evaluator, rule)
}

/// Sends traces whose outputs have the lengths from 1, and waits for their scores.
async fn scored(app: &TestApp, rule: &str, (n_traces, per_trace): (u64, u64)) {
    for n in 0..n_traces {
        let mut trace = Trace::new(n, "ticket");
        for each in 1..=per_trace {
            let length = n * per_trace + each;
            trace = trace.generation("answer", &"x".repeat(length as usize));
        }
        app.ingest(&trace).await.unwrap();
    }
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    let all = n_traces * per_trace;
    let is_scored = |counters: &Value| {
        let reasons = counters["data"].as_array().unwrap().iter();
        let completed = reasons.filter(|counted| counted["reason"] == "completed");
        completed.filter_map(|counted| counted["count"].as_u64()).sum::<u64>() == all
    };
    app.wait_for(&counters, is_scored).await.unwrap();
}

/// All scores with their ids, times and values.
async fn digest(app: &TestApp) -> BTreeSet<String> {
    let mut scores = BTreeSet::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/public/v3/scores?fields=details,subject&limit=100{cursor}");
        let page = app.client.get(&path).await.unwrap().json();
        scores.extend(page["data"].as_array().unwrap().iter().map(Value::to_string));
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return scores,
        }
    }
}

async fn start(app: &TestApp, evaluator: &str, more: Value) -> String {
    let mut body = json!({ "evaluatorId": evaluator, "from": FROM });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    let (status, started) = call(app, Method::POST, BACKTESTS, body).await;
    assert_eq!(status, 201, "{started}");
    started["id"].as_str().unwrap().to_owned()
}

async fn completed(app: &TestApp, id: &str) -> Value {
    let is_ended = |found: &Value| found["endedAt"].is_string();
    let found = app.wait_for(&format!("{BACKTESTS}/{id}"), is_ended).await.unwrap();
    assert_eq!(found["state"], "completed", "{found}");
    found
}

/// The targets of all flips, in the order of the list.
async fn flips(app: &TestApp, id: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{BACKTESTS}/{id}/flips?limit=7{cursor}");
        let page = app.client.get(&path).await.unwrap().json();
        let data = page["data"].as_array().unwrap();
        found
            .extend(data.iter().map(|flip| (text(&flip["traceId"]), text(&flip["observationId"]))));
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

/// The targets whose result differs if outputs from 10 to 120 characters pass.
fn recomputed() -> BTreeSet<(String, String)> {
    let lengths = 1..=N_TRACES * PER_TRACE;
    let differ = lengths.filter(|length| (10..=120).contains(length) != (*length <= MAX));
    // The root is the first span.
    let target = |length: u64| {
        let (n, point) = ((length - 1) / PER_TRACE, (length - 1) % PER_TRACE);
        (trace_id(n), Trace::span_id(point + 2))
    };
    differ.map(target).collect()
}

async fn threshold_story(app: TestApp) {
    let (evaluator, rule) = judged(&app).await;
    scored(&app, &rule, (N_TRACES, PER_TRACE)).await;
    let before = digest(&app).await;
    assert_eq!(before.len() as u64, N_TRACES * PER_TRACE);

    let id = start(&app, &evaluator, json!({ "config": { "min": 10, "max": 120 } })).await;
    let found = completed(&app, &id).await;
    assert_eq!((&found["itemCount"], &found["pairCount"]), (&json!(200), &json!(200)), "{found}");
    assert_eq!(found["unscoredCount"], N_TRACES, "the roots have no score: {found}");
    assert_eq!(found["tested"]["number"], Value::Null, "{found}");
    let expected = recomputed();
    let listed = flips(&app, &id).await;
    assert_eq!(listed.len(), expected.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
    let score = &found["scores"][0];
    let n_flips = expected.len() as u64;
    assert_eq!((&score["name"], &score["flipCount"]), (&json!("length"), &json!(n_flips)));
    let agreement = 1.0 - n_flips as f64 / 200.0;
    assert!((score["agreement"]["value"].as_f64().unwrap() - agreement).abs() < 1e-9, "{score}");
    assert!(score["agreement"]["lower"].as_f64().unwrap() < agreement, "{score}");
    // 20 results rise from 0 to 1, 9 fall.
    let difference = score["meanDifference"]["value"].as_f64().unwrap();
    assert!((difference - 11.0 / 200.0).abs() < 1e-9, "{score}");
    assert_eq!(digest(&app).await, before, "live scores are unchanged");

    let limited = start(&app, &evaluator, json!({ "ruleId": rule, "maxItems": 30 })).await;
    let limited = completed(&app, &limited).await;
    assert_eq!((&limited["itemCount"], &limited["reason"]), (&json!(30), &json!("max_items")));
    assert_eq!(limited["scores"][0]["flipCount"], 0, "it is the live version: {limited}");

    let path = format!("{BACKTESTS}/{id}/adopt");
    for _ in 0..2 {
        let (status, adopted) = call(&app, Method::POST, &path, json!({})).await;
        assert_eq!((status, &adopted["version"]), (200, &json!(2)), "{adopted}");
        assert_eq!(adopted["rules"][0]["id"], rule, "{adopted}");
    }
    let current = format!("/api/public/v2/evaluators/{evaluator}");
    let current = app.client.get(&current).await.unwrap().json();
    assert_eq!(current["version"], 2, "{current}");
    assert_eq!(digest(&app).await, before, "live scores are unchanged");
    let list = app.client.get(&format!("{BACKTESTS}?limit=1")).await.unwrap().json();
    assert_eq!(list["data"][0]["maxItems"], 30, "the newest comes first: {list}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_backtest_gives_the_flips_of_a_recomputation_and_keeps_live_scores() {
    Box::pin(threshold_story(TestApp::new().await.unwrap())).await;
}

#[tokio::test]
async fn on_postgresql_a_backtest_gives_the_flips_of_a_recomputation() {
    if let Some((app, _database)) = on_postgres().await {
        Box::pin(threshold_story(app)).await;
    }
}

#[tokio::test]
async fn a_backtest_of_labels_has_a_matrix_and_kappa_and_its_mapping_can_be_adopted() {
    let app = TestApp::new().await.unwrap();
    // Outputs with this text are long.
    let replies = |text: &str| {
        let reply = |score| json!({ "reasoning": "It was measured.", "score": score });
        json!([{ "contains": text, "reply": reply(true) }, { "reply": reply(false) }])
    };
    connect(&app, "main", replies("xxx")).await;
    let body = json!({
        "type": "plugin", "name": "long", "plugin": "perpend/judge", "evaluator": "judge",
        "config": {
            "prompt": "Is this long?\n{{output}}",
            "output": { "dataType": "BOOLEAN", "score": { "description": "It is long." } },
        },
        "grants": ["model"], "variableMapping": [{ "variable": "output", "source": "output" }],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": "m" } }],
    });
    let (status, made) = call(&app, Method::POST, "/api/public/v2/evaluators", body).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap();
    let rule = app.rule(evaluator, generations()).await.unwrap();
    scored(&app, &rule, (2, 2)).await;
    let refused = json!({ "evaluatorId": evaluator, "from": FROM, "target": "run" });
    let (status, refused) = call(&app, Method::POST, BACKTESTS, refused).await;
    assert_eq!(status, 400, "{refused}");
    connect(&app, "main", replies("xxxx")).await;
    let id = start(&app, evaluator, json!({ "fresh": true })).await;
    let found = completed(&app, &id).await;
    let score = &found["scores"][0];
    assert_eq!((&score["pairCount"], &score["flipCount"]), (&json!(4), &json!(1)), "{found}");
    assert_eq!(score["labels"], json!(["false", "true"]), "{score}");
    assert_eq!(score["confusion"], json!([[2, 0], [1, 1]]), "{score}");
    assert_eq!(score["isNumeric"], false, "{score}");
    assert!(score["kappa"].as_f64().is_some_and(|kappa| (kappa - 0.5).abs() < 1e-9), "{score}");

    let mapping = json!([{ "variable": "output", "source": "input" }]);
    let id = start(&app, evaluator, json!({ "variableMapping": mapping })).await;
    for change in ["cancel", "adopt"] {
        let path = format!("{BACKTESTS}/{id}/{change}");
        let (status, answer) = call(&app, Method::POST, &path, json!({})).await;
        assert_eq!(status, 200, "{change}: {answer}");
    }
    let current = format!("/api/public/v2/evaluators/{evaluator}");
    let current = app.client.get(&current).await.unwrap().json();
    assert_eq!(current["version"], 2, "{current}");
    assert_eq!(current["variableMapping"][0]["source"], "input", "{current}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_limit_of_dollars_is_required_with_a_budget_and_ends_a_backtest_with_its_calls_counted() {
    let app = TestApp::new().await.unwrap();
    let reply = json!({ "reasoning": "It thanks.", "score": 0.9 });
    let replies = json!([{ "reply": reply, "usage": { "input": 50, "output": 100 } }]);
    connect(&app, "main", replies).await;
    let mut body = judge(Some("gpt-4o-mini"));
    body["limits"] = json!({ "maxOutputTokens": 100 });
    let (status, made) = call(&app, Method::POST, "/api/public/v2/evaluators", body).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap();
    let rule = app.rule(evaluator, generations()).await.unwrap();
    scored(&app, &rule, (4, 1)).await;
    let budget = json!({ "budget": [{ "window": "total", "usd": 1_000.0 * COST }] });
    let budgets = format!("/api/v1/budgets/evaluators/{evaluator}");
    let (status, answer) = call(&app, Method::PUT, &budgets, budget).await;
    assert_eq!(status, 200, "{answer}");
    let unlimited = json!({ "evaluatorId": evaluator, "from": FROM });
    let (status, answer) = call(&app, Method::POST, BACKTESTS, unlimited).await;
    assert!(status == 400 && answer.to_string().contains("maxUsd"), "{status} {answer}");
    let estimated = json!({ "evaluatorId": evaluator, "from": FROM });
    let path = format!("{BACKTESTS}/estimate");
    let (status, estimate) = call(&app, Method::POST, &path, estimated).await;
    assert_eq!((status, &estimate["itemCount"]), (200, &json!(4)), "{estimate}");
    assert_eq!(estimate["basis"], "executions", "{estimate}");
    let cost = estimate["costUsd"].as_f64().unwrap();
    assert!((cost - 4.0 * COST).abs() < 1e-9 && estimate["seconds"].is_number(), "{estimate}");
    let limits = json!({ "fresh": true, "maxUsd": 2.5 * COST });
    let id = start(&app, evaluator, limits).await;
    let found = completed(&app, &id).await;
    assert_eq!((&found["itemCount"], &found["reason"]), (&json!(2), &json!("max_usd")), "{found}");
    for side in ["before", "after"] {
        assert_eq!(found[side]["callCount"], 2, "{side}: {found}");
        let cost = found[side]["costPerTargetUsd"].as_f64().unwrap();
        assert!((cost - COST).abs() < 1e-9, "{side}: {found}");
    }
    assert_eq!(found["scores"][0]["flipCount"], 0, "{found}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_killed_server_continues_a_backtest_exactly() {
    let data = tempfile::tempdir().unwrap();
    // The second step ends inside its transaction.
    let n_steps = AtomicU32::new(0);
    let stops = Breakpoints::new(move |point| {
        point == "backtest: advanced" && n_steps.fetch_add(1, Ordering::SeqCst) == 1
    });
    let clock = TestClock::default();
    let app = TestApp::in_dir(data.path(), &[], clock, stops).await.unwrap();
    let (evaluator, rule) = judged(&app).await;
    // More targets than one step takes.
    scored(&app, &rule, (1, 300)).await;
    let before = digest(&app).await;
    let id = start(&app, &evaluator, json!({ "config": { "max": 150 } })).await;
    let has_failed = |jobs: &Value| {
        let jobs = jobs["data"].as_array().unwrap();
        jobs.iter().any(|job| job["name"] == "backtests" && job["failures"] == 1)
    };
    app.wait_for("/api/v1/jobs", has_failed).await.unwrap();
    app.stop().await.unwrap();

    let clock = TestClock::ahead(Duration::from_secs(600));
    let app = TestApp::in_dir(data.path(), &[], clock, Breakpoints::default()).await.unwrap();
    let found = completed(&app, &id).await;
    for name in ["itemCount", "completedCount", "pairCount"] {
        assert_eq!(found[name], 300, "{name}: {found}");
    }
    assert_eq!(found["examinedCount"], 301, "{found}");
    let listed = flips(&app, &id).await;
    assert_eq!(listed.len(), 50, "outputs of 101 to 150 characters");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>().len(), 50);
    assert_eq!(digest(&app).await, before, "live scores are unchanged");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_command_reports_a_backtest_and_adopts_it_if_enough_values_agree() {
    let app = TestApp::new().await.unwrap();
    let (evaluator, rule) = judged(&app).await;
    scored(&app, &rule, (1, 4)).await;
    let run = async |args: &[&str]| {
        let all = [&["backtest", "length", "--from", "2026-01-01"][..], args].concat();
        let mut command = perpend_it::command(&all).unwrap();
        command
            .env("PERPEND_HOST", app.client.origin())
            .env("PERPEND_PUBLIC_KEY", KEYS.0)
            .env("PERPEND_SECRET_KEY", KEYS.1);
        let output = command.output().await.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), printed, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let current = async || {
        let path = format!("/api/public/v2/evaluators/{evaluator}");
        app.client.get(&path).await.unwrap().json()["version"].clone()
    };
    let (code, printed, errors) =
        run(&["--config", r#"{"max": 3}"#, "--adopt-if", "0.9", "--json"]).await;
    assert_eq!(code, Some(1), "{errors}");
    let found: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&found["pairCount"], current().await), (&json!(4), json!(1)), "{found}");
    let (code, printed, errors) = run(&["--config", r#"{"max": 3}"#, "--adopt-if", "0.7"]).await;
    assert_eq!((code, current().await), (Some(0), json!(2)), "{errors}");
    assert!(printed.contains("75.0 %") && printed.contains("flip length 1 -> 0"), "{printed}");
    let (code, _, errors) = run(&["--model", "small"]).await;
    assert_eq!(code, Some(3), "{errors}");
    app.stop().await.unwrap();
}
