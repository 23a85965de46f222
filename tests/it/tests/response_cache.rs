//! Stored replies of models over HTTP: equal requests of a project are sent once, and a stored reply is only read where
//! this is intended. The provider runs in the test, counts requests, and never repeats a reply.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test provider need no guard")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use perpend_db::DatabaseUrl;
use perpend_domain::time::Clock as _;
use perpend_it::{PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, generations, judge};

const CONNECTIONS: &str = "/api/public/llm-connections";
const EVALUATORS: &str = "/api/public/v2/evaluators";
const TRIAL: &str = "/api/v1/evaluations/trial";
const MODEL: &str = "gpt-4o-mini";
const PRIVATE: (&str, &str) = ("exports.private_endpoints", "127.0.0.1");
/// 100 tokens at 0.15 and 100 at 0.60 dollars for a million.
const COST: f64 = 0.000_075;
const DAY: Duration = Duration::from_secs(86_400);

/// A provider with the API of OpenAI, and the number of its requests.
struct Provider {
    url: String,
    n_requests: Arc<AtomicU32>,
}

fn replied(n: u32, request: &Value) -> Response {
    let prompt = request["messages"].to_string();
    if prompt.contains("busy") {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let refusal = prompt.contains("secret").then_some("I would rather not.");
    let score = if prompt.contains("unclear") { "7" } else { "0.5" };
    let content = format!(r#"{{"reasoning":"Reply {n}.","score":{score}}}"#);
    let message = json!({ "role": "assistant", "content": content, "refusal": refusal });
    Json(json!({
        "model": "gpt-4o-mini-2024",
        "choices": [{ "message": message, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 100, "completion_tokens": 100 },
    }))
    .into_response()
}

impl Provider {
    async fn start() -> Self {
        let n_requests = Arc::new(AtomicU32::new(0));
        let (counted, n_replies) = (Arc::clone(&n_requests), Arc::new(AtomicU32::new(0)));
        let answer = async move |Json(request): Json<Value>| {
            counted.fetch_add(1, Ordering::SeqCst);
            replied(n_replies.fetch_add(1, Ordering::SeqCst), &request)
        };
        let router = Router::new().route("/v1/chat/completions", post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, n_requests }
    }

    /// The number of requests since the last call.
    fn take_count(&self) -> u32 {
        self.n_requests.swap(0, Ordering::SeqCst)
    }

    fn connection(&self) -> Value {
        json!({
            "provider": "main", "adapter": "openai", "secretKey": "sk-never-shown-again", "baseURL": self.url,
        })
    }

    async fn connect(&self, app: &TestApp) -> String {
        put_connection(app, self.connection()).await
    }
}

async fn put_connection(app: &TestApp, connection: Value) -> String {
    let (status, response) = call(app, Method::PUT, CONNECTIONS, connection).await;
    assert!(status == 200 || status == 201, "{response}");
    response["id"].as_str().unwrap().to_owned()
}

/// A server with a connection to a provider.
async fn start(settings: &[(&'static str, &str)]) -> (TestApp, Provider) {
    let settings = [&[PRIVATE], settings].concat();
    let app = TestApp::with(&settings).await.unwrap();
    let provider = Provider::start().await;
    provider.connect(&app).await;
    (app, provider)
}

/// A judge with more configuration.
fn configured(more: Value) -> Value {
    let mut config = json!({
        "prompt": "How polite is this?\n{{output}}",
        "output": { "dataType": "NUMERIC", "score": { "minValue": 0, "maxValue": 1 }, "reasoning": {} },
    });
    let more = more.as_object().unwrap().clone();
    config.as_object_mut().unwrap().extend(more);
    json!({
        "type": "plugin", "name": "politeness", "plugin": "perpend/judge", "evaluator": "judge",
        "config": config, "grants": ["model"],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": MODEL },
                    "limits": { "maxOutputTokens": 100 } }],
    })
}

async fn saved(app: &TestApp, judge: Value) -> String {
    let (status, made) = call(app, Method::POST, EVALUATORS, judge).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn on_item(text: &str) -> Value {
    json!({ "evaluator": judge(Some(MODEL)), "item": { "output": text } })
}

async fn tried(app: &TestApp, trial: Value) -> Value {
    let (status, answer) = call(app, Method::POST, TRIAL, trial).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// The scores of each target, as text.
fn scores(trial: &Value) -> Vec<String> {
    let data = trial["data"].as_array().unwrap().iter();
    data.map(|result| result["scores"].to_string()).collect()
}

fn is_near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-12)
}

async fn ingest(app: &TestApp, n: u64, text: &str) -> Trace {
    let trace = Trace::new(n, "ticket").generation("answer", text);
    app.ingest(&trace).await.unwrap();
    trace
}

/// The execution that scored this trace.
async fn scored(app: &TestApp, trace: &Trace) -> Value {
    let path = format!("/api/public/v3/scores?fields=details,subject&traceId={}", trace.id);
    let scores = app.wait_for(&path, |scores| count(scores) == 1).await;
    let execution = scores.unwrap()["data"][0]["origin"]["executionId"].clone();
    let path = format!("/api/v1/executions/{}", execution.as_str().unwrap());
    app.client.get(&path).await.unwrap().json()
}

async fn on_postgres(story: impl AsyncFnOnce(&[(&'static str, &str)])) {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    story(&[("database.url", url.as_str())]).await;
}

async fn trial_story(settings: &[(&'static str, &str)]) {
    let (app, provider) = start(settings).await;
    let mut targets = Vec::new();
    for (n, text) in [(1, "Thank you for waiting."), (2, "How rude you are.")] {
        let trace = ingest(&app, n, text).await;
        targets.push(json!({ "traceId": trace.id, "observationId": Trace::span_id(2) }));
    }
    let trial = json!({ "evaluator": judge(Some(MODEL)), "targets": targets });
    let first = tried(&app, trial.clone()).await;
    assert_eq!(provider.take_count(), 2);
    assert!(is_near(&first["data"][0]["costUsd"], COST), "{first}");
    let exchange = &first["data"][0]["modelCalls"][0];
    let cost_fields = (&exchange["fromCache"], &exchange["savedUsd"]);
    assert_eq!(cost_fields, (&json!(false), &Value::Null));

    let second = tried(&app, trial.clone()).await;
    assert_eq!((provider.take_count(), scores(&second)), (0, scores(&first)));
    assert!(is_near(&second["data"][0]["costUsd"], 0.0), "{second}");
    let exchange = &second["data"][0]["modelCalls"][0];
    assert_eq!(exchange["fromCache"], true, "{second}");
    assert!(is_near(&exchange["savedUsd"], COST), "{second}");
    assert_eq!(exchange["modelAnswered"], "gpt-4o-mini-2024");
    assert_eq!(exchange["outputTokens"], 100, "what was once counted");

    // A fresh call gets another reply, which replaces the stored one.
    let mut fresh = trial.clone();
    fresh["fresh"] = json!(true);
    let third = tried(&app, fresh).await;
    assert_eq!(provider.take_count(), 2);
    assert_ne!(scores(&third), scores(&first));
    let fourth = tried(&app, trial.clone()).await;
    assert_eq!((provider.take_count(), scores(&fourth)), (0, scores(&third)));

    // Replies are believed for 30 days, and gone then.
    app.clock.advance(29 * DAY);
    app.app.jobs.run_once().await;
    tried(&app, trial.clone()).await;
    assert_eq!(provider.take_count(), 0);
    app.clock.advance(DAY + Duration::from_secs(1));
    tried(&app, trial.clone()).await;
    assert_eq!(provider.take_count(), 2, "expired");
    app.clock.advance(31 * DAY);
    app.app.jobs.run_once().await;
    let swept = app.app.store.ledger.sweep_replies(app.clock.now(), 1);
    assert_eq!(swept.await.unwrap(), 0, "nothing is left");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_equal_trial_uses_stored_replies_and_reports_savings_unless_fresh() {
    trial_story(&[]).await;
}

#[tokio::test]
async fn on_postgresql_an_equal_trial_uses_stored_replies() {
    on_postgres(trial_story).await;
}

async fn live_story(settings: &[(&'static str, &str)]) {
    let (app, provider) = start(settings).await;
    let evaluator = saved(&app, configured(json!({ "temperature": 0, "fence": false }))).await;
    let mut more = generations();
    // The budget covers one call and not two: a stored reply costs nothing.
    more["budget"] = json!([{ "window": "total", "usd": 1.5 * COST, "onReached": "skip" }]);
    app.rule(&evaluator, more).await.unwrap();
    provider.take_count();
    let paid = scored(&app, &ingest(&app, 1, "Thank you.").await).await;
    assert!(is_near(&paid["costUsd"], COST), "{paid}");
    let saved = scored(&app, &ingest(&app, 2, "Thank you.").await).await;
    assert_eq!(provider.take_count(), 1);
    let exchange = &saved["modelCalls"][0];
    assert!(is_near(&saved["costUsd"], 0.0), "{saved}");
    assert_eq!(exchange["fromCache"], true, "{saved}");
    assert!(is_near(&exchange["savedUsd"], COST), "{saved}");

    let costs = app.client.get("/api/v1/model-costs").await.unwrap().json();
    let sum = &costs["data"][0];
    assert_eq!((&sum["calls"], &sum["cachedCalls"]), (&json!(1), &json!(1)), "{costs}");
    assert_eq!(sum["outputTokens"], 100, "{costs}");
    assert!(is_near(&sum["costUsd"], COST) && is_near(&sum["savedUsd"], COST), "{costs}");
    assert_eq!(costs["total"]["savedUsd"], sum["savedUsd"]);

    let path = format!("/api/public/traces/{}", saved["id"].as_str().unwrap());
    let trace = app.client.get(&path).await.unwrap().json();
    let mut own = trace["observations"].as_array().unwrap().iter();
    let own = own.find(|own| own["type"] == "GENERATION").unwrap();
    assert_eq!(own["metadata"]["from_cache"], true, "{own}");
    assert!(is_near(&own["metadata"]["saved_usd"], COST), "{own}");
    assert!(is_near(&own["calculatedTotalCost"], 0.0), "{own}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn live_a_judge_at_temperature_0_pays_once_for_equal_targets_and_needs_no_budget_for_the_second()
 {
    live_story(&[]).await;
}

#[tokio::test]
async fn on_postgresql_a_judge_at_temperature_0_pays_once() {
    on_postgres(live_story).await;
}

#[tokio::test]
async fn in_worker_processes_a_judge_at_temperature_0_pays_once() {
    live_story(&[PROCESSES]).await;
}

#[tokio::test]
async fn live_a_judge_at_temperature_1_calls_for_each_target_and_a_trial_reads_stored_replies() {
    let (app, provider) = start(&[]).await;
    let evaluator = saved(&app, configured(json!({ "temperature": 1, "fence": false }))).await;
    app.rule(&evaluator, generations()).await.unwrap();
    provider.take_count();
    for n in [1, 2] {
        let shown = scored(&app, &ingest(&app, n, "Thank you.").await).await;
        assert_eq!(shown["modelCalls"][0]["fromCache"], false, "{shown}");
    }
    assert_eq!(provider.take_count(), 2);
    let target = json!({ "traceId": perpend_it::trace_id(2), "observationId": Trace::span_id(2) });
    tried(&app, json!({ "evaluatorId": evaluator, "targets": [target] })).await;
    assert_eq!(provider.take_count(), 0);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn repeats_of_a_panel_are_separate_calls_with_separate_stored_replies() {
    let (app, provider) = start(&[]).await;
    let panel = json!({ "panel": { "repeats": 3, "reducer": "mean" }, "temperature": 0 });
    let trial = json!({ "evaluator": configured(panel), "item": { "output": "Thank you." } });
    let first = tried(&app, trial.clone()).await;
    assert_eq!(provider.take_count(), 3);
    let votes = |trial: &Value| trial["data"][0]["scores"][0]["metadata"]["votes"].to_string();
    for n in 0..3 {
        let vote = format!("Reply {n}.");
        assert!(first.to_string().contains(&vote), "{vote} {first}");
    }
    let second = tried(&app, trial).await;
    assert_eq!((provider.take_count(), votes(&second)), (0, votes(&first)));
    assert_eq!(scores(&second), scores(&first));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn another_project_with_the_same_connection_is_answered_by_the_provider() {
    let (app, provider) = start(&[]).await;
    tried(&app, on_item("Thank you.")).await;
    assert_eq!(provider.take_count(), 1);
    let other = app.other_project().await.unwrap();
    let connection = provider.connection();
    let put = other.json(Method::PUT, CONNECTIONS, &connection).await;
    assert!(put.unwrap().status.is_success());
    let trial = on_item("Thank you.");
    for n_requests in [1, 0] {
        let answer = other.json(Method::POST, TRIAL, &trial).await;
        assert_eq!(answer.unwrap().status, StatusCode::OK);
        assert_eq!(provider.take_count(), n_requests);
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn failures_refusals_and_malformed_replies_are_not_stored() {
    let (app, provider) = start(&[]).await;
    for (text, class, n_requests) in [
        ("busy", "upstream_unavailable", 1),
        ("secret", "refused", 1),
        // Two retries.
        ("unclear", "malformed_output", 3),
    ] {
        for _ in 0..2 {
            let answer = tried(&app, on_item(text)).await;
            assert_eq!(answer["data"][0]["errorClass"], class, "{answer}");
            assert_eq!(provider.take_count(), n_requests, "{text}");
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn stored_replies_depend_on_address_headers_and_connection_and_not_on_the_key() {
    let (app, provider) = start(&[]).await;
    let expect_requests = async |n_requests: u32, why: &str| {
        tried(&app, on_item("Thank you.")).await;
        assert_eq!(provider.take_count(), n_requests, "{why}");
    };
    expect_requests(1, "the first time").await;
    let mut connection = provider.connection();
    connection["secretKey"] = json!("sk-another");
    put_connection(&app, connection.clone()).await;
    expect_requests(0, "another key").await;
    for value in ["one", "two"] {
        connection["extraHeaders"] = json!({ "x-route": value });
        put_connection(&app, connection.clone()).await;
        expect_requests(1, "another header").await;
        expect_requests(0, "the same header").await;
    }
    connection["baseURL"] = json!(format!("{}/", provider.url));
    put_connection(&app, connection.clone()).await;
    expect_requests(1, "another address").await;
    let id = put_connection(&app, connection.clone()).await;
    let one = format!("{CONNECTIONS}/{id}");
    assert_eq!(call(&app, Method::DELETE, &one, Value::Null).await.0, 200);
    put_connection(&app, connection).await;
    expect_requests(1, "a new connection").await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn with_a_lifetime_of_0_nothing_is_stored() {
    let (app, provider) = start(&[("evaluation.reply_cache_days", "0")]).await;
    for _ in 0..2 {
        tried(&app, on_item("Thank you.")).await;
        assert_eq!(provider.take_count(), 1);
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_check_is_free_the_second_time_and_its_runs_share_no_replies() {
    let (app, provider) = start(&[]).await;
    let evaluator = saved(&app, judge(Some(MODEL))).await;
    provider.take_count();
    let path = format!("/api/v1/evaluators/{evaluator}/check");
    let items =
        ["Thank you.", "Go away."].map(|text| json!({ "item": { "output": text }, "label": 0.5 }));
    let body = json!({ "items": items, "runs": 3, "plants": false });
    let mut fresh = body.clone();
    fresh["fresh"] = json!(true);
    for (body, n_requests) in [(&body, 6), (&body, 0), (&fresh, 6)] {
        let (status, check) = call(&app, Method::POST, &path, body.clone()).await;
        assert_eq!((status, provider.take_count()), (200, n_requests), "{check}");
        let (paid, saved) = (f64::from(n_requests) * COST, f64::from(6 - n_requests) * COST);
        assert!(is_near(&check["costUsd"], paid), "{check}");
        assert!(is_near(&check["savedUsd"], saved), "{check}");
        assert_eq!(check["latencyMedianMs"].is_null(), n_requests == 0, "{check}");
    }
    app.stop().await.unwrap();
}
