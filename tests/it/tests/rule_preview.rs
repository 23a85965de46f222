//! Previews of rules over HTTP: matches and cost of a draft, without executions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_domain::time::Clock as _;
use perpend_it::{OTLP, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};
use crate::pages::Visitor;

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
const PREVIEW: &str = "/api/v1/evaluation-rules/preview";
const N_TRACES: u64 = 24;
/// When the traces of tests begin, in nanoseconds.
const SENT_AT: i64 = 1_770_000_000_000_000_000;
/// 100 tokens at 0.15 and 10 at 0.60 dollars for a million.
const COST: f64 = 0.000_021;

fn draft(evaluator: &Value, sampling: f64) -> Value {
    let mut draft = generations();
    draft["sampling"] = json!(sampling);
    draft["evaluatorAssignments"] = json!([{
        "evaluatorId": evaluator,
        "variableMapping": [{ "variable": "output", "source": "output", "jsonPath": "$.text" }],
    }]);
    draft
}

/// Sends a trace as one that began a minute ago.
pub(crate) async fn send(app: &TestApp, trace: &Trace) {
    let mut body = trace.to_json();
    let began = app.clock.now().plus_millis(-60_000).as_micros() * 1_000;
    let spans = &mut body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    for span in spans.as_array_mut().unwrap() {
        for name in ["startTimeUnixNano", "endTimeUnixNano"] {
            let sent: i64 = span[name].as_str().unwrap().parse().unwrap();
            span[name] = json!((sent - SENT_AT + began).to_string());
        }
    }
    let answer = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn is_near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9)
}

async fn story(app: TestApp) {
    let replies = json!([
        { "reply": { "reasoning": "It thanks.", "score": 0.9 }, "usage": { "input": 100, "output": 10 } },
    ]);
    connect(&app, "main", replies).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    for n in 0..N_TRACES {
        // One in three lacks the mapped part.
        let output = if n % 3 == 0 { r#"{"n": 1}"# } else { r#"{"text": "Thanks."}"# };
        let trace = Trace::new(100 + n, "ticket").generation("answer", output);
        send(&app, &trace).await;
    }
    let (status, seen) = call(&app, Method::POST, PREVIEW, draft(&made["id"], 1.0)).await;
    assert_eq!(status, 200, "{seen}");
    let all = json!({ "matching": N_TRACES, "sampled": N_TRACES });
    assert_eq!((&seen["lastDay"], &seen["lastWeek"]), (&all, &all), "{seen}");
    assert_eq!(seen["examined"]["isWhole"], true, "{seen}");
    let missing = &seen["missingVariables"];
    assert_eq!(missing[0]["variable"], "output", "{seen}");
    assert_eq!((&missing[0]["count"], &seen["checkedCount"]), (&json!(8), &json!(24)));
    let examples = seen["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 10, "{seen}");
    for example in examples {
        let is_missing = example["errorClass"] == "missing_variable";
        assert!(is_missing || example["item"]["output"] == "Thanks.", "{example}");
    }
    assert_eq!(seen["evaluators"][0]["executionsPerDay"], 24.0, "{seen}");

    // The sample of the rule is the sample of the preview.
    let half = draft(&made["id"], 0.5);
    let (_, seen) = call(&app, Method::POST, PREVIEW, half).await;
    let sampled = seen["lastDay"]["sampled"].as_u64().unwrap();
    assert!(0 < sampled && sampled < N_TRACES, "{seen}");
    let mut whole = generations();
    whole["evaluatorAssignments"] = json!([{ "evaluatorId": made["id"] }]);
    let (_, seen) = call(&app, Method::POST, PREVIEW, whole.clone()).await;
    let estimate = &seen["evaluators"][0];
    assert_eq!(estimate["basis"], "trial", "{seen}");
    assert!(is_near(&estimate["costPerExecutionUsd"], COST), "{seen}");
    assert!(is_near(&seen["costPerDayUsd"], COST * 24.0), "{seen}");
    for path in ["/api/public/v3/scores", "/api/v1/executions", "/api/v1/model-costs", RULES] {
        let listed = app.client.get(path).await.unwrap().json();
        assert_eq!(count(&listed), 0, "{path}: {listed}");
    }

    // The cost is known after its first score.
    let rule = app.rule(made["id"].as_str().unwrap(), generations()).await.unwrap();
    let last = Trace::new(1, "ticket").generation("answer", "Thanks.");
    send(&app, &last).await;
    app.scores(1).await.unwrap();
    let (_, seen) = call(&app, Method::POST, PREVIEW, whole).await;
    let estimate = &seen["evaluators"][0];
    assert_eq!(estimate["basis"], "executions", "{seen}");
    assert!(is_near(&estimate["costPerDayUsd"], COST * 25.0), "{seen}");
    assert!(estimate["secondsPerDay"].is_number(), "{seen}");
    let visitor = Visitor::of(&app).await;
    for path in ["/rules".to_owned(), format!("/rules/{rule}")] {
        let page = visitor.page(&path).await;
        assert!(page.contains("$0.000021"), "{path}: {page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_preview_counts_matches_of_a_draft_without_executions() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_preview_counts_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_draft_for_whole_traces_calls_no_model_and_is_free() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["x"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config).await;
    for n in 1..4 {
        let trace = Trace::new(n, if n == 1 { "other" } else { "ticket" });
        send(&app, &trace.generation("answer", "x")).await;
    }
    let draft = json!({
        "target": "trace", "settleMs": 0, "quietMs": 0,
        "filter": [{ "type": "stringOptions", "column": "name", "operator": "any of", "value": ["ticket"] }],
        "evaluatorAssignments": [{ "evaluatorId": evaluator.unwrap() }],
    });
    let (status, seen) = call(&app, Method::POST, PREVIEW, draft.clone()).await;
    assert_eq!((status, &seen["lastDay"]["matching"]), (200, &json!(2)), "{seen}");
    assert_eq!(seen["examples"][0]["observationId"], Value::Null, "{seen}");
    assert_eq!(seen["evaluators"][0]["basis"], "free", "{seen}");
    assert_eq!(seen["costPerDayUsd"], 0.0, "{seen}");
    let mut wrong = draft;
    wrong["evaluatorAssignments"] = json!([{ "evaluatorId": "nobody" }]);
    let (status, response) = call(&app, Method::POST, PREVIEW, wrong).await;
    assert_eq!(status, 404, "{response}");
    app.stop().await.unwrap();
}
