//! Rules that score whole sessions, over REST.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::SystemTime;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{OTLP, PROCESSES, TestApp, Trace, count, trace_id};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect};

const RULES: &str = "/api/public/v2/evaluation-rules";

/// A turn of the session, now: the question, and this answer.
async fn say(app: &TestApp, n: u64, answer: &str) {
    let turn = Trace::new(n, "turn").generation("answer", answer);
    let mut body = turn.attribute("session.id", "talk").to_json();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap().as_nanos().to_string();
    let spans = &mut body["resourceSpans"][0]["scopeSpans"][0]["spans"];
    for span in spans.as_array_mut().unwrap() {
        span["startTimeUnixNano"] = json!(now);
        span["endTimeUnixNano"] = json!(now);
    }
    let (status, answer) = call(app, Method::POST, OTLP, body).await;
    assert_eq!(status, 200, "{answer}");
}

async fn judge(app: &TestApp) -> String {
    let reply = json!({ "reply": { "reasoning": "They were thanked.", "score": 0.75 } });
    connect(app, "main", json!([{ "contains": "Your order is here.", "reply": reply["reply"] }]))
        .await;
    let judge = json!({
        "type": "llm_as_judge", "name": "helpful talk", "prompt": "Was this talk helpful?\n{{talk}}",
        "modelConfig": { "provider": "main", "model": "gpt-4o-mini" },
        "variableMapping": [{ "variable": "talk", "source": "session.thread" }],
        "outputDefinition": { "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 },
    });
    let (status, made) = call(app, Method::POST, "/api/public/v2/evaluators", judge).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

async fn story(app: TestApp) {
    let judge = judge(&app).await;
    let rule = json!({
        "name": "talks", "enabled": true, "target": "session", "quietMs": 0,
        "filter": [{ "type": "number", "column": "traceCount", "operator": ">", "value": 1 }],
        "evaluatorAssignments": [{ "evaluatorId": judge }],
    });
    tried_before_it_is_saved(&app, &judge, &rule).await;
    refused_by_its_field(&app, &judge, &rule).await;
    let id = scored_when_it_is_quiet(&app, &rule).await;
    assert_targeted_by_session_alone(&app, &id).await;

    // A rule of traces cannot wait for one of sessions.
    let mut early = rule;
    early["after"] = json!([id]);
    early["target"] = json!("trace");
    early["filter"] = json!([]);
    early["name"] = json!("too early");
    early["evaluatorAssignments"][0]["variableMapping"] =
        json!([{ "variable": "talk", "source": "output" }]);
    let (status, answer) = call(&app, Method::POST, RULES, early).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("after[0]"), "{answer}");
    app.stop().await.unwrap();
}

/// A trial, compared with the stored scores.
async fn tried_before_it_is_saved(app: &TestApp, judge: &str, rule: &Value) {
    say(app, 1, "On its way.").await;
    say(app, 2, "Your order is here.").await;

    let trial = json!({ "evaluatorId": judge, "targets": [{ "sessionId": "talk" }] });
    let (status, tried) = call(app, Method::POST, "/api/v1/evaluations/trial", trial).await;
    assert_eq!(status, 200, "{tried}");
    let tried = &tried["data"][0];
    assert_eq!(tried["sessionId"], "talk", "{tried}");
    assert_eq!(tried["scores"][0]["value"], 0.75, "{tried}");
    let messages = &tried["item"]["variables"]["talk"];
    let messages: Vec<&Value> =
        messages.as_array().unwrap().iter().map(|one| &one["content"]).collect();
    assert_eq!(messages, ["question", "On its way.", "question", "Your order is here."]);
    let (status, preview) =
        call(app, Method::POST, "/api/v1/evaluation-rules/preview", rule.clone()).await;
    assert_eq!(status, 200, "{preview}");
    assert_eq!(preview["examined"]["count"], 1, "{preview}");
    assert_eq!(preview["lastDay"]["matching"], 1, "{preview}");
    assert_eq!(preview["examples"][0]["sessionId"], "talk", "{preview}");
}

/// Members that a session does not have.
async fn refused_by_its_field(app: &TestApp, judge: &str, rule: &Value) {
    for (member, value, field) in [
        ("settleMs", json!(5), "settleMs"),
        (
            "filter",
            json!([{ "type": "string", "column": "traceName", "operator": "=", "value": "x" }]),
            "filter[0].column",
        ),
        (
            "evaluatorAssignments",
            json!([{
                "evaluatorId": judge,
                "variableMapping": [{ "variable": "talk", "source": "output" }],
            }]),
            "evaluatorAssignments[0].variableMapping[0]",
        ),
    ] {
        let mut wrong = rule.clone();
        wrong[member] = value;
        let (status, answer) = call(app, Method::POST, RULES, wrong).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().contains(field), "{field}: {answer}");
    }
}

async fn scored_when_it_is_quiet(app: &TestApp, rule: &Value) -> String {
    let (status, made) = call(app, Method::POST, RULES, rule.clone()).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["target"], "session");
    let id = made["id"].as_str().unwrap();
    say(app, 3, "You are welcome.").await;
    let listed = "/api/public/v3/scores?sessionId=talk&fields=details,subject";
    let listed = app.wait_for(listed, |listed| count(listed) == 1).await.unwrap();
    let score = &listed["data"][0];
    assert_eq!((&score["name"], &score["value"]), (&json!("helpful talk"), &json!(0.75)));
    assert_eq!(score["subject"], json!({ "kind": "session", "id": "talk" }), "{score}");
    assert_eq!(score["metadata"]["target_session_id"], "talk", "{score}");
    let executions = app.client.get("/api/v1/executions?sessionId=talk").await.unwrap().json();
    assert_eq!(count(&executions), 1, "{executions}");
    let execution = &executions["data"][0];
    assert_eq!((&execution["sessionId"], &execution["traceId"]), (&json!("talk"), &Value::Null));
    assert_eq!(execution["observationCount"], 6, "{execution}");
    id.to_owned()
}

async fn assert_targeted_by_session_alone(app: &TestApp, id: &str) {
    let path = format!("/api/v1/evaluation-rules/{id}/explain?sessionId=talk");
    let explained = app.client.get(&path).await.unwrap().json();
    assert_eq!(explained["step"], "taken", "{explained}");
    for query in ["", "?traceId=x", "?sessionId=talk&traceId=x"] {
        let path = format!("/api/v1/evaluation-rules/{id}/explain{query}");
        let answer = app.client.get(&path).await.unwrap();
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
    }
    let both = format!("/api/v1/executions?sessionId=talk&traceId={}", trace_id(1));
    assert_eq!(app.client.get(&both).await.unwrap().status, 400);
}

#[tokio::test]
async fn a_session_is_judged_as_a_whole_when_it_is_idle() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_with_workers_a_session_is_judged_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("made as one");
    };
    let settings = [("database.url", url.as_str()), PROCESSES];
    story(TestApp::with(&settings).await.unwrap()).await;
}
