//! Runs of experiments over HTTP: rules score linked items, and a run accounts for each of its items.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{TestApp, Trace};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

async fn post(app: &TestApp, path: &str, body: Value) -> Value {
    let answer = app.client.json(Method::POST, path, &body).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// The dataset `capitals` with these items, whose expected output is their id.
async fn dataset(app: &TestApp, items: &[&str]) {
    post(app, "/api/public/v2/datasets", json!({ "name": "capitals" })).await;
    for item in items {
        let body = json!({
            "datasetName": "capitals", "id": item, "input": "Which city?", "expectedOutput": item,
        });
        post(app, "/api/public/dataset-items", body).await;
    }
}

/// Links an item of the run `first` and returns the id of the run.
async fn link(app: &TestApp, item: &str, trace: &str, observation: Option<&str>) -> String {
    let body = json!({
        "runName": "first", "datasetItemId": item, "traceId": trace, "observationId": observation,
    });
    let made = post(app, "/api/public/dataset-run-items", body).await;
    made["datasetRunId"].as_str().unwrap().to_owned()
}

fn answer(n: u64, output: &str) -> Trace {
    Trace::new(n, "answer").attribute("perpend.observation.output", output)
}

async fn story(app: TestApp) {
    dataset(&app, &["Paris", "Rome", "Oslo"]).await;
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await.unwrap();
    let rule = app.rule(&evaluator, json!({ "target": "experiment" })).await.unwrap();
    let (right, wrong) = (answer(1, "Paris"), answer(2, "Milan"));
    // The link to a trace comes before the trace, the one to an observation after it.
    let run = link(&app, "Paris", &right.id, None).await;
    app.ingest(&right).await.unwrap();
    app.ingest(&wrong).await.unwrap();
    link(&app, "Rome", &wrong.id, Some(&Trace::span_id(1))).await;
    let scores = app.scores(2).await.unwrap();
    for (trace, value) in [(&right, 1.0), (&wrong, 0.0)] {
        let of_trace: Vec<&Value> =
            scores.iter().filter(|score| score["subject"]["traceId"] == trace.id).collect();
        assert_eq!(of_trace.len(), 1, "{scores:?}");
        let subject =
            json!({ "kind": "observation", "id": Trace::span_id(1), "traceId": trace.id });
        assert_eq!(of_trace[0]["subject"], subject);
        assert_eq!(of_trace[0]["value"], value);
        let path = format!("/api/v1/evaluation-rules/{rule}/explain?traceId={}", trace.id);
        let explained = get(&app, &path).await;
        assert_eq!(explained["step"], "taken", "{explained}");
    }
    // Lists find linked observations by their run, as they find spans of items.
    for (column, value) in [("experimentId", run.as_str()), ("experimentName", "first")] {
        let filter = json!([{
            "type": "stringOptions", "column": column, "operator": "any of", "value": [value],
        }]);
        let filter = perpend_views::encode(&filter.to_string());
        let listed = get(&app, &format!("/api/public/v2/observations?filter={filter}")).await;
        assert_eq!(listed["data"].as_array().unwrap().len(), 2, "{column}: {listed}");
    }
    let found = get(&app, &format!("/api/v1/experiments/{run}")).await;
    assert_eq!((&found["name"], &found["datasetName"]), (&json!("first"), &json!("capitals")));
    let account = &found["account"];
    for (name, expected) in [
        ("nExpected", json!(3)),
        ("nSeen", json!(2)),
        ("nFailed", json!(0)),
        ("nMissing", json!(1)),
        ("missingItems", json!(["Oslo"])),
        ("isComplete", json!(false)),
        ("evaluators", json!([{ "evaluatorId": evaluator, "nScored": 2, "nMissing": 0 }])),
    ] {
        assert_eq!(account[name], expected, "{name}: {found}");
    }
    let score = &found["scores"][0];
    assert_eq!((&score["name"], &score["values"]["n"]), (&json!("exact-match"), &json!(2)));
    assert_eq!(score["values"]["mean"], 0.5, "{found}");

    // A rule of runs waits for the last item.
    let more = json!({ "target": "run", "quietMs": 3_600_000 });
    let of_runs = app.rule(&evaluator, more).await.unwrap();
    let explain = format!("/api/v1/evaluation-rules/{of_runs}/explain");
    let explained = get(&app, &format!("{explain}?runId={run}")).await;
    assert_eq!((&explained["step"], &explained["runId"]), (&json!("not_complete"), &json!(run)));
    for path in [explain.clone(), format!("{explain}?runId={run}&traceId={}", right.id)] {
        assert_eq!(app.client.get(&path).await.unwrap().status, 400, "{path}");
    }

    // With its last item the run is complete, although the item failed.
    let mut last = answer(3, "").to_json();
    last["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["status"] =
        json!({ "code": 2, "message": "no answer" });
    post(&app, "/api/public/otel/v1/traces", last).await;
    link(&app, "Oslo", &answer(3, "").id, None).await;
    let path = format!("/api/v1/experiments/{run}");
    let found = get(&app, &path).await;
    let account = &found["account"];
    assert_eq!((&account["nFailed"], &account["isComplete"]), (&json!(1), &json!(true)), "{found}");
    let unknown = app.client.get("/api/v1/experiments/unknown").await.unwrap();
    assert_eq!(unknown.status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn linked_items_are_scored_and_accounted_for() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_linked_items_are_scored_and_accounted_for() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("the database is PostgreSQL");
    };
    story(TestApp::with(&[("database.url", url.as_str())]).await.unwrap()).await;
}

#[tokio::test]
async fn a_linked_trace_that_never_arrives_is_counted_and_explained() {
    let app = TestApp::new().await.unwrap();
    dataset(&app, &["Paris"]).await;
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await.unwrap();
    let rule = app.rule(&evaluator, json!({ "target": "experiment" })).await.unwrap();
    let lost = answer(7, "Paris");
    link(&app, "Paris", &lost.id, None).await;
    let explain = format!("/api/v1/evaluation-rules/{rule}/explain?traceId={}", lost.id);
    assert_eq!(get(&app, &explain).await["step"], "not_complete");
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    app.clock.advance(std::time::Duration::from_secs(200));
    let is_counted = |found: &Value| found["funnel"]["rootMissing"] == 1;
    app.wait_for(&counters, is_counted).await.unwrap();
    let explained = get(&app, &explain).await;
    assert_eq!(
        (&explained["step"], &explained["traceId"]),
        (&json!("root_missing"), &json!(lost.id))
    );
    app.stop().await.unwrap();
}
