//! Budgets of judges over HTTP: never passed by more than the calls under way, visible when they are spent, and nothing
//! is lost that waits for the next window.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
/// 50 tokens at 0.15 and 100 at 0.60 dollars per million: slightly less than the reservation.
const COST: f64 = 0.000_067_5;

fn replies(latency_ms: u64) -> Value {
    json!([
        { "contains": "busy", "error": { "status": 503 }, "latencyMs": latency_ms },
        { "reply": { "reasoning": "It thanks.", "score": 0.9 }, "latencyMs": latency_ms,
          "usage": { "input": 50, "output": 100 } },
    ])
}

/// A judge on the scripted provider, and a rule with this budget.
async fn judging(app: &TestApp, latency_ms: u64, budget: Value) -> (String, String) {
    connect(app, "main", replies(latency_ms)).await;
    let mut body = judge(Some("gpt-4o-mini"));
    body["limits"] = json!({ "maxOutputTokens": 100 });
    let (status, made) = call(app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap().to_owned();
    let mut more = generations();
    more["budget"] = budget;
    let rule = app.rule(&evaluator, more).await.unwrap();
    (evaluator, rule)
}

async fn send(app: &TestApp, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let text = if n % 7 == 3 { "We are busy." } else { "Thank you." };
        let trace = Trace::new(n, "ticket").generation("answer", text);
        app.ingest(&trace).await.unwrap();
    }
}

async fn spent(app: &TestApp) -> (f64, f64) {
    let budgets = app.client.get("/api/v1/budgets").await.unwrap().json();
    let number = |name: &str| budgets["data"][0][name].as_f64().unwrap();
    (number("spentUsd"), number("reservedUsd"))
}

/// Executions of scores with more than one exchange, for the message of a failed assertion.
async fn scored_twice(app: &TestApp) -> Vec<Value> {
    let scores = "/api/public/v3/scores?fields=details&limit=100";
    let scores = app.client.get(scores).await.unwrap().json();
    let mut found = Vec::new();
    for score in scores["data"].as_array().unwrap() {
        let id = score["origin"]["executionId"].as_str().unwrap();
        let execution = app.client.get(&format!("/api/v1/executions/{id}")).await;
        let execution = execution.unwrap().json();
        if execution["modelCalls"].as_array().is_some_and(|calls| 1 < calls.len()) {
            found.push(execution);
        }
    }
    found
}

async fn held_story(app: TestApp) {
    let limit = 5.5 * COST;
    let budget = json!([{ "window": "day", "usd": limit }]);
    let (_, rule) = judging(&app, 0, budget).await;
    send(&app, 100..120).await;
    let one = format!("{RULES}/{rule}");
    let paused = app.wait_for(&one, |rule| rule["status"] == "paused").await.unwrap();
    assert_eq!(paused["pausedReason"], "BUDGET_REACHED", "{paused}");
    let message = paused["pausedMessage"].as_str().unwrap();
    assert!(message.contains("resets at"), "{message}");
    // New targets are held too.
    send(&app, 120..125).await;
    // A lease would expire with the day, and a call under way would be repeated. A retry is held when it is due.
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    let is_quiet = |counters: &Value| {
        let n = |state: &str| counters["states"][state].as_u64().unwrap_or(0);
        let reasons = counters["data"].as_array().unwrap().iter();
        let made = reasons.filter(|counted| counted["reason"] == "made");
        let n_made: u64 = made.filter_map(|counted| counted["count"].as_u64()).sum();
        n_made == 25 && n("pending") + n("running") + n("delayed") == 0
    };
    app.wait_for(&counters, is_quiet).await.unwrap();
    let (used, reserved) = spent(&app).await;
    assert!(
        0.0 < used && used <= limit && reserved == 0.0,
        "{used} {reserved}, {:?}",
        scored_twice(&app).await
    );

    // On the next day scoring resumes, up to the limit again.
    app.clock.advance(Duration::from_secs(24 * 3_600));
    let has_more = |costs: &Value| 2 == count(costs);
    let days = "/api/v1/model-costs?groupBy=day&from=2020-01-01T00:00:00Z";
    app.wait_for(days, has_more).await.unwrap();
    let more = json!({ "budget": [{ "window": "day", "usd": 1_000.0 * COST }] });
    let (status, _) = call(&app, Method::PATCH, &one, more).await;
    assert_eq!(status, 200);
    let scores = app.scores(21).await.unwrap();
    assert_eq!(scores.len(), 21);
    let costs = "/api/v1/model-costs?groupBy=rule,model&from=2020-01-01T00:00:00Z";
    let costs = app.client.get(costs).await.unwrap().json();
    assert_eq!(count(&costs), 1, "{costs}");
    assert_eq!(costs["data"][0]["evaluationRuleId"], json!(rule), "{costs}");
    let total = costs["total"]["costUsd"].as_f64().unwrap();
    assert!(
        (total - 21.0 * COST).abs() < 1e-9,
        "each score is paid for once: {total}, {:?}",
        scored_twice(&app).await
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_spent_budget_holds_new_targets_until_it_is_renewed_and_loses_none() {
    held_story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_spent_budget_holds_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    held_story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_skipping_budget_reports_the_hours_with_lost_targets() {
    let app = TestApp::new().await.unwrap();
    let budget = json!([{ "window": "total", "usd": 2.5 * COST, "onReached": "skip" }]);
    let (_, rule) = judging(&app, 0, budget).await;
    send(&app, 200..203).await;
    app.scores(2).await.unwrap();
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    let skipped = |counters: &Value| counters["data"].to_string().contains("\"skipped\"");
    send(&app, 210..211).await;
    app.wait_for(&counters, skipped).await.unwrap();
    // Later targets get no execution and are counted as lost to the budget.
    let last = Trace::new(211, "ticket").generation("answer", "Thank you.");
    app.ingest(&last).await.unwrap();
    let lost = |counters: &Value| counters["data"].to_string().contains("\"budget\"");
    let counted = app.wait_for(&counters, lost).await.unwrap();
    let n_lost = counted["lostToBudget"][0]["count"].as_u64().unwrap();
    assert!(2 <= n_lost, "the skipped and the refused: {counted}");
    let observation = Trace::span_id(2);
    let explain = format!(
        "/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId={observation}",
        last.id
    );
    let explained = app.client.get(&explain).await.unwrap().json();
    let response = explained["explanation"].as_str().unwrap();
    assert!(response.contains("budget"), "{explained}");
    // A larger budget takes targets again.
    let more =
        json!({ "budget": [{ "window": "total", "usd": 1_000.0 * COST, "onReached": "skip" }] });
    let one = format!("{RULES}/{rule}");
    let (status, response) = call(&app, Method::PATCH, &one, more).await;
    assert_eq!(status, 200, "{response}");
    send(&app, 212..213).await;
    app.scores(3).await.unwrap();
    app.stop().await.unwrap();
}

#[tokio::test]
async fn fifty_judges_at_once_pass_no_budget_by_more_than_the_calls_under_way() {
    let app = TestApp::new().await.unwrap();
    let limit = 12.5 * COST;
    let budget = json!([{ "window": "month", "usd": limit }]);
    let (_, rule) = judging(&app, 20, budget).await;
    let connections = app.client.get("/api/public/llm-connections").await.unwrap();
    let id = connections.json()["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/llm-connections/{id}");
    let (status, _) = call(&app, Method::PATCH, &path, json!({ "maxInFlight": 50 })).await;
    assert_eq!(status, 200);
    send(&app, 300..380).await;
    let one = format!("{RULES}/{rule}");
    app.wait_for(&one, |rule| rule["status"] == "paused").await.unwrap();
    let is_still = |budgets: &Value| budgets["data"][0]["reservedUsd"] == 0.0;
    let budgets = app.wait_for("/api/v1/budgets", is_still).await.unwrap();
    let used = budgets["data"][0]["spentUsd"].as_f64().unwrap();
    // Reservations exceed the actual costs, so that calls under way do not exceed the limit.
    assert!(0.0 < used && used <= limit, "{budgets}");
    app.stop().await.unwrap();
}

/// The outputs of targets; each selects a behaviour of the provider.
const SAYINGS: [&str; 6] = [
    "Thank you.",
    "Thank you, though it was slow.",
    "That is odd.",
    "I refuse.",
    "We are busy.",
    "You are welcome.",
];

/// 5 and 100 tokens: less than the reservation of the shortest prompt.
const LEAST: f64 = 0.000_060_75;

fn random_replies() -> Value {
    let usage = json!({ "input": 5, "output": 100 });
    let good = json!({ "reasoning": "It thanks.", "score": 0.9 });
    json!([
        { "contains": "busy", "error": { "status": 503 }, "latencyMs": 5 },
        { "contains": "slow", "reply": good, "latencyMs": 60, "usage": usage },
        { "contains": "odd", "reply": "no JSON", "latencyMs": 10, "usage": usage },
        { "contains": "refuse", "reply": "", "finish": "content_filter", "usage": usage },
        { "reply": good, "latencyMs": 20, "usage": usage },
    ])
}

/// Fifty at once over sixty targets, each with a fate drawn from the seed, under a limit drawn from it too.
async fn random_story(app: TestApp, seed: u64) {
    let mut state = seed;
    let mut draw = move |below: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 11) % below
    };
    let limit = (draw(90) + 20) as f64 / 10.0 * LEAST;
    let budget = json!([{ "window": "month", "usd": limit }]);
    let (_, rule) = judging(&app, 0, budget).await;
    let id = connect(&app, "main", random_replies()).await;
    let path = format!("/api/v1/llm-connections/{id}");
    let (status, _) = call(&app, Method::PATCH, &path, json!({ "maxInFlight": 50 })).await;
    assert_eq!(status, 200);
    let mut n_good = 0;
    for n in 0..60 {
        let output = SAYINGS[draw(SAYINGS.len() as u64) as usize];
        n_good += u32::from(output.starts_with("Thank") || output.starts_with("You"));
        let trace = Trace::new(1_000 + n, "ticket").generation("answer", output);
        app.ingest(&trace).await.unwrap();
    }
    let one = format!("{RULES}/{rule}");
    let is_paused = |rule: &Value| rule["status"] == "paused";
    app.wait_for(&one, is_paused).await.unwrap();
    let is_still = |budgets: &Value| budgets["data"][0]["reservedUsd"] == 0.0;
    let budgets = app.wait_for("/api/v1/budgets", is_still).await.unwrap();
    let used = budgets["data"][0]["spentUsd"].as_f64().unwrap();
    // No call costs more than its reservation, so that calls under way do not exceed the limit.
    assert!(used <= limit, "seed {seed}: {used} of {limit}");
    let costs = app.client.get("/api/v1/model-costs").await.unwrap();
    let total = costs.json()["total"]["costUsd"].as_f64().unwrap_or(0.0);
    assert!((total - used).abs() < 1e-9, "seed {seed}: {total} and {used}");

    let more = json!({ "budget": [{ "window": "month", "usd": 1_000.0 * COST }] });
    let (status, _) = call(&app, Method::PATCH, &one, more).await;
    assert_eq!(status, 200);
    let scores = app.scores(n_good as usize).await.unwrap();
    assert_eq!(scores.len(), n_good as usize, "seed {seed}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn no_budget_is_exceeded_and_each_cost_is_counted_once() {
    for seed in 0..4 {
        random_story(TestApp::new().await.unwrap(), seed).await;
        let Some(database) = TempDatabase::postgres().await else {
            continue;
        };
        let DatabaseUrl::Postgres(url) = database.url() else {
            unreachable!("a PostgreSQL database was created");
        };
        let settings = [("database.url", url.as_str())];
        random_story(TestApp::with(&settings).await.unwrap(), 100 + seed).await;
    }
}

#[tokio::test]
async fn a_budget_that_cannot_be_kept_is_refused_when_it_is_saved() {
    let app = TestApp::new().await.unwrap();
    let (evaluator, rule) = judging(&app, 0, json!([])).await;
    let one = format!("{RULES}/{rule}");
    let day = |usd: f64| json!({ "window": "day", "usd": usd });
    for (budget, part) in [
        (json!([day(0.0)]), "budget[0].usd"),
        (json!([day(-1.0)]), "budget[0].usd"),
        (json!([day(1.0), day(2.0)]), "budget[1].window"),
        (json!([{ "window": "year", "usd": 1 }]), "budget[0].window"),
        (json!([{ "window": "day", "usd": 1, "onReached": "beg" }]), "budget[0].onReached"),
        (json!([{ "window": "day" }]), "usd"),
    ] {
        let body = json!({ "budget": budget });
        let (status, response) = call(&app, Method::PATCH, &one, body).await;
        assert!(status == 400 && response.to_string().contains(part), "{status} {response}");
    }
    // A model without a price.
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("home-made"))).await;
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/budgets/evaluators/{id}");
    let (status, response) = call(&app, Method::PUT, &path, json!({ "budget": [day(1.0)] })).await;
    assert!(status == 422 && response.to_string().contains("home-made"), "{status} {response}");
    for path in
        [format!("/api/v1/budgets/evaluators/{evaluator}"), "/api/v1/budgets/project".to_owned()]
    {
        let (status, response) =
            call(&app, Method::PUT, &path, json!({ "budget": [day(1.0)] })).await;
        assert_eq!(status, 200, "{response}");
    }
    let nobody = "/api/v1/budgets/evaluators/nobody";
    let (status, _) = call(&app, Method::PUT, nobody, json!({ "budget": [] })).await;
    assert_eq!(status, 404);
    let listed = app.client.get("/api/v1/budgets").await.unwrap().json();
    assert_eq!(count(&listed), 2, "{listed}");
    let gone = format!("{EVALUATORS}/{evaluator}");
    let (status, response) = call(&app, Method::DELETE, &gone, Value::Null).await;
    assert_eq!(status, 200, "{response}");
    let listed = app.client.get("/api/v1/budgets").await.unwrap().json();
    assert_eq!(count(&listed), 1, "a budget goes with its evaluator: {listed}");
    app.stop().await.unwrap();
}

/// Judges whose calls cost so much less than the output limit that a reservation of the limit would use up the budget.
#[tokio::test]
async fn a_budget_is_used_up_to_the_actual_costs_of_calls_and_not_to_their_limits() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", replies(0)).await;
    // Without an output limit, the reservation of a call is 36 times its cost.
    let (status, made) = call(&app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    assert_eq!(status, 200, "{made}");
    let limit = 12.5 * COST;
    let mut more = generations();
    more["budget"] = json!([{ "window": "day", "usd": limit }]);
    let rule = app.rule(made["id"].as_str().unwrap(), more).await.unwrap();
    send(&app, 400..430).await;
    let one = format!("{RULES}/{rule}");
    app.wait_for(&one, |rule| rule["status"] == "paused").await.unwrap();
    let is_still = |budgets: &Value| budgets["data"][0]["reservedUsd"] == 0.0;
    app.wait_for("/api/v1/budgets", is_still).await.unwrap();
    let (used, _) = spent(&app).await;
    assert!(limit - 1.5 * COST <= used && used <= limit, "{used}");
    // The calls made when the judge and the rule were saved count against no budget.
    let costs = app.client.get("/api/v1/model-costs").await.unwrap().json();
    let (total, trials) = (&costs["total"]["costUsd"], &costs["trials"]["costUsd"]);
    assert!((total.as_f64().unwrap() - used).abs() < 1e-9, "{costs}");
    assert!(COST / 2.0 < trials.as_f64().unwrap(), "{costs}");
    app.stop().await.unwrap();
}

/// Calls become dear at once, drawn from a seed.
async fn rising_story(seed: u64) {
    let app = TestApp::new().await.unwrap();
    let mut state = seed;
    let mut draw = move |below: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 11) % below
    };
    let (n_cheap, n_places, factor) = (draw(20), draw(8) + 1, draw(200) + 2);
    let good = json!({ "reasoning": "It thanks.", "score": 0.9 });
    let usage = |n: u64| json!({ "input": 50, "output": n });
    let script = json!([
        { "contains": "dear", "reply": good, "latencyMs": 20, "usage": usage(100 * factor) },
        { "reply": good, "latencyMs": 5, "usage": usage(100) },
    ]);
    let limit = (n_cheap + draw(20)) as f64 * COST + COST / 2.0;
    let budget = json!([{ "window": "month", "usd": limit }]);
    let (_, rule) = judging(&app, 0, budget).await;
    let id = connect(&app, "main", script).await;
    let path = format!("/api/v1/llm-connections/{id}");
    let places = json!({ "maxInFlight": n_places });
    let (status, _) = call(&app, Method::PATCH, &path, places).await;
    assert_eq!(status, 200);
    for n in 0..60 {
        let output = if n < n_cheap { "Thanks." } else { "My dear." };
        let trace = Trace::new(2_000 + n, "ticket").generation("answer", output);
        app.ingest(&trace).await.unwrap();
    }
    let one = format!("{RULES}/{rule}");
    app.wait_for(&one, |rule| rule["status"] == "paused").await.unwrap();
    let is_still = |budgets: &Value| budgets["data"][0]["reservedUsd"] == 0.0;
    app.wait_for("/api/v1/budgets", is_still).await.unwrap();
    let (used, _) = spent(&app).await;
    // 50 tokens at 0.15 and the others at 0.60 dollars for a million.
    let dear = (50.0 * 0.15 + 100.0 * factor as f64 * 0.6) / 1e6;
    let most = limit + n_places as f64 * dear;
    assert!(used <= most, "seed {seed}: {used} of {limit}, {n_places} x {dear}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn calls_that_become_dear_at_once_pass_a_budget_by_those_under_way_at_most() {
    for seed in 0..6 {
        rising_story(seed).await;
    }
}
