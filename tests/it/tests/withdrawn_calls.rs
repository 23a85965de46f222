//! Calls that wait for a slot of a connection while their rule, evaluator or connection is deleted: none of them is sent.
//!
//! The provider holds the requests for targets until the test releases them, so that the result depends on the order of
//! events, not on time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test provider need no guard")]

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Method};
use axum::routing::post;
use axum::{Json, Router};
use perpend_db::DatabaseUrl;
use perpend_it::{PROCESSES, TestApp, Trace};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::judge_kills::PRIVATE;
use crate::judges::{call, generations, judge};

const CONNECTIONS: &str = "/api/public/llm-connections";
const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
const N_PLACES: usize = 2;
const N_TARGETS: usize = 12;
/// In the output of each target.
const MARK: &str = "Thank you, number";
const FIRST_KEY: &str = "sk-the-first-key";
const SECOND_KEY: &str = "sk-the-second-key";

/// A provider that records the key of each request for a target. It holds the requests with the first key until the test
/// releases them, and responds to all others at once.
#[derive(Debug)]
struct Provider {
    keys: Mutex<Vec<String>>,
    arrived: Semaphore,
    answers: Semaphore,
}

impl Provider {
    async fn start() -> (String, Arc<Self>) {
        let provider = Arc::new(Self {
            keys: Mutex::default(),
            arrived: Semaphore::new(0),
            answers: Semaphore::new(0),
        });
        let answering = Arc::clone(&provider);
        let answer = async move |headers: HeaderMap, Json(request): Json<Value>| {
            let key = headers["authorization"].to_str().unwrap();
            let key = key.trim_start_matches("Bearer ").to_owned();
            // Judges are tried when they are saved, and when their rule is enabled.
            if request.to_string().contains(MARK) {
                let is_held = key == FIRST_KEY;
                answering.keys.lock().unwrap().push(key);
                answering.arrived.add_permits(1);
                if is_held {
                    answering.answers.acquire().await.unwrap().forget();
                }
            }
            let content = r#"{"reasoning":"It thanks.","score":0.5}"#;
            let message = json!({ "role": "assistant", "content": content });
            Json(json!({
                "model": "gpt-4o-mini",
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

    /// Ends when so many more requests have come.
    async fn arrived(&self, n: usize) {
        let n = u32::try_from(n).unwrap();
        self.arrived.acquire_many(n).await.unwrap().forget();
    }

    fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }
}

/// The resource that is deleted or disabled while calls wait.
#[derive(Clone, Copy, Debug)]
enum Change {
    DisableRule,
    DeleteRule,
    DeleteEvaluator,
    DeleteConnection,
    ReplaceKey,
    RemakeConnection,
}

impl Change {
    const ALL: [Self; 6] = [
        Self::DisableRule,
        Self::DeleteRule,
        Self::DeleteEvaluator,
        Self::DeleteConnection,
        Self::ReplaceKey,
        Self::RemakeConnection,
    ];

    /// The final state of executions whose call has not started; `None` if they continue with the new key.
    const fn end(self) -> Option<&'static str> {
        match self {
            Self::DisableRule | Self::DeleteConnection => Some("held"),
            Self::DeleteRule | Self::DeleteEvaluator => Some("cancelled"),
            Self::ReplaceKey | Self::RemakeConnection => None,
        }
    }
}

struct Judging<'a> {
    app: &'a TestApp,
    url: &'a str,
    connection: String,
    evaluator: String,
    rule: String,
}

async fn connect(app: &TestApp, url: &str, key: &str) -> String {
    let body = json!({ "provider": "main", "adapter": "openai", "secretKey": key, "baseURL": url });
    let (status, made) = call(app, Method::PUT, CONNECTIONS, body).await;
    assert!(status == 200 || status == 201, "{made}");
    let id = made["id"].as_str().unwrap().to_owned();
    let options = format!("/api/v1/llm-connections/{id}");
    let (status, response) =
        call(app, Method::PATCH, &options, json!({ "maxInFlight": N_PLACES })).await;
    assert_eq!(status, 200, "{response}");
    id
}

impl<'a> Judging<'a> {
    async fn start(app: &'a TestApp, url: &'a str) -> Self {
        let connection = connect(app, url, FIRST_KEY).await;
        let judge = judge(Some("gpt-4o-mini"));
        let (status, made) = call(app, Method::POST, EVALUATORS, judge).await;
        assert_eq!(status, 200, "{made}");
        let evaluator = made["id"].as_str().unwrap().to_owned();
        let rule = app.rule(&evaluator, generations()).await.unwrap();
        Self { app, url, connection, evaluator, rule }
    }

    async fn apply(&self, change: Change) {
        let delete = async |path: String| {
            let (status, response) = call(self.app, Method::DELETE, &path, Value::Null).await;
            assert!(status == 200 || status == 204, "{response}");
        };
        match change {
            Change::DisableRule => {
                let path = format!("{RULES}/{}", self.rule);
                let body = json!({ "enabled": false });
                let (status, response) = call(self.app, Method::PATCH, &path, body).await;
                assert_eq!(status, 200, "{response}");
            }
            Change::DeleteRule => delete(format!("{RULES}/{}", self.rule)).await,
            Change::DeleteEvaluator => delete(format!("{EVALUATORS}/{}", self.evaluator)).await,
            Change::DeleteConnection => {
                delete(format!("{CONNECTIONS}/{}", self.connection)).await;
            }
            Change::ReplaceKey => {
                connect(self.app, self.url, SECOND_KEY).await;
            }
            Change::RemakeConnection => {
                delete(format!("{CONNECTIONS}/{}", self.connection)).await;
                connect(self.app, self.url, SECOND_KEY).await;
            }
        }
    }

    /// Waits until so many executions are in this state; all executions.
    async fn executions(&self, state: &str, n: usize) -> Vec<Value> {
        let path = format!("/api/v1/executions?traceId={}", Trace::new(1, "ticket").id);
        let in_state = |answer: &Value| {
            let all = answer["data"].as_array().unwrap().iter();
            all.filter(|each| each["state"] == state).count()
        };
        let answer = self.app.wait_for(&path, |answer| in_state(answer) == n).await;
        answer.unwrap()["data"].as_array().unwrap().clone()
    }
}

async fn story(change: Change, settings: &[(&'static str, &str)]) {
    let (url, provider) = Provider::start().await;
    let settings = [&[PRIVATE], settings].concat();
    let app = TestApp::with(&settings).await.unwrap();
    let judging = Judging::start(&app, &url).await;
    let targets = (0..N_TARGETS).fold(Trace::new(1, "ticket"), |trace, n| {
        trace.generation("answer", &format!("{MARK} {n}."))
    });
    app.ingest(&targets).await.unwrap();
    provider.arrived(N_PLACES).await;
    judging.executions("running", N_TARGETS).await;

    judging.apply(change).await;
    let n_waiting = N_TARGETS - N_PLACES;
    if let Some(end) = change.end() {
        // While both slots are taken.
        for execution in judging.executions(end, n_waiting).await {
            let has_reason = execution["errorMessage"].as_str().is_some_and(|why| !why.is_empty());
            assert!(has_reason || execution["state"] == "running", "{change:?}: {execution}");
        }
    }
    provider.answers.add_permits(N_TARGETS);
    let n_scored = match change.end() {
        Some(_) => N_PLACES,
        None => N_TARGETS,
    };
    judging.executions("completed", n_scored).await;
    app.stop().await.unwrap();
    let keys = provider.keys();
    let with = |key: &str| keys.iter().filter(|used| *used == key).count();
    assert_eq!(with(FIRST_KEY), N_PLACES, "{change:?}: only what was in flight");
    assert_eq!(with(SECOND_KEY), n_scored - N_PLACES, "{change:?}");
}

#[tokio::test]
async fn no_waiting_call_leaves_after_its_rule_evaluator_or_connection_is_gone() {
    for change in Change::ALL {
        story(change, &[]).await;
    }
}

#[tokio::test]
async fn in_worker_processes_no_waiting_call_leaves_after_its_rule_is_gone() {
    story(Change::DisableRule, &[PROCESSES]).await;
    story(Change::RemakeConnection, &[PROCESSES]).await;
}

#[tokio::test]
async fn on_postgresql_no_waiting_call_leaves_after_its_rule_evaluator_or_connection_is_gone() {
    for change in Change::ALL {
        let Some(database) = TempDatabase::postgres().await else {
            return;
        };
        let DatabaseUrl::Postgres(url) = database.url() else {
            unreachable!("a PostgreSQL database was created");
        };
        story(change, &[("database.url", url.as_str())]).await;
    }
}
