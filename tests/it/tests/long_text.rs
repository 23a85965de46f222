//! A megabyte in a short text field, over each ingestion API: it is truncated and noted, or refused with the name of its
//! field, without an effect on other data.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn long() -> String {
    "字x".repeat(MIB / 4)
}

async fn send(app: &TestApp, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let answer = app.client.json(method, path, body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn observation(app: &TestApp, id: &str) -> Value {
    let path = format!("/api/public/observations/{id}");
    let answer = app.client.get(&path).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn spans_keep_values_up_to_the_limit_and_report_truncation() {
    let app = TestApp::new().await.unwrap();
    let text = |key: &str| json!({ "key": key, "value": { "stringValue": long() } });
    let plain = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let attributes: Vec<Value> = [
        "gen_ai.request.model",
        "gen_ai.provider.name",
        "langfuse.user.id",
        "langfuse.session.id",
        "langfuse.trace.name",
        "langfuse.trace.tags",
        "langfuse.environment",
        "langfuse.version",
        "langfuse.release",
        "langfuse.experiment.id",
    ]
    .map(text)
    .into();
    let span = |id: &str, name: &str, attributes: &[Value]| {
        json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": id, "name": name,
            "startTimeUnixNano": "1760000000000000000", "endTimeUnixNano": "1760000001000000000",
            "attributes": attributes,
        })
    };
    let mut first = attributes;
    first.push(plain("langfuse.observation.type", "generation"));
    let second = [plain("gen_ai.request.model", "small")];
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [
        span("b7ad6b7169203331", &long(), &first),
        span("b7ad6b7169203332", "beside it", &second),
    ] }] }] });
    let (status, answer) = send(&app, Method::POST, perpend_it::OTLP, &body).await;
    assert_eq!(status, 200);
    let partial = &answer["partialSuccess"];
    assert_eq!(partial.get("rejectedSpans"), None);
    assert!(partial["errorMessage"].as_str().unwrap().starts_with("1 span"), "{partial}");
    let cut = observation(&app, "b7ad6b7169203331").await;
    assert!(cut["name"].as_str().unwrap().len() <= 2_400);
    assert!(cut["model"].as_str().unwrap().starts_with("字x字x"));
    assert!(cut["model"].as_str().unwrap().len() <= 2_400);
    assert_eq!(cut["environment"], "default");
    let notes = &cut["metadata"]["truncated"];
    for fact in ["model", "provider", "version", "release"] {
        assert_eq!(notes[fact], long().len(), "{fact}: {notes}");
    }
    let second_observation = observation(&app, "b7ad6b7169203332").await;
    assert_eq!(second_observation["name"], "beside it");
}

#[tokio::test]
async fn events_with_long_ids_are_refused_each_by_its_field() {
    let app = TestApp::new().await.unwrap();
    let event = |id: &str, kind: &str, body: Value| json!({ "id": id, "type": kind, "timestamp": "2026-03-01T10:00:00Z", "body": body });
    let refused = [
        ("1", "trace-create", json!({ "id": long() }), "body.id"),
        ("2", "trace-create", json!({ "id": "t", "userId": long() }), "body.userId"),
        ("3", "trace-create", json!({ "id": "t", "sessionId": long() }), "body.sessionId"),
        ("4", "span-create", json!({ "id": long() }), "body.id"),
    ];
    for (id, kind, body, field) in refused {
        let batch = json!({ "batch": [
            event(id, kind, body),
            event(&format!("good {id}"), "span-create", json!({ "id": format!("o{id}"), "traceId": "t" })),
        ] });
        let (status, answer) = send(&app, Method::POST, "/api/public/ingestion", &batch).await;
        assert_eq!(status, 207);
        assert_eq!(answer["successes"].as_array().unwrap().len(), 1, "{field}");
        let error = &answer["errors"][0];
        assert_eq!((&error["id"], &error["status"]), (&json!(id), &json!(400)));
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(field) && message.len() < 300, "{message}");
        observation(&app, &format!("o{id}")).await;
    }
    let facts =
        json!({ "id": "g", "traceId": "t", "name": long(), "model": long(), "version": long() });
    let batch = json!({ "batch": [event("5", "generation-create", facts)] });
    let (_, answer) = send(&app, Method::POST, "/api/public/ingestion", &batch).await;
    assert_eq!(answer["errors"], json!([]));
    let cut = observation(&app, "g").await;
    assert_eq!(cut["metadata"]["truncated"]["model"], long().len());
}

#[tokio::test]
async fn names_and_ids_of_other_things_are_refused_by_their_field() {
    let app = TestApp::new().await.unwrap();
    let score = |field: &str| {
        let mut score = json!({ "traceId": "t", "name": "n", "value": 1 });
        if field == "sessionId" || field == "datasetRunId" {
            score["traceId"] = Value::Null;
        }
        score[field] = long().into();
        score
    };
    let mut cases: Vec<(&str, Value, &str)> =
        ["id", "traceId", "observationId", "name", "sessionId", "datasetRunId"]
            .map(|field| ("/api/public/scores", score(field), field))
            .into();
    cases.push(("/api/public/v2/datasets", json!({ "name": long() }), "name"));
    let item = json!({ "datasetName": "d", "id": long() });
    cases.push(("/api/public/dataset-items", item, "id"));
    for (path, body, field) in cases {
        let (status, answer) = send(&app, Method::POST, path, &body).await;
        assert_eq!(status, 400, "{path} {field}: {answer:.300}");
        let text = answer.to_string();
        assert!(text.contains(&format!("{field}: ")), "{path} {field}: {text:.300}");
    }
}
