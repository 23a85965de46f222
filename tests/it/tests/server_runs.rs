//! Experiments that the server executes: over prompts and models, and over an endpoint of an application.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the routes of a test application need no guard")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use futures_util::stream::{self, StreamExt as _};
use perpend_db::DatabaseUrl;
use perpend_domain::server_run::run_trace_id;
use perpend_it::{TestApp, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::judge_kills::PRIVATE;
use crate::judges::{call, connect};

pub(crate) const EXPERIMENTS: &str = "/api/v1/experiments";
const SECRET: &str = "a secret of the application";

/// Creates a dataset with items of these ids and inputs.
pub(crate) async fn dataset(app: &TestApp, name: &str, items: &[(String, Value)]) {
    let body = json!({ "name": name });
    let (status, made) = call(app, Method::POST, "/api/public/v2/datasets", body).await;
    assert_eq!(status, 200, "{made}");
    for (id, input) in items {
        let body = json!({
            "datasetName": name, "id": id, "input": input, "expectedOutput": "Paris",
            "metadata": { "group": if id.ends_with('1') { "odd" } else { "even" } },
        });
        let (status, made) = call(app, Method::POST, "/api/public/dataset-items", body).await;
        assert_eq!(status, 200, "{made}");
    }
}

/// Items with a question each.
pub(crate) fn questions(n: usize) -> Vec<(String, Value)> {
    (0..n).map(|n| (format!("item-{n}"), json!({ "question": format!("Number {n}?") }))).collect()
}

pub(crate) async fn prompt(app: &TestApp, name: &str, text: &str) {
    let body = json!({ "name": name, "prompt": text, "labels": ["production"] });
    let (status, made) = call(app, Method::POST, "/api/public/v2/prompts", body).await;
    assert_eq!(status, 201, "{made}");
}

/// Starts an experiment; its runs by id.
pub(crate) async fn start(app: &TestApp, body: Value) -> Vec<String> {
    let (status, started) = call(app, Method::POST, EXPERIMENTS, body).await;
    assert_eq!(status, 201, "{started}");
    assert!(started["experimentId"].is_string(), "{started}");
    let runs = started["runs"].as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// The status of a run once it has this state.
pub(crate) async fn status(app: &TestApp, run: &str, state: &str) -> Value {
    let path = format!("{EXPERIMENTS}/{run}/status");
    app.wait_for(&path, |status| status["state"] == state).await.unwrap()
}

fn model(name: &str) -> Value {
    json!({ "provider": "main", "model": name })
}

/// Runs a test on each database.
async fn on_each(test: impl AsyncFn(TestApp)) {
    for database in TempDatabase::each_migrated().await {
        let url = match database.url() {
            DatabaseUrl::Sqlite(_) => None,
            DatabaseUrl::Postgres(url) => Some(url.clone()),
        };
        let mut settings = vec![PRIVATE];
        settings.extend(url.as_deref().map(|url| ("database.url", url)));
        test(TestApp::with(&settings).await.unwrap()).await;
    }
}

async fn trace(app: &TestApp, run: &str, item: &str) -> Value {
    let id = run_trace_id(run, item, 0, 0);
    let answer = app.client.get(&format!("/api/public/traces/{id}")).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn each_item_gets_a_result_per_model_and_rules_of_experiments_score_it() {
    on_each(async |app| {
        let replies = json!([
            { "contains": "Number 2", "reply": "Rome", "usage": { "input": 10, "output": 2 } },
            { "reply": "Paris", "usage": { "input": 10, "output": 2 } },
        ]);
        connect(&app, "main", replies).await;
        let evaluator =
            app.evaluator("perpend/text", "contains-any", json!({ "terms": ["Paris"] }));
        let evaluator = evaluator.await.unwrap();
        app.rule(&evaluator, json!({ "target": "experiment" })).await.unwrap();
        let mut items = questions(3);
        items.push(("lacking".to_owned(), json!({ "text": "no question" })));
        dataset(&app, "capitals", &items).await;
        prompt(&app, "answer", "Answer {{question}} in a word.").await;
        let runs = start(
            &app,
            json!({
                "dataset": "capitals", "prompts": [{ "name": "answer" }],
                "models": [model("gpt-4o-mini"), model("gpt-4o")], "params": { "temperature": 0 },
                "concurrency": 3, "runName": "first",
            }),
        );
        let runs = runs.await;
        assert_eq!(runs.len(), 2);
        for run in &runs {
            let status = status(&app, run, "completed").await;
            assert_eq!((&status["completedCount"], &status["failedCount"]), (&json!(3), &json!(1)));
            let failed = &status["failedItems"][0];
            assert_eq!(
                (&failed["itemId"], &failed["errorClass"]),
                (&json!("lacking"), &json!("invalid_input"))
            );
            assert!(failed["errorMessage"].as_str().unwrap().contains("`question`"), "{failed}");
            assert!(0.0 < status["costUsd"].as_f64().unwrap(), "{status}");
        }
        // Two of three responses of each run.
        let path = "/api/public/v3/scores?fields=details,subject&limit=100";
        let is_true =
            |score: &&Value| score["value"] == true || score["value"].as_f64() == Some(1.0);
        let n_true =
            |scores: &Value| scores["data"].as_array().unwrap().iter().filter(is_true).count();
        app.wait_for(path, |scores| n_true(scores) == 4 && 6 <= count(scores)).await.unwrap();
        check_trace(&app, &runs[0]).await;
        let links = "/api/public/experiment-items?fromStartTime=2020-01-01T00:00:00Z&limit=100";
        let listed = app.client.get(links).await.unwrap().json();
        assert_eq!(count(&listed), 8, "{listed}");
        app.stop().await.unwrap();
    })
    .await;
}

/// The trace of an item has the root of the experiment and the call of the model.
async fn check_trace(app: &TestApp, run: &str) {
    let trace = trace(app, run, "item-2").await;
    assert_eq!(trace["environment"], "perpend-prompt-experiment", "{trace}");
    assert_eq!(trace["output"], "Rome", "{trace}");
    let observations = trace["observations"].as_array().unwrap();
    assert_eq!(observations.len(), 2, "{trace}");
    let of_kind = |kind: &str| observations.iter().find(|own| own["type"] == kind).unwrap();
    let (root, generation) = (of_kind("SPAN"), of_kind("GENERATION"));
    assert_eq!(root["input"], json!({ "question": "Number 2?" }), "{root}");
    assert_eq!(generation["parentObservationId"], root["id"]);
    assert_eq!(generation["promptName"], "answer", "{generation}");
    assert_eq!(generation["usageDetails"]["input"], 10, "{generation}");
    assert_eq!(generation["modelParameters"]["temperature"], json!(0.0), "{generation}");
}

#[tokio::test]
async fn an_estimate_names_items_that_lack_a_variable_and_starts_nothing() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "Paris" }])).await;
    let mut items = questions(4);
    items.push(("lacking".to_owned(), json!({ "question": null })));
    dataset(&app, "capitals", &items).await;
    prompt(&app, "answer", "Answer {{question}}").await;
    let body = json!({
        "dataset": "capitals", "prompts": [{ "name": "answer" }], "models": [model("gpt-4o-mini"), model("unpriced")],
        "repetitions": 2, "dryRun": true,
    });
    let (status, estimate) = call(&app, Method::POST, EXPERIMENTS, body.clone()).await;
    assert_eq!(status, 200, "{estimate}");
    assert_eq!((&estimate["itemCount"], &estimate["callCount"]), (&json!(5), &json!(16)));
    assert_eq!(estimate["estimatedCostUsd"], Value::Null, "the price of a model is unknown");
    let run = &estimate["runs"][0];
    assert!(0.0 < run["estimatedCostUsd"].as_f64().unwrap(), "{run}");
    assert_eq!(run["unfilledItems"][0]["itemId"], "lacking", "{run}");
    let id = run["id"].as_str().unwrap();
    let missing = app.client.get(&format!("{EXPERIMENTS}/{id}/status")).await.unwrap();
    assert_eq!(missing.status, 404);
    let mut filtered = body;
    filtered["itemFilter"] = json!([
        { "type": "stringObject", "column": "metadata", "key": "group", "operator": "=", "value": "odd" },
    ]);
    let (_, estimate) = call(&app, Method::POST, EXPERIMENTS, filtered).await;
    assert_eq!(estimate["itemCount"], 1, "{estimate}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_request_that_cannot_start_names_its_field() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "Paris" }])).await;
    dataset(&app, "capitals", &questions(1)).await;
    dataset(&app, "empty", &[]).await;
    prompt(&app, "answer", "Answer {{question}}").await;
    let good = json!({
        "dataset": "capitals", "prompts": [{ "name": "answer" }], "models": [model("gpt-4o-mini")], "runName": "one",
    });
    let with = |change: Value| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (change, expected, part) in [
        (json!({ "dataset": "other" }), 404, "dataset"),
        (json!({ "dataset": "empty" }), 400, "no active item"),
        (json!({ "prompts": [] }), 400, "prompts"),
        (json!({ "models": [] }), 400, "models"),
        (json!({ "prompts": [{ "name": "other" }] }), 404, "other"),
        (json!({ "prompts": [{ "name": "answer", "version": 9 }] }), 404, "version 9"),
        (json!({ "models": [{ "provider": "other", "model": "m" }] }), 422, "other"),
        (json!({ "models": [model("unpriced")], "maxUsd": 1 }), 422, "no price"),
        (json!({ "maxUsd": 0 }), 400, "maxUsd"),
        (json!({ "repetitions": 0 }), 400, "repetitions"),
        (json!({ "concurrency": 201 }), 400, "concurrency"),
        (json!({ "timeoutMs": 1 }), 400, "timeoutMs"),
        (json!({ "itemIds": ["none"] }), 400, "itemIds[0]"),
        (json!({ "itemIds": ["item-0", "item-0"] }), 400, "itemIds[1]"),
        (json!({ "itemFilter": [{ "column": "color" }] }), 400, "itemFilter"),
        (json!({ "endpoint": { "url": "http://example.com" } }), 400, "prompts"),
        (json!({ "outputSchema": [] }), 400, "outputSchema"),
        (json!({ "tools": [{ "name": "a", "parameters": 1 }] }), 400, "tools[0].parameters"),
        (json!({ "unknown": 1 }), 400, "unknown"),
    ] {
        let (status, answer) = call(&app, Method::POST, EXPERIMENTS, with(change)).await;
        assert_eq!(status, expected, "{part}: {answer}");
        assert!(answer.to_string().contains(part), "{part}: {answer}");
    }
    let url = json!({ "dataset": "capitals", "endpoint": { "url": "ftp://example.com" } });
    let (status, answer) = call(&app, Method::POST, EXPERIMENTS, url).await;
    assert!(status == 400 && answer.to_string().contains("scheme"), "{answer}");
    let run = start(&app, good.clone()).await.remove(0);
    let (status, answer) = call(&app, Method::POST, EXPERIMENTS, good).await;
    assert_eq!((status, &answer["code"]), (409, &json!("name_conflict")), "{answer}");
    crate::server_runs::status(&app, &run, "completed").await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_pauses_before_a_call_that_could_exceed_its_limit() {
    on_each(async |app| {
        // 0.15 US dollars per million tokens: 0.015 a call, which the estimate from the prompt does not foresee.
        let usage = json!({ "input": 100_000, "output": 0 });
        connect(&app, "main", json!([{ "reply": "Paris", "usage": usage }])).await;
        dataset(&app, "capitals", &questions(8)).await;
        prompt(&app, "answer", "Answer {{question}}").await;
        let run = start(&app, json!({
            "dataset": "capitals", "prompts": [{ "name": "answer" }], "models": [model("gpt-4o-mini")],
            "maxUsd": 0.04, "concurrency": 1,
        }));
        let run = run.await.remove(0);
        let paused = status(&app, &run, "paused").await;
        assert_eq!(paused["pausedReason"], "MAX_USD_REACHED", "{paused}");
        assert_eq!((&paused["completedCount"], &paused["failedCount"]), (&json!(3), &json!(0)));
        assert!((paused["costUsd"].as_f64().unwrap() - 0.045).abs() < 1e-9, "{paused}");
        let (code, cancelled) =
            call(&app, Method::POST, &format!("{EXPERIMENTS}/{run}/cancel"), json!({})).await;
        assert_eq!((code, &cancelled["state"]), (200, &json!("cancelled")), "{cancelled}");
        let (code, refused) =
            call(&app, Method::POST, &format!("{EXPERIMENTS}/{run}/resume"), json!({})).await;
        assert_eq!(code, 409, "{refused}");
        app.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_run_waits_for_its_connection_and_continues_when_it_is_resumed() {
    let app = TestApp::new().await.unwrap();
    let unauthorized = json!([{ "error": { "status": 401 } }]);
    connect(&app, "main", unauthorized).await;
    dataset(&app, "capitals", &questions(5)).await;
    prompt(&app, "answer", "Answer {{question}}").await;
    let run = start(
        &app,
        json!({
            "dataset": "capitals", "prompts": [{ "name": "answer" }], "models": [model("gpt-4o-mini")],
        }),
    );
    let run = run.await.remove(0);
    let paused = status(&app, &run, "paused").await;
    assert_eq!(paused["pausedReason"], "LLM_CONNECTION_AUTH_INVALID", "{paused}");
    connect(&app, "main", json!([{ "reply": "Paris" }])).await;
    let (code, resumed) =
        call(&app, Method::POST, &format!("{EXPERIMENTS}/{run}/resume"), json!({})).await;
    assert_eq!(code, 200, "{resumed}");
    let completed = status(&app, &run, "completed").await;
    assert_eq!((&completed["completedCount"], &completed["failedCount"]), (&json!(5), &json!(0)));
    app.stop().await.unwrap();
}

/// An application whose responses depend on the item; the ids of the items that it was called for.
async fn application() -> (String, Arc<Mutex<Vec<String>>>) {
    let called = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&called);
    let answer = async move |headers: HeaderMap, body: Bytes| -> Response {
        let signature = headers["x-perpend-signature"].to_str().unwrap();
        let seconds = signature.strip_prefix("t=").unwrap().split(',').next().unwrap();
        let expected = perpend_http_client::signature(SECRET, seconds.parse().unwrap(), &body);
        assert_eq!(signature, expected);
        assert!(headers.contains_key("traceparent"));
        let item: Value = serde_json::from_slice(&body).unwrap();
        let id = item["itemId"].as_str().unwrap().to_owned();
        noted.lock().unwrap().push(id.clone());
        match id.as_str() {
            "hangs" => std::future::pending().await,
            "redirects" => (StatusCode::FOUND, [("location", "/other")], "").into_response(),
            "large" => "x".repeat(30 << 20).into_response(),
            "text" => "not JSON".into_response(),
            "empty" => StatusCode::NO_CONTENT.into_response(),
            "page" => ([("content-type", "text/html")], "<p>Log in</p>").into_response(),
            "endless" => {
                let part = || Ok::<_, std::io::Error>(Bytes::from(vec![b'1'; 1 << 20]));
                Body::from_stream(stream::repeat_with(part).take(30)).into_response()
            }
            "stalls" => {
                let start = Ok::<_, std::io::Error>(Bytes::from_static(b"{\"output\":"));
                Body::from_stream(stream::iter([start]).chain(stream::pending())).into_response()
            }
            "fails" => (StatusCode::INTERNAL_SERVER_ERROR, "broken").into_response(),
            "wrong" => Json(json!({ "output": 1, "costUsd": "much" })).into_response(),
            "plain" => Json(json!(["any", "JSON"])).into_response(),
            _ => Json(json!({
                "output": { "answer": item["input"]["question"] }, "traceId": "of-the-application",
                "usage": { "input": 7, "output": 3 }, "costUsd": 0.25,
            }))
            .into_response(),
        }
    };
    let router = Router::new().route("/answer", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/answer", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, called)
}

#[tokio::test]
async fn an_endpoint_receives_signed_items_and_its_faults_are_errors_of_items() {
    on_each(async |app| {
        let (url, called) = application().await;
        let hostile = [
            "hangs", "redirects", "large", "text", "empty", "page", "endless", "stalls", "fails", "wrong",
        ];
        let mut items = questions(2);
        items.extend(
            hostile.iter().chain(&["plain"]).map(|id| ((*id).to_owned(), json!({ "question": "?" }))),
        );
        dataset(&app, "capitals", &items).await;
        let endpoint = json!({ "url": url, "secret": SECRET });
        // The others answer within this time on a slow machine too.
        let body = json!({ "dataset": "capitals", "endpoint": endpoint, "timeoutMs": 15_000, "runName": "app" });
        let run = start(&app, body).await.remove(0);
        let status = status(&app, &run, "completed").await;
        assert_eq!((&status["completedCount"], &status["failedCount"]), (&json!(3), &json!(10)), "{status}");
        assert_eq!(status["costUsd"], json!(0.5), "{status}");
        let failed = status["failedItems"].as_array().unwrap();
        let failed_ids: BTreeSet<&str> =
            failed.iter().map(|item| item["itemId"].as_str().unwrap()).collect();
        assert_eq!(failed_ids, BTreeSet::from(hostile));
        let message = |id: &str| {
            let item = failed.iter().find(|item| item["itemId"] == id).unwrap();
            item["errorMessage"].as_str().unwrap()
        };
        for (id, part) in [
            ("hangs", "15000 ms"), ("redirects", "302"), ("large", "4 MiB"), ("text", "not JSON"),
            ("fails", "500"), ("wrong", "costUsd"), ("empty", "JSON"), ("page", "text/html"), ("endless", "4 MiB"),
            ("stalls", "15000 ms"),
        ] {
            assert!(message(id).contains(part), "{id}: {}", message(id));
        }
        assert_eq!(called.lock().unwrap().len(), items.len(), "each item is posted once");
        let answered = trace(&app, &run, "item-1").await;
        assert_eq!(answered["output"], json!({ "answer": "Number 1?" }), "{answered}");
        assert_eq!(answered["observations"].as_array().unwrap().len(), 2, "{answered}");
        assert_eq!(trace(&app, &run, "plain").await["output"], json!(["any", "JSON"]));
        let shown = app.client.get(&format!("{EXPERIMENTS}/{run}/status")).await.unwrap().text();
        assert!(!shown.contains(SECRET));
        app.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_at_a_private_address_that_is_not_allowed_pauses_the_run() {
    let app = TestApp::new().await.unwrap();
    dataset(&app, "capitals", &questions(2)).await;
    let endpoint = json!({ "url": "http://127.0.0.1:9/" });
    let run = start(&app, json!({ "dataset": "capitals", "endpoint": endpoint })).await.remove(0);
    let path = format!("{EXPERIMENTS}/{run}/status");
    let is_paused = |status: &Value| status["state"] == "paused" && status["pendingCount"] == 2;
    let paused = app.wait_for(&path, is_paused).await.unwrap();
    assert_eq!(paused["pausedReason"], "ENDPOINT_UNREACHABLE", "{paused}");
    app.stop().await.unwrap();
}

/// Percent-encodes the fields of a form.
fn form(token: &str, fields: &[(&str, &str)]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("form", token);
    form.extend_pairs(fields);
    form.finish()
}

#[tokio::test]
async fn the_page_estimates_and_starts_an_experiment_without_script() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "Paris" }])).await;
    let mut items = questions(3);
    items.push(("lacking".to_owned(), json!({ "text": "no question" })));
    dataset(&app, "capitals", &items).await;
    prompt(&app, "answer", "Answer {{question}}").await;
    let visitor = crate::pages::Visitor::of(&app).await;
    let path = format!("{}/experiments/new", visitor.base);
    let token = visitor.token(&path).await;
    let fields = [
        ("dataset", "capitals"),
        ("prompts", "answer@1"),
        ("models", "main/gpt-4o-mini"),
        ("name", "by page"),
    ];
    let sent = |action: &'static str| {
        let mut fields = fields.to_vec();
        fields.push(("action", action));
        form(&token, &fields)
    };
    let estimate = visitor.send(&path, sent("estimate")).await;
    let text = estimate.text();
    assert!(estimate.status == 200 && text.contains("3 calls"), "{text}");
    assert!(text.contains("lacking") && text.contains("answer@1"), "{text}");
    let wrong = form(&token, &[("dataset", "capitals"), ("models", "gpt"), ("action", "start")]);
    let rejected = visitor.send(&path, wrong).await;
    assert!(
        rejected.status == 422 && rejected.text().contains("problem-models"),
        "{}",
        rejected.text()
    );
    let started = visitor.send(&path, sent("start")).await;
    assert_eq!(started.status, 303, "{}", started.text());
    let location = started.headers["location"].to_str().unwrap();
    let run = location.rsplit('/').next().unwrap();
    status(&app, run, "completed").await;
    let page = visitor.page(&format!("/experiments/{run}")).await;
    assert!(page.contains("by page") && page.contains("4 of 4 results"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_command_runs_a_file_and_reports_its_results() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "Paris" }])).await;
    dataset(&app, "capitals", &questions(3)).await;
    prompt(&app, "answer", "Answer {{question}}").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("capitals.toml");
    let text = "name = \"by command\"\ndataset = \"capitals\"\nprompts = [\"answer\"]\n\
                models = [\"main/gpt-4o-mini\"]\nrepetitions = 2\n";
    std::fs::write(&file, text).unwrap();
    let run = async |more: &[&str]| {
        let mut args = vec!["experiment", "run", "--config", file.to_str().unwrap()];
        args.extend(more);
        let mut command = perpend_it::command(&args).unwrap();
        let command = command
            .env("PERPEND_SERVER", &app.origin)
            .env("PERPEND_PUBLIC_KEY", perpend_it::KEYS.0)
            .env("PERPEND_SECRET_KEY", perpend_it::KEYS.1);
        let output = command.output().await.unwrap();
        let [out, error] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, error)
    };
    let (code, out, error) = run(&["--dry-run"]).await;
    assert!(code == Some(0) && out.contains("6 calls"), "{out} {error}");
    let (code, out, error) = run(&["--json"]).await;
    assert_eq!(code, Some(0), "{error}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["runs"][0]["completedCount"], 6, "{result}");
    let (code, _, error) = run(&[]).await;
    assert!(code == Some(3) && error.contains("by command"), "the name is taken: {error}");
    std::fs::write(&file, "dataset = \"capitals\"\ncolor = 1").unwrap();
    let (code, _, error) = run(&[]).await;
    assert!(code == Some(3) && error.contains("color"), "{error}");
    app.stop().await.unwrap();
}

/// An application that fails for the item `item-0` this number of times; the ids of the items that it was called for.
async fn flaky_application(n_failures: usize) -> (String, Arc<Mutex<Vec<String>>>) {
    let called = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&called);
    let answer = async move |Json(item): Json<Value>| -> Response {
        let id = item["itemId"].as_str().unwrap().to_owned();
        let mut called = noted.lock().unwrap();
        called.push(id.clone());
        let n_calls = called.iter().filter(|other| **other == id).count();
        match id == "item-0" && n_calls <= n_failures {
            true => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            false => Json(json!({ "output": "Paris", "costUsd": 0.25 })).into_response(),
        }
    };
    let router = Router::new().route("/answer", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/answer", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, called)
}

#[tokio::test]
async fn a_retry_calls_only_failed_items_again_on_the_page_and_by_command() {
    on_each(async |app| {
        let (url, called) = flaky_application(2).await;
        dataset(&app, "capitals", &questions(3)).await;
        let body = json!({ "dataset": "capitals", "endpoint": { "url": url }, "runName": "flaky" });
        let run = start(&app, body).await.remove(0);
        let ended = status(&app, &run, "completed").await;
        assert_eq!(
            (&ended["completedCount"], &ended["failedCount"]),
            (&json!(2), &json!(1)),
            "{ended}"
        );

        let visitor = crate::pages::Visitor::of(&app).await;
        let path = format!("{}/experiments/{run}", visitor.base);
        let page = visitor.page(&format!("/experiments/{run}")).await;
        assert!(page.contains("value=\"retry\""), "{page}");
        let token = visitor.token(&path).await;
        let sent =
            visitor.send(&format!("{path}/state"), form(&token, &[("action", "retry")])).await;
        assert_eq!(sent.status, 303, "{}", sent.text());
        let path = format!("{EXPERIMENTS}/{run}/status");
        let n_calls = || called.lock().unwrap().len();
        let is_again = |status: &Value| status["state"] == "completed" && n_calls() == 4;
        let again = app.wait_for(&path, is_again).await.unwrap();
        assert_eq!(again["failedCount"], 1, "{again}");

        let args = ["experiment", "retry", "flaky", "--json"];
        let mut command = perpend_it::command(&args).unwrap();
        let command = command
            .env("PERPEND_SERVER", &app.origin)
            .env("PERPEND_PUBLIC_KEY", perpend_it::KEYS.0)
            .env("PERPEND_SECRET_KEY", perpend_it::KEYS.1);
        let output = command.output().await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{error}");
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let status = &printed["runs"][0];
        assert_eq!(
            (&status["completedCount"], &status["failedCount"]),
            (&json!(3), &json!(0)),
            "{status}"
        );
        assert_eq!(
            (&status["costUsd"], n_calls()),
            (&json!(0.75), 5),
            "stored answers are not called again"
        );

        // The last attempt is the result of the item.
        let found = app.client.get(&format!("{EXPERIMENTS}/{run}")).await.unwrap().json();
        let account = &found["account"];
        assert_eq!((&account["nSeen"], &account["nFailed"]), (&json!(3), &json!(0)), "{found}");
        let third = run_trace_id(&run, "item-0", 0, 2);
        let trace = app.client.get(&format!("/api/public/traces/{third}")).await.unwrap().json();
        assert_eq!(trace["output"], "Paris", "{trace}");
        let (code, kept) =
            call(&app, Method::POST, &format!("{EXPERIMENTS}/{run}/retry"), json!({})).await;
        assert_eq!(
            (code, &kept["state"]),
            (200, &json!("completed")),
            "nothing has failed: {kept}"
        );
        app.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn large_responses_wait_for_memory_and_all_of_them_are_stored() {
    const N_BYTES: usize = 2 << 20;
    let answer = async || Json(json!({ "output": "x".repeat(N_BYTES) }));
    let router = Router::new().route("/answer", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/answer", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    // Memory for one of the responses.
    let app = TestApp::with(&[PRIVATE, ("evaluation.memory_mib", "16")]).await.unwrap();
    dataset(&app, "capitals", &questions(6)).await;
    let endpoint = json!({ "url": url });
    let body = json!({ "dataset": "capitals", "endpoint": endpoint, "concurrency": 6 });
    let run = start(&app, body).await.remove(0);
    let status = status(&app, &run, "completed").await;
    assert_eq!(
        (&status["completedCount"], &status["failedCount"]),
        (&json!(6), &json!(0)),
        "{status}"
    );
    let stored = trace(&app, &run, "item-5").await;
    assert_eq!(stored["output"].as_str().unwrap().len(), N_BYTES);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn evaluators_of_an_experiment_score_its_results_by_a_rule_that_is_deleted_with_it() {
    on_each(async |app| {
        connect(&app, "main", json!([{ "reply": "Paris" }])).await;
        let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await.unwrap();
        let path = format!("/api/public/v2/evaluators/{evaluator}");
        let evaluator = app.client.get(&path).await.unwrap().json();
        let name = evaluator["name"].as_str().unwrap();
        dataset(&app, "capitals", &questions(3)).await;
        dataset(&app, "others", &questions(0)).await;
        prompt(&app, "answer", "Answer {{question}}").await;
        let body = |more: Value| {
            let mut body = json!({
                "dataset": "capitals", "prompts": [{ "name": "answer" }],
                "models": [model("gpt-4o-mini")], "runName": "main",
            });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        for (wrong, expected, part) in [
            (json!({ "evaluators": ["unknown"] }), 404, "evaluators[0]"),
            (json!({ "evaluators": [name, evaluator["id"]] }), 400, "evaluators[1]"),
            (json!({ "baseline": "unknown" }), 404, "baseline"),
        ] {
            let (status, answer) = call(&app, Method::POST, EXPERIMENTS, body(wrong)).await;
            assert_eq!(status, expected, "{answer}");
            assert!(answer.to_string().contains(part), "{part}: {answer}");
        }
        let first = start(&app, body(json!({}))).await.remove(0);
        status(&app, &first, "completed").await;
        let more = json!({ "evaluators": [name], "baseline": "main", "runName": "scored" });
        let (_, started) = call(&app, Method::POST, EXPERIMENTS, body(more)).await;
        let run = started["runs"][0]["id"].as_str().unwrap();
        assert_eq!(started["baselineId"], json!(first), "{started}");
        let rule =
            format!("/api/public/v2/evaluation-rules/{}", started["ruleId"].as_str().unwrap());
        let found = app.client.get(&rule).await.unwrap().json();
        assert_eq!((&found["target"], &found["enabled"]), (&json!("experiment"), &json!(true)));
        assert_eq!(found["filter"][0]["value"], json!([run]), "{found}");
        // The rule scores the items of this run and no others.
        let is_scored = |found: &Value| found["account"]["evaluators"][0]["nScored"] == 3;
        let path = format!("{EXPERIMENTS}/{run}");
        app.wait_for(&path, is_scored).await.unwrap();
        assert_eq!(app.scores(3).await.unwrap().len(), 3);
        let shown = status(&app, run, "completed").await;
        assert_eq!((&shown["ruleId"], &shown["baselineId"]), (&started["ruleId"], &json!(first)));
        let page = crate::pages::Visitor::of(&app).await.page(&format!("/experiments/{run}")).await;
        let alone = format!("/api/v1/experiments/compare?runs={run}");
        let compared = app.client.get(&alone).await.unwrap().json();
        assert_eq!(compared["base"], json!(first), "{compared}");
        let gate = json!({ "config": { "require": [{ "metric": "errors", "max_at_most": 1 }] } });
        let (code, gate) = call(&app, Method::POST, &format!("{path}/gates"), gate).await;
        assert_eq!((code, &gate["report"]["baseline"]["id"]), (201, &json!(first)), "{gate}");
        let compare = format!("/experiments/compare?runs={first},{run}");
        assert!(page.contains(&compare) && page.contains("Experiment scored"), "{page}");

        // A while after its end the rule is disabled; the account still expects its scores.
        app.clock.advance(Duration::from_secs(700));
        let other = start(&app, body(json!({ "runName": "other" }))).await.remove(0);
        status(&app, &other, "completed").await;
        app.wait_for(&rule, |found| found["enabled"] == false).await.unwrap();
        let found = app.client.get(&path).await.unwrap().json();
        assert!(is_scored(&found), "{found}");
        let of_run = "/api/public/datasets/capitals/runs/scored";
        let (code, gone) = call(&app, Method::DELETE, of_run, json!({})).await;
        assert_eq!(code, 200, "{gone}");
        assert_eq!(
            app.client.get(&rule).await.unwrap().status,
            404,
            "the rule is deleted with the run"
        );
        app.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn items_that_are_deleted_or_changed_during_a_run_are_answered_as_they_were_at_its_start() {
    on_each(async |app| {
        let (release, called) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (released, calls) = (Arc::clone(&release), Arc::clone(&called));
        let answer = async move |Json(item): Json<Value>| {
            if item["itemId"] == "item-0" {
                calls.notify_one();
                released.notified().await;
            }
            Json(json!({ "output": item["input"]["question"] }))
        };
        let router = Router::new().route("/answer", post(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/answer", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        dataset(&app, "capitals", &questions(3)).await;
        let body = json!({
            "dataset": "capitals", "endpoint": { "url": url }, "concurrency": 1, "runName": "changed",
        });
        let run = start(&app, body).await.remove(0);
        called.notified().await;
        let (code, gone) =
            call(&app, Method::DELETE, "/api/public/dataset-items/item-1", json!({})).await;
        assert_eq!(code, 200, "{gone}");
        let changed = json!({ "datasetName": "capitals", "id": "item-2", "input": { "question": "Other?" } });
        let (code, changed) = call(&app, Method::POST, "/api/public/dataset-items", changed).await;
        assert_eq!(code, 200, "{changed}");
        release.notify_one();
        let status = status(&app, &run, "completed").await;
        assert_eq!((&status["completedCount"], &status["failedCount"]), (&json!(3), &json!(0)), "{status}");
        for item in ["item-1", "item-2"] {
            let output = &trace(&app, &run, item).await["output"];
            assert_eq!(*output, json!(format!("Number {}?", &item[5..])), "{item}");
        }
        let found = app.client.get(&format!("{EXPERIMENTS}/{run}")).await.unwrap().json();
        assert_eq!(found["account"]["isComplete"], true, "{found}");
        app.stop().await.unwrap();
    })
    .await;
}
