//! Judges that wait for slots of a busy connection: the order of slots, and the cost of waiting.
//!
//! The provider holds each request until the test releases it, so that assertions depend on the order of requests only.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test provider need no guard")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Method;
use axum::routing::post;
use axum::{Json, Router};
use perpend_it::{PROCESSES, TestApp, Trace};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::judge_kills::PRIVATE;
use crate::judges::{call, judge};

const CONNECTIONS: &str = "/api/public/llm-connections";
const EVALUATORS: &str = "/api/public/v2/evaluators";
/// The default number of slots of a connection.
const N_PLACES: usize = 8;

/// A request that arrived, and the signal on which it is answered.
struct Arrival {
    request: Value,
    release: oneshot::Sender<()>,
}

impl Arrival {
    fn has(&self, text: &str) -> bool {
        self.request.to_string().contains(text)
    }
}

struct Provider {
    url: String,
    holds: Arc<AtomicBool>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

impl Provider {
    /// Responds at once until [`Self::hold`].
    async fn start() -> Self {
        let holds = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = mpsc::unbounded_channel();
        let is_holding = Arc::clone(&holds);
        let answer = async move |Json(request): Json<Value>| {
            if is_holding.load(Ordering::SeqCst) {
                let (release, released) = oneshot::channel();
                sender.send(Arrival { request, release }).unwrap();
                // Released or left alone at the end of the test.
                drop(released.await);
            }
            let content = r#"{"reasoning":"It thanks.","score":0.5}"#;
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
        Self { url, holds, arrivals }
    }

    fn hold(&self) {
        self.holds.store(true, Ordering::SeqCst);
    }

    async fn next(&mut self) -> Arrival {
        self.arrivals.recv().await.unwrap()
    }

    /// The next requests, all of which are held at the same time.
    async fn take(&mut self, n: usize) -> Vec<Arrival> {
        let mut arrivals = Vec::with_capacity(n);
        for _ in 0..n {
            arrivals.push(self.next().await);
        }
        arrivals
    }
}

fn release(arrivals: impl IntoIterator<Item = Arrival>) {
    for arrival in arrivals {
        arrival.release.send(()).unwrap();
    }
}

async fn connect(app: &TestApp, url: &str) -> String {
    let connection = json!({
        "provider": "main", "adapter": "openai", "secretKey": "sk-never-shown-again", "baseURL": url,
    });
    let (status, made) = call(app, Method::PUT, CONNECTIONS, connection).await;
    assert!(status == 200 || status == 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn named(name: &str) -> Value {
    let mut body = judge(Some("gpt-4o-mini"));
    body["name"] = json!(name);
    body
}

/// A judge, and a rule that applies it to generations of this name.
async fn judging(app: &TestApp, name: &str, more: Value) -> String {
    let (status, made) = call(app, Method::POST, EVALUATORS, named(name)).await;
    assert_eq!(status, 200, "{made}");
    let mut rule = json!({ "filter": [
        { "type": "string", "column": "name", "operator": "=", "value": name },
    ] });
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    app.rule(made["id"].as_str().unwrap(), rule).await.unwrap()
}

/// Waits until so many requests wait for a slot while all slots are taken.
async fn until_waiting(app: &TestApp, connection: &str, n: usize) {
    let is_reached = |_: &Value| {
        let used = app.app.llm.connection_usage(connection);
        used.n_waiting == n && used.n_in_flight == N_PLACES
    };
    app.wait_for("/api/public/health", is_reached).await.unwrap();
}

async fn ingest(app: &TestApp, name: &str, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let trace = Trace::new(n, "ticket").generation(name, &format!("Thank you, says {name}."));
        app.ingest(&trace).await.unwrap();
    }
}

/// A client of its own, so that the test can continue while the response is pending.
fn request(
    app: &TestApp,
    path: &'static str,
    body: Value,
) -> tokio::task::JoinHandle<(u16, Value)> {
    let client = app.client.clone();
    tokio::spawn(async move {
        let answer = client.json(Method::POST, path, &body).await.unwrap();
        (answer.status.into(), answer.json())
    })
}

async fn crowded_story(app: TestApp) {
    const N_TARGETS: u64 = 200;
    let mut provider = Provider::start().await;
    let connection = connect(&app, &provider.url).await;
    judging(&app, "crowd", json!({})).await;
    judging(&app, "other", json!({})).await;
    provider.hold();
    ingest(&app, "crowd", 1..N_TARGETS + 1).await;
    let mut held = VecDeque::from(provider.take(N_PLACES).await);
    until_waiting(&app, &connection, N_TARGETS as usize - N_PLACES).await;

    ingest(&app, "other", 1_000..1_001).await;
    let trial = json!({
        "evaluator": named("tried"), "item": { "output": "Thank you, says the trial." },
    });
    let trial = request(&app, "/api/v1/evaluations/trial", trial);
    let mut saved = named("saved");
    saved["prompt"] = json!("This one is saved. How polite is this answer?\n{{output}}");
    let saved = request(&app, EVALUATORS, saved);
    until_waiting(&app, &connection, N_TARGETS as usize - N_PLACES + 3).await;

    release(held.drain(..));
    let round = provider.take(N_PLACES).await;
    for text in ["says other", "says the trial", "This one is saved"] {
        let n = round.iter().filter(|arrival| arrival.has(text)).count();
        assert_eq!(n, 1, "{text:?} is not among the next {N_PLACES} requests");
    }
    release(round);
    for _ in 2 * N_PLACES..N_TARGETS as usize + 3 {
        release([provider.next().await]);
    }
    let (status, tried) = trial.await.unwrap();
    assert_eq!(status, 200, "{tried}");
    assert_eq!(tried["data"][0]["scores"][0]["value"], 0.5, "{tried}");
    let (status, made) = saved.await.unwrap();
    assert_eq!(status, 200, "{made}");

    // Each target has its score, from one attempt and one request.
    let n_scored = |answer: &Value| answer["meta"]["totalItems"].as_u64();
    let scores = "/api/public/v2/scores?limit=1";
    let is_complete = |answer: &Value| n_scored(answer) == Some(N_TARGETS + 1);
    app.wait_for(scores, is_complete).await.unwrap();
    let costs = app.client.get("/api/v1/model-costs?groupBy=rule").await;
    let costs = costs.unwrap().json();
    let rows = costs["data"].as_array().unwrap().iter();
    let of_rules = rows.filter(|row| row["evaluationRuleId"].is_string());
    let n_calls: u64 = of_rules.map(|row| row["calls"].as_u64().unwrap()).sum();
    assert_eq!(n_calls, N_TARGETS + 1, "{costs}");
    assert_eq!(costs["total"]["failedCalls"], 0, "{costs}");
    assert!(provider.arrivals.try_recv().is_err());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn behind_two_hundred_targets_of_a_rule_another_rule_a_trial_and_a_save_are_sent_next() {
    crowded_story(TestApp::with(&[PRIVATE]).await.unwrap()).await;
}

#[tokio::test]
async fn in_worker_processes_a_crowd_of_waiting_judges_loses_no_call_and_delays_no_other_rule() {
    crowded_story(TestApp::with(&[PRIVATE, PROCESSES]).await.unwrap()).await;
}

#[tokio::test]
async fn judges_that_wait_longer_than_their_time_limit_call_once_and_succeed() {
    // The scripted provider answers within the limit on a slow machine too, and the last call waits longer than the limit.
    const N_TARGETS: u64 = 60;
    let app = TestApp::new().await.unwrap();
    let reply = json!({
        "reply": { "reasoning": "It thanks.", "score": 0.9 }, "latencyMs": 1_000,
        "usage": { "input": 10, "output": 5 },
    });
    crate::judges::connect(&app, "main", json!([reply])).await;
    let mut body = named("patient");
    body["limits"] = json!({ "timeoutMs": 5_000 });
    let (status, made) = call(&app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{made}");
    let rule = crate::judges::generations();
    app.rule(made["id"].as_str().unwrap(), rule).await.unwrap();
    ingest(&app, "answer", 1..N_TARGETS + 1).await;
    app.scores(N_TARGETS as usize).await.unwrap();
    let costs = app.client.get("/api/v1/model-costs?groupBy=rule").await;
    let total = &costs.unwrap().json()["total"];
    assert_eq!(total["failedCalls"], 0, "{total}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_budget_that_admits_one_call_at_a_time_delays_no_other_judge_of_the_connection() {
    const N_TARGETS: u64 = 40;
    let mut provider = Provider::start().await;
    let app = TestApp::with(&[PRIVATE]).await.unwrap();
    connect(&app, &provider.url).await;
    // A call costs 4.5 millionths of a dollar, and the remaining budget does not cover two at a time.
    let budget = json!({ "budget": [{ "window": "day", "usd": 0.000_008 }] });
    judging(&app, "thrifty", budget).await;
    judging(&app, "other", json!({})).await;
    provider.hold();
    ingest(&app, "thrifty", 1..N_TARGETS + 1).await;
    let first = provider.next().await;
    assert!(first.has("says thrifty"));
    // The others of the rule wait for the budget, and hold no slot.
    ingest(&app, "other", 1_000..1_000 + N_PLACES as u64 - 1).await;
    let others = provider.take(N_PLACES - 1).await;
    assert!(others.iter().all(|arrival| arrival.has("says other")));
    release(others);
    release([first]);
    app.scores(N_PLACES).await.unwrap();
    app.stop().await.unwrap();
}
