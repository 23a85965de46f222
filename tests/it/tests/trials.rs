//! Trials over HTTP: they give what live scoring gives, and leave nothing behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
pub(crate) const TRIAL: &str = "/api/v1/evaluations/trial";
const SCORES: &str = "/api/public/v3/scores";
/// Metadata that the server adds to stored scores.
const ADDED: [&str; 9] = [
    "evaluator_id",
    "evaluator_version_id",
    "evaluation_rule_id",
    "evaluation_rule_assignment_id",
    "job_execution_id",
    "job_configuration_id",
    "execution_trace_id",
    "target_trace_id",
    "target_observation_id",
];

fn replies() -> Value {
    json!([
        { "contains": "rude", "reply": { "reasoning": "It insults.", "score": 0.1 },
          "usage": { "input": 100, "output": 10 } },
        { "contains": "busy", "error": { "status": 503 } },
        { "reply": { "reasoning": "It thanks.", "score": 0.9 }, "usage": { "input": 100, "output": 10 } },
    ])
}

/// The generation of a trace.
async fn target(app: &TestApp, trace: &Trace) -> Value {
    let path = format!("/api/public/v2/observations?traceId={}&type=GENERATION", trace.id);
    let listed = app.wait_for(&path, |listed| count(listed) == 1).await;
    let observation = listed.unwrap()["data"][0]["id"].clone();
    json!({ "traceId": trace.id, "observationId": observation })
}

pub(crate) async fn left_nothing(app: &TestApp) {
    for path in [SCORES, "/api/v1/executions", "/api/v1/model-costs"] {
        let listed = app.client.get(path).await.unwrap().json();
        assert_eq!(count(&listed), 0, "{path}: {listed}");
    }
}

/// The common members of a trial and a stored score, as text.
fn common(score: &Value) -> String {
    let mut metadata = score["metadata"].clone();
    for name in ADDED {
        metadata.as_object_mut().unwrap().remove(name);
    }
    let Value::Object(score) = score else {
        unreachable!("a score is an object");
    };
    let members = ["name", "value", "dataType", "comment"].map(|name| &score[name]);
    json!([members, metadata]).to_string()
}

async fn equal_story(app: TestApp) {
    connect(&app, "main", replies()).await;
    let traces = [
        Trace::new(1, "ticket").generation("answer", "Thank you for waiting."),
        Trace::new(2, "ticket").generation("answer", "How rude you are."),
    ];
    let mut targets = Vec::new();
    for trace in &traces {
        app.ingest(trace).await.unwrap();
        targets.push(target(&app, trace).await);
    }
    let draft = judge(Some("gpt-4o-mini"));
    let trial = json!({ "evaluator": draft, "targets": targets });
    let (status, tried) = call(&app, Method::POST, TRIAL, trial).await;
    assert_eq!((status, count(&tried)), (200, 2), "{tried}");
    left_nothing(&app).await;
    let first = &tried["data"][0];
    assert_eq!(first["item"]["output"], "Thank you for waiting.", "{tried}");
    let exchange = &first["modelCalls"][0];
    assert_eq!(
        (&exchange["inputTokens"], &exchange["model"]),
        (&json!(100), &json!("gpt-4o-mini")),
        "{tried}"
    );
    // 100 tokens at 0.15 and 10 at 0.60 dollars for a million.
    let cost = first["costUsd"].as_f64().unwrap();
    assert!((cost - 0.000_021).abs() < 1e-12, "{cost}");

    let (status, made) = call(&app, Method::POST, EVALUATORS, draft).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap();
    let saved = json!({ "evaluatorId": evaluator, "version": 1, "targets": targets });
    let (status, again) = call(&app, Method::POST, TRIAL, saved).await;
    assert_eq!(status, 200, "{again}");
    app.rule(evaluator, generations()).await.unwrap();
    // A rule scores what comes after it was made.
    for (at, text) in ["Thank you for waiting.", "How rude you are."].iter().enumerate() {
        let trace = Trace::new(3 + at as u64, "ticket").generation("answer", text);
        app.ingest(&trace).await.unwrap();
        let live = app.scores(at + 1).await.unwrap();
        let live = live.iter().find(|score| score["subject"].to_string().contains(&trace.id));
        let live = common(live.unwrap());
        for tried in [&tried, &again] {
            assert_eq!(common(&tried["data"][at]["scores"][0]), live);
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trial_of_a_draft_returns_the_scores_that_a_rule_stores() {
    equal_story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn in_worker_processes_a_trial_returns_the_scores_that_a_rule_stores() {
    equal_story(TestApp::with(&[PROCESSES]).await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_trial_returns_the_scores_that_a_rule_stores() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    equal_story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn an_item_written_by_hand_is_judged_as_it_is_and_failures_have_reasons() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", replies()).await;
    let mut draft = judge(Some("m"));
    draft["prompt"] = json!("{{question}}: {{output}}");
    draft["variableMapping"] = json!([
        { "variable": "output", "source": "output" },
        { "variable": "question", "source": "metadata", "jsonPath": "$.question" },
    ]);
    let item = json!({ "output": "Well.", "variables": { "question": "Is it rude?" } });
    let trial = json!({ "evaluator": draft, "item": item });
    let (status, tried) = call(&app, Method::POST, TRIAL, trial).await;
    assert_eq!(status, 200, "{tried}");
    let result = &tried["data"][0];
    assert_eq!(result["scores"][0]["value"], 0.1, "{tried}");
    assert_eq!((&result["item"], &result["traceId"]), (&item, &Value::Null), "{tried}");
    // No price is known for this model.
    assert_eq!(result["costUsd"], Value::Null, "{tried}");

    let busy = Trace::new(1, "ticket").generation("answer", "We are busy.");
    app.ingest(&busy).await.unwrap();
    let there = target(&app, &busy).await;
    let nowhere = json!({ "traceId": Trace::new(9, "none").id });
    let trial = json!({ "evaluator": judge(Some("m")), "targets": [there, nowhere] });
    let (status, tried) = call(&app, Method::POST, TRIAL, trial).await;
    assert_eq!(status, 200, "{tried}");
    let classes = [0, 1].map(|at| &tried["data"][at]["errorClass"]);
    assert_eq!(classes, ["upstream_unavailable", "target_missing"], "{tried}");
    assert_eq!(tried["data"][0]["modelCalls"][0]["errorClass"], "upstream_unavailable");
    let trial = json!({ "evaluator": draft, "targets": [there] });
    let (_, tried) = call(&app, Method::POST, TRIAL, trial.clone()).await;
    let class = &tried["data"][0]["errorClass"];
    assert_eq!(class, "missing_variable", "{tried}");
    let mut trial = trial;
    trial["onMissing"] = json!("empty");
    let (_, tried) = call(&app, Method::POST, TRIAL, trial).await;
    let class = &tried["data"][0]["errorClass"];
    assert_eq!(class, "upstream_unavailable", "{tried}");
    left_nothing(&app).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trial_without_evaluator_or_target_is_refused() {
    let app = TestApp::new().await.unwrap();
    let exact =
        app.evaluator("perpend/text", "contains-any", json!({ "terms": ["x"] })).await.unwrap();
    let item = json!({ "output": "x" });
    let trace = Trace::new(1, "t").id;
    let many: Vec<Value> = (0..51).map(|_| json!({ "traceId": trace })).collect();
    let mapping = json!([{ "variable": "output", "source": "nowhere" }]);
    for (body, status, part) in [
        (json!({ "item": item }), 400, "evaluatorId"),
        (json!({ "evaluatorId": exact }), 400, "targets"),
        (json!({ "evaluatorId": exact, "targets": [] }), 400, "targets"),
        (json!({ "evaluatorId": exact, "targets": many }), 400, "50"),
        (json!({ "evaluatorId": exact, "targets": many[..1], "item": item }), 400, "targets"),
        (json!({ "evaluatorId": exact, "targets": many[..1], "recent": {} }), 400, "targets"),
        (json!({ "evaluatorId": exact, "recent": { "limit": 51 } }), 400, "limit"),
        (json!({ "evaluatorId": exact, "recent": { "target": "run" } }), 400, "target"),
        (
            json!({ "evaluatorId": exact, "recent": { "filter": [{ "column": "weather" }] } }),
            400,
            "filter",
        ),
        (
            json!({ "evaluatorId": exact, "targets": [{ "traceId": "" }] }),
            400,
            "targets[0].traceId",
        ),
        (
            json!({ "evaluatorId": exact, "targets": many[..1], "variableMapping": mapping }),
            400,
            "nowhere",
        ),
        (json!({ "evaluatorId": exact, "item": item, "onMissing": "maybe" }), 400, "onMissing"),
        (json!({ "evaluatorId": exact, "item": item, "version": 2 }), 404, "version"),
        (json!({ "evaluatorId": "nobody", "item": item }), 404, "evaluator"),
        (json!({ "evaluatorId": exact, "item": item }), 200, "1 of 1"),
    ] {
        let (answered, response) = call(&app, Method::POST, TRIAL, body.clone()).await;
        let is_right = answered == status && response.to_string().contains(part);
        assert!(is_right, "{body}: {answered} {response}");
    }
    left_nothing(&app).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_judge_whose_model_does_not_answer_is_neither_saved_nor_switched_on() {
    let app = TestApp::new().await.unwrap();
    let forbidden = json!([{ "error": { "status": 401 } }]);
    connect(&app, "main", forbidden.clone()).await;
    let refused = |response: &Value| {
        let details = &response["details"];
        assert_eq!(details["reason"], "evaluator_preflight_failed", "{response}");
        assert_eq!(
            (&details["provider"], &details["model"], &details["class"]),
            (&json!("main"), &json!("m"), &json!("auth_invalid")),
            "{response}"
        );
    };
    let (status, response) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    assert_eq!(status, 422, "{response}");
    refused(&response);
    let listed = app.client.get(EVALUATORS).await.unwrap().json();
    assert_eq!(count(&listed), 0, "{listed}");

    connect(&app, "main", replies()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    let one = format!("{EVALUATORS}/{}", made["id"].as_str().unwrap());
    let mut off = json!({
        "name": "polite", "enabled": false, "evaluatorAssignments": [{ "evaluatorId": made["id"] }],
    });
    let (status, rule) = call(&app, Method::POST, RULES, off.clone()).await;
    assert_eq!(status, 200, "{rule}");
    connect(&app, "main", forbidden).await;
    off["enabled"] = json!(true);
    let (status, response) = call(&app, Method::POST, RULES, off).await;
    assert_eq!(status, 422, "{response}");
    refused(&response);
    let rule = format!("{RULES}/{}", rule["id"].as_str().unwrap());
    let on = json!({ "enabled": true });
    let (status, response) = call(&app, Method::PATCH, &rule, on.clone()).await;
    assert_eq!(status, 422, "{response}");
    let shown = app.client.get(&rule).await.unwrap().json();
    assert_eq!(shown["enabled"], false, "{shown}");
    let mut changed = judge(Some("m"));
    changed["prompt"] = json!("Is this polite?\n{{output}}");
    let (status, response) = call(&app, Method::PATCH, &one, changed).await;
    assert_eq!(status, 422, "{response}");
    // Evaluators that call no model are not checked, and neither are requests that need no model.
    let (status, renamed) = call(&app, Method::PATCH, &one, json!({ "name": "kind" })).await;
    assert_eq!(status, 200, "{renamed}");

    connect(&app, "main", replies()).await;
    let (status, response) = call(&app, Method::PATCH, &rule, on).await;
    assert_eq!(status, 200, "{response}");
    left_nothing(&app).await;
    app.stop().await.unwrap();
}
