//! Backfills over HTTP: which targets they evaluate, their limits, pauses and cancellations, and the command.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{KEYS, OTLP, TestApp, Trace, count, trace_id};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
const BACKFILLS: &str = "/api/v1/backfills";
/// Before the traces of tests.
const FROM: &str = "2026-01-01T00:00:00Z";
/// 50 tokens at 0.15 and 100 at 0.60 dollars for a million.
pub(crate) const COST: f64 = 0.000_067_5;

/// Sends a trace with a generation that starts `n` minutes after the others.
async fn send(app: &TestApp, n: u64) {
    let trace = Trace::new(n, "ticket").generation("answer", "Thank you.");
    let mut body = trace.attribute("perpend.observation.output", "Thank you.").to_json();
    let spans = &mut body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    for span in spans.as_array_mut().unwrap() {
        for name in ["startTimeUnixNano", "endTimeUnixNano"] {
            let sent: u64 = span[name].as_str().unwrap().parse().unwrap();
            span[name] = json!((sent + n * 60_000_000_000).to_string());
        }
    }
    let answer = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A disabled rule. It refuses targets until it is enabled.
pub(crate) async fn disabled_rule(app: &TestApp, evaluator: &str, mut more: Value) -> String {
    more["enabled"] = json!(false);
    app.rule(evaluator, more).await.unwrap()
}

/// Enables a rule once it has refused this number of targets.
pub(crate) async fn enable_after(app: &TestApp, rule: &str, n_refused: u64) {
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    let is_refused = |counters: &Value| {
        let reasons = counters["data"].as_array().unwrap().iter();
        let refused = reasons.filter(|counted| counted["reason"] == "rule_inactive");
        refused.filter_map(|counted| counted["count"].as_u64()).sum::<u64>() == n_refused
    };
    app.wait_for(&counters, is_refused).await.unwrap();
    let path = format!("{RULES}/{rule}");
    let (status, changed) = call(app, Method::PATCH, &path, json!({ "enabled": true })).await;
    assert_eq!(status, 200, "{changed}");
}

/// Starts a backfill of all stored targets; `more` are further members.
pub(crate) async fn start(app: &TestApp, rule: &str, more: Value) -> String {
    let mut body = json!({ "ruleId": rule, "from": FROM });
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    let (status, started) = call(app, Method::POST, BACKFILLS, body).await;
    assert_eq!(status, 201, "{started}");
    started["id"].as_str().unwrap().to_owned()
}

pub(crate) async fn ended(app: &TestApp, id: &str) -> Value {
    let is_ended = |found: &Value| found["endedAt"].is_string() && found["openCount"] == 0;
    app.wait_for(&format!("{BACKFILLS}/{id}"), is_ended).await.unwrap()
}

async fn completed(app: &TestApp, rule: &str, more: Value) -> Value {
    let id = start(app, rule, more).await;
    let found = ended(app, &id).await;
    assert_eq!(found["state"], "completed", "{found}");
    found
}

async fn contains(app: &TestApp) -> String {
    app.evaluator("perpend/text", "contains-any", json!({ "terms": ["Thank"] })).await.unwrap()
}

/// A server on PostgreSQL, with its database.
pub(crate) async fn on_postgres() -> Option<(TestApp, TempDatabase)> {
    let database = TempDatabase::postgres().await?;
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("the database is PostgreSQL");
    };
    let settings = [("database.url", url.as_str())];
    let app = TestApp::with(&settings).await.unwrap();
    Some((app, database))
}

/// The executions of all scores, by trace.
async fn scored_by(app: &TestApp, n: usize) -> Vec<(String, String)> {
    let scores = app.scores(n).await.unwrap();
    assert_eq!(scores.len(), n, "{scores:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut found: Vec<(String, String)> = scores
        .iter()
        .map(|score| (text(&score["subject"]["traceId"]), text(&score["origin"]["executionId"])))
        .collect();
    found.sort();
    found
}

async fn modes_story(app: TestApp) {
    let evaluator = contains(&app).await;
    let rule = disabled_rule(&app, &evaluator, generations()).await;
    for n in 1..=8 {
        send(&app, n).await;
    }
    let body = json!({ "ruleId": rule, "from": FROM });
    let (status, refused) = call(&app, Method::POST, BACKFILLS, body).await;
    assert_eq!(status, 409, "{refused}");
    // Each trace has a root and a generation.
    enable_after(&app, &rule, 16).await;
    for n in 9..=11 {
        send(&app, n).await;
    }
    let live = scored_by(&app, 3).await;

    let filled = completed(&app, &rule, json!({})).await;
    assert_eq!((&filled["itemCount"], &filled["presentCount"]), (&json!(8), &json!(3)), "{filled}");
    assert_eq!(filled["refusedCount"], 11, "the roots are no generations: {filled}");
    assert_eq!((&filled["completedCount"], &filled["examinedCount"]), (&json!(8), &json!(22)));
    let all = scored_by(&app, 11).await;
    assert!(live.iter().all(|one| all.contains(one)), "live scores are kept");
    let again = completed(&app, &rule, json!({})).await;
    assert_eq!((&again["itemCount"], &again["presentCount"]), (&json!(0), &json!(11)), "{again}");

    let rescored = completed(&app, &rule, json!({ "mode": "rescore" })).await;
    assert_eq!((&rescored["itemCount"], &rescored["presentCount"]), (&json!(11), &json!(0)));
    let new = scored_by(&app, 11).await;
    assert!(new.iter().all(|one| !all.contains(one)), "each target has the new score only");
    let older = format!("/api/v1/executions/{}", all[0].1);
    let older = app.client.get(&older).await.unwrap().json();
    assert_eq!(older["supersededScores"].as_array().map(Vec::len), Some(1), "{older}");

    // A new version of the evaluator has no results.
    let version = json!({
        "type": "plugin", "plugin": "perpend/text", "evaluator": "contains-any",
        "config": { "terms": ["you"] },
    });
    let path = format!("{EVALUATORS}/{evaluator}");
    let (status, changed) = call(&app, Method::PATCH, &path, version).await;
    assert_eq!(status, 200, "{changed}");
    let filled = completed(&app, &rule, json!({ "maxItems": 4 })).await;
    assert_eq!((&filled["itemCount"], &filled["reason"]), (&json!(4), &json!("max_items")));
    let newest = scored_by(&app, 11).await;
    let changed: Vec<&str> =
        newest.iter().filter(|one| !new.contains(one)).map(|(trace, _)| trace.as_str()).collect();
    let latest: Vec<String> = (8..=11).map(trace_id).collect();
    assert_eq!(changed, latest, "the newest come first");
    let listed = app.client.get("/api/v1/backfills?limit=3").await.unwrap().json();
    assert_eq!(count(&listed), 3, "{listed}");
    assert_eq!(listed["data"][0]["maxItems"], 4, "the newest comes first: {listed}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_backfill_fills_missing_scores_of_the_version_or_rescores_all() {
    Box::pin(modes_story(TestApp::new().await.unwrap())).await;
}

#[tokio::test]
async fn on_postgresql_a_backfill_fills_and_rescores_as_on_sqlite() {
    if let Some((app, _database)) = on_postgres().await {
        Box::pin(modes_story(app)).await;
    }
}

/// A judge on the scripted provider, and its rule, which is enabled after all traces were refused.
async fn judging(app: &TestApp, mut more: Value, n_traces: u64) -> String {
    connect(app, "main", good()).await;
    let mut body = judge(Some("gpt-4o-mini"));
    body["limits"] = json!({ "maxOutputTokens": 100 });
    let (status, made) = call(app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{made}");
    if let (Value::Object(more), Value::Object(filter)) = (&mut more, generations()) {
        more.extend(filter);
    }
    let rule = disabled_rule(app, made["id"].as_str().unwrap(), more).await;
    for n in 1..=n_traces {
        // Equal prompts would be answered by the cache.
        let output = format!("Thank you, number {n}.");
        app.ingest(&Trace::new(n, "ticket").generation("answer", &output)).await.unwrap();
    }
    enable_after(app, &rule, 2 * n_traces).await;
    rule
}

fn good() -> Value {
    json!([{ "reply": { "reasoning": "It thanks.", "score": 0.9 },
             "usage": { "input": 50, "output": 100 } }])
}

async fn dollars_story(app: TestApp) {
    let rule = judging(&app, json!({}), 12).await;
    let body = json!({ "ruleId": rule, "from": FROM, "maxUsd": 0 });
    let (status, refused) = call(&app, Method::POST, BACKFILLS, body).await;
    assert_eq!(status, 400, "{refused}");
    let limited = completed(&app, &rule, json!({ "maxUsd": 5.5 * COST })).await;
    assert_eq!((&limited["itemCount"], &limited["reason"]), (&json!(5), &json!("max_usd")));
    let cost = limited["costUsd"].as_f64().unwrap();
    assert!((cost - 5.0 * COST).abs() < 1e-9, "{limited}");

    let rest = json!({ "ruleId": rule, "from": FROM });
    let path = format!("{BACKFILLS}/estimate");
    let (status, estimate) = call(&app, Method::POST, &path, rest).await;
    assert_eq!((status, &estimate["itemCount"]), (200, &json!(7)), "{estimate}");
    assert_eq!((&estimate["presentCount"], &estimate["isWhole"]), (&json!(5), &json!(true)));
    let cost = estimate["costUsd"].as_f64().unwrap();
    assert!((cost - 7.0 * COST).abs() < 1e-9, "{estimate}");
    assert!(estimate["seconds"].is_number(), "{estimate}");
    let rest = completed(&app, &rule, json!({})).await;
    assert_eq!((&rest["itemCount"], &rest["reason"]), (&json!(7), &Value::Null), "{rest}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_limit_of_dollars_is_kept_and_the_rest_costs_the_estimated_amount() {
    Box::pin(dollars_story(TestApp::new().await.unwrap())).await;
}

#[tokio::test]
async fn on_postgresql_a_limit_of_dollars_is_kept_as_on_sqlite() {
    if let Some((app, _database)) = on_postgres().await {
        Box::pin(dollars_story(app)).await;
    }
}

async fn changed(app: &TestApp, id: &str, change: &str) -> (u16, Value) {
    call(app, Method::POST, &format!("{BACKFILLS}/{id}/{change}"), json!({})).await
}

async fn pause_story(app: TestApp) {
    // The clock is stopped, so that no failed attempt is repeated.
    let failing = json!([{ "error": { "status": 503 } }]);
    let rule = judging(&app, json!({}), 4).await;
    connect(&app, "main", failing).await;
    app.clock.stop();
    let id = start(&app, &rule, json!({})).await;
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    let is_waiting = |counters: &Value| counters["states"]["delayed"] == 4;
    app.wait_for(&counters, is_waiting).await.unwrap();
    let (status, paused) = changed(&app, &id, "pause").await;
    assert_eq!((status, &paused["state"]), (200, &json!("paused")), "{paused}");
    let (status, again) = changed(&app, &id, "pause").await;
    assert_eq!((status, &again["state"]), (200, &json!("paused")), "{again}");

    // Executions of a paused backfill are never due. Another backfill of the rule does not take them.
    app.clock.advance(Duration::from_secs(3_600));
    connect(&app, "main", good()).await;
    let other = completed(&app, &rule, json!({})).await;
    assert_eq!((&other["itemCount"], &other["presentCount"]), (&json!(0), &json!(4)), "{other}");
    let paused = app.client.get(&format!("{BACKFILLS}/{id}")).await.unwrap().json();
    assert_eq!((&paused["state"], &paused["openCount"]), (&json!("paused"), &json!(4)));
    assert_eq!(paused["costUsd"], 0.0, "{paused}");

    let (status, resumed) = changed(&app, &id, "resume").await;
    assert_eq!((status, &resumed["state"]), (200, &json!("running")), "{resumed}");
    let completed = ended(&app, &id).await;
    assert_eq!((&completed["completedCount"], &completed["failedCount"]), (&json!(4), &json!(0)));
    let (status, refused) = changed(&app, &id, "pause").await;
    assert_eq!(status, 409, "{refused}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_paused_backfill_makes_no_call_until_it_is_resumed() {
    Box::pin(pause_story(TestApp::new().await.unwrap())).await;
}

#[tokio::test]
async fn on_postgresql_a_backfill_is_paused_and_resumed_as_on_sqlite() {
    if let Some((app, _database)) = on_postgres().await {
        Box::pin(pause_story(app)).await;
    }
}

async fn cancel_story(app: TestApp) {
    // Too little for one call, so that executions are held.
    let budget = json!({ "budget": [{ "window": "day", "usd": 1e-9 }] });
    let rule = judging(&app, budget, 6).await;
    let id = start(&app, &rule, json!({})).await;
    let one = format!("{BACKFILLS}/{id}");
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    app.wait_for(&counters, |counters| counters["states"]["held"] == 6).await.unwrap();
    let (status, cancelled) = changed(&app, &id, "cancel").await;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")), "{cancelled}");
    let cancelled = ended(&app, &id).await;
    assert_eq!((&cancelled["cancelledCount"], &cancelled["costUsd"]), (&json!(6), &json!(0.0)));
    let (status, refused) = changed(&app, &id, "resume").await;
    assert_eq!(status, 409, "{refused}");

    // A paused rule makes a backfill wait, and a cancelled target has no score.
    let id = start(&app, &rule, json!({})).await;
    let one_of_it = format!("{BACKFILLS}/{id}");
    app.wait_for(&one_of_it, |found| found["reason"] == "rule_paused").await.unwrap();
    let more = json!({ "budget": [{ "window": "day", "usd": 1 }] });
    let (status, patched) = call(&app, Method::PATCH, &format!("{RULES}/{rule}"), more).await;
    assert_eq!(status, 200, "{patched}");
    let filled = ended(&app, &id).await;
    assert_eq!((&filled["completedCount"], &filled["reason"]), (&json!(6), &Value::Null));
    let still = app.client.get(&one).await.unwrap().json();
    assert_eq!(still["state"], "cancelled", "{still}");
    // A backfill of a deleted rule is refused.
    let (status, deleted) = call(&app, Method::DELETE, &format!("{RULES}/{rule}"), json!({})).await;
    assert_eq!(status, 200, "{deleted}");
    let body = json!({ "ruleId": rule, "from": FROM });
    let (status, refused) = call(&app, Method::POST, BACKFILLS, body).await;
    assert_eq!(status, 404, "{refused}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_backfill_cancels_waiting_executions_and_another_one_completes_it() {
    Box::pin(cancel_story(TestApp::new().await.unwrap())).await;
}

#[tokio::test]
async fn on_postgresql_a_backfill_is_cancelled_as_on_sqlite() {
    if let Some((app, _database)) = on_postgres().await {
        Box::pin(cancel_story(app)).await;
    }
}

#[tokio::test]
async fn whole_traces_and_sessions_are_backfilled_in_a_range_with_a_filter() {
    let app = TestApp::new().await.unwrap();
    for n in 1..=3 {
        let trace = Trace::new(n, if n == 3 { "other" } else { "ticket" });
        let trace = trace.attribute("perpend.observation.output", "Thank you.");
        app.ingest(&trace.attribute("session.id", "talk")).await.unwrap();
    }
    let evaluator = contains(&app).await;
    let whole = json!({ "target": "trace", "quietMs": 0 });
    let rule = app.rule(&evaluator, whole).await.unwrap();
    let name = json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": ["ticket"] }]);
    let filled = completed(&app, &rule, json!({ "filter": name })).await;
    assert_eq!((&filled["completedCount"], &filled["refusedCount"]), (&json!(2), &json!(1)));
    assert_eq!(filled["targetCount"], 3, "{filled}");
    let early = completed(&app, &rule, json!({ "to": "2026-01-02T00:00:00Z" })).await;
    assert_eq!(early["examinedCount"], 0, "{early}");
    let wrong = json!([{ "type": "stringOptions", "column": "colour", "operator": "any of", "value": ["x"] }]);
    let body = json!({ "ruleId": rule, "from": FROM, "filter": wrong });
    let (status, refused) = call(&app, Method::POST, BACKFILLS, body).await;
    assert_eq!(status, 400, "{refused}");

    let talks = json!({
        "name": "talks", "enabled": true, "target": "session", "quietMs": 0,
        "evaluatorAssignments": [{
            "evaluatorId": evaluator,
            "variableMapping": [{ "variable": "output", "source": "session.thread" }],
        }],
    });
    let (status, made) = call(&app, Method::POST, RULES, talks).await;
    assert_eq!(status, 200, "{made}");
    let filled = completed(&app, made["id"].as_str().unwrap(), json!({})).await;
    assert_eq!(
        (&filled["itemCount"], &filled["examinedCount"]),
        (&json!(1), &json!(1)),
        "{filled}"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn chosen_targets_are_scored_whether_or_not_the_rule_matches_them() {
    let app = TestApp::new().await.unwrap();
    let evaluator = contains(&app).await;
    let none = json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": ["none"] }]);
    let more = json!({ "filter": none, "sampling": 0.000_001 });
    let rule = disabled_rule(&app, &evaluator, more).await;
    for n in 1..=2 {
        send(&app, n).await;
    }
    enable_after(&app, &rule, 4).await;
    let chosen = |n: u64| json!({ "traceId": trace_id(n), "observationId": Trace::span_id(2) });
    let path = format!("/api/v1/evaluation-rules/{rule}/run");
    let body = json!({ "targets": [chosen(1), chosen(1), chosen(2), chosen(9)] });
    let (status, run) = call(&app, Method::POST, &path, body.clone()).await;
    assert_eq!((status, &run["itemCount"], &run["missingCount"]), (200, &json!(2), &json!(1)));
    let scored = scored_by(&app, 2).await;
    let ids: Vec<&str> =
        run["executionIds"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(scored.iter().all(|(_, execution)| ids.contains(&execution.as_str())), "{run}");
    let (_, again) = call(&app, Method::POST, &path, body).await;
    assert_eq!((&again["itemCount"], &again["presentCount"]), (&json!(0), &json!(2)), "{again}");
    let body = json!({ "targets": [chosen(1)], "mode": "rescore" });
    let (_, rescored) = call(&app, Method::POST, &path, body).await;
    let execution = rescored["executionIds"][0].as_str().unwrap();
    let one = format!("/api/v1/executions/{execution}");
    app.wait_for(&one, |found| found["state"] == "completed").await.unwrap();
    let scored = scored_by(&app, 2).await;
    assert!(scored.iter().any(|(_, by)| by == execution), "{scored:?}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_command_estimates_runs_and_reports_a_backfill() {
    let app = TestApp::new().await.unwrap();
    let evaluator = contains(&app).await;
    let mut named = generations();
    named["name"] = json!("thankful");
    let rule = disabled_rule(&app, &evaluator, named).await;
    for n in 1..=3 {
        send(&app, n).await;
    }
    enable_after(&app, &rule, 6).await;
    let run = async |args: &[&str]| {
        let all = [&["backfill", "thankful", "--from", "2026-01-01", "--json"][..], args].concat();
        let mut command = perpend_it::command(&all).unwrap();
        command
            .env("PERPEND_HOST", app.client.origin())
            .env("PERPEND_PUBLIC_KEY", KEYS.0)
            .env("PERPEND_SECRET_KEY", KEYS.1);
        let output = command.output().await.unwrap();
        let printed = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.code(), printed, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, estimate, errors) = run(&["--dry-run"]).await;
    assert_eq!((code, &estimate["itemCount"]), (Some(0), &json!(3)), "{errors}");
    let (code, found, errors) = run(&["--limit", "2"]).await;
    assert_eq!((code, &found["completedCount"]), (Some(0), &json!(2)), "{errors}");
    let (code, found, errors) = run(&["--mode", "rescore"]).await;
    assert_eq!((code, &found["completedCount"]), (Some(0), &json!(3)), "{errors}");
    let (code, _, errors) = run(&["--to", "yesterday"]).await;
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("yesterday"), "{errors}");
    app.stop().await.unwrap();
}
