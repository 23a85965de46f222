//! The batch API: events in any order and grouping make the same traces, each event is answered.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{KEYS, TestApp};
use serde_json::{Value, json};

const BATCH: &str = "/api/public/ingestion";

fn event(id: &str, kind: &str, second: u32, body: Value) -> Value {
    let timestamp = format!("2026-03-01T10:00:{second:02}.000Z");
    json!({ "id": id, "type": kind, "timestamp": timestamp, "body": body })
}

async fn send(app: &TestApp, events: &[Value]) -> Value {
    let body = json!({ "batch": events, "metadata": { "sdk_name": "test" } });
    let answer = app.client.json(Method::POST, BATCH, &body).await.unwrap();
    assert_eq!(answer.status, 207, "{}", answer.text());
    answer.json()
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// A trace as the older JavaScript client tells it.
fn story() -> Vec<Value> {
    let at = |second: u32| format!("2026-03-01T10:00:{second:02}.500Z");
    vec![
        event(
            "1",
            "trace-create",
            1,
            json!({ "id": "tr", "name": "chat", "userId": "ann",
            "sessionId": "s1", "tags": ["b"], "environment": "Prod", "input": { "q": 1 },
            "metadata": { "a": { "x": 1 } }, "timestamp": at(0) }),
        ),
        event(
            "2",
            "span-create",
            2,
            json!({ "id": "sp", "traceId": "tr", "name": "step",
            "startTime": at(1), "metadata": { "k": 1 } }),
        ),
        event(
            "3",
            "generation-create",
            3,
            json!({ "id": "ge", "traceId": "tr",
            "parentObservationId": "sp", "name": "answer", "startTime": at(2), "model": "gpt-4o",
            "input": "question", "modelParameters": { "temperature": 0.5 } }),
        ),
        event(
            "4",
            "generation-update",
            4,
            json!({ "id": "ge", "traceId": "tr", "output": "text",
            "endTime": at(4), "usage": { "promptTokens": 10, "completionTokens": 5 },
            "completionStartTime": at(3), "level": "WARNING" }),
        ),
        event("5", "span-update", 5, json!({ "id": "sp", "endTime": at(5), "output": ["done"] })),
        event(
            "6",
            "trace-create",
            6,
            json!({ "id": "tr", "output": "bye", "tags": ["a"],
            "metadata": { "a": { "y": 2 } }, "public": true, "environment": "other" }),
        ),
        event(
            "7",
            "score-create",
            7,
            json!({ "id": "sc", "traceId": "tr", "name": "ok", "value": 1 }),
        ),
        event(
            "8",
            "event-create",
            8,
            json!({ "id": "ev", "traceId": "tr", "name": "note",
            "parentObservationId": "sp", "startTime": at(3) }),
        ),
    ]
}

/// What the API shows, without the server's own times.
async fn stored_trace(app: &TestApp) -> Value {
    const OWN: [&str; 5] = ["createdAt", "updatedAt", "projectId", "htmlPath", "scores"];
    let mut trace = get(app, "/api/public/traces/tr").await;
    let mut observations = trace["observations"].take();
    let parts = observations.as_array_mut().unwrap().iter_mut();
    for part in parts.chain(std::iter::once(&mut trace)) {
        let members = part.as_object_mut().unwrap();
        members.retain(|name, _| !OWN.contains(&name.as_str()));
    }
    trace["observations"] = observations;
    trace
}

#[tokio::test]
async fn a_trace_sent_in_parts_reads_as_one() {
    let app = TestApp::new().await.unwrap();
    let answer = send(&app, &story()).await;
    assert_eq!(answer["errors"], json!([]));
    assert_eq!(answer["successes"].as_array().unwrap().len(), 8);
    assert_eq!(answer["successes"][0]["status"], 201);
    let trace = get(&app, "/api/public/traces/tr").await;
    assert_eq!((&trace["name"], &trace["userId"]), (&json!("chat"), &json!("ann")));
    assert_eq!((&trace["input"], &trace["output"]), (&json!({ "q": 1 }), &json!("bye")));
    assert_eq!(trace["tags"], json!(["a", "b"]));
    assert_eq!(trace["metadata"], json!({ "a": { "x": 1, "y": 2 } }));
    assert_eq!((&trace["environment"], &trace["public"]), (&json!("prod"), &json!(true)));
    assert_eq!(trace["timestamp"], "2026-03-01T10:00:00.500Z");
    assert_eq!(trace["scores"][0]["id"], "sc");
    let observations = trace["observations"].as_array().unwrap();
    let ids: Vec<&str> = observations.iter().map(|o| o["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["sp", "ge", "ev"]);
    let generation = &observations[1];
    assert_eq!(
        (&generation["type"], &generation["level"]),
        (&json!("GENERATION"), &json!("WARNING"))
    );
    assert_eq!((&generation["input"], &generation["output"]), (&json!("question"), &json!("text")));
    assert_eq!(generation["usageDetails"], json!({ "input": 10, "output": 5, "total": 15 }));
    assert!(generation["calculatedTotalCost"].as_f64().unwrap() > 0.0, "{generation}");
    assert_eq!(generation["latency"], 2.0);
    assert_eq!(observations[0]["output"], json!(["done"]));

    let list = get(&app, "/api/public/traces?userId=ann&sessionId=s1").await;
    assert_eq!(list["data"][0]["observations"].as_array().unwrap().len(), 3);
    let observations = get(&app, "/api/public/observations?traceId=tr").await;
    assert_eq!(observations["meta"]["totalItems"], 3);
    let newer = get(&app, "/api/public/v2/observations?traceId=tr").await;
    assert_eq!(newer["data"].as_array().unwrap().len(), 3, "{newer}");
}

#[tokio::test]
async fn order_grouping_and_repetition_of_events_change_nothing() {
    let together = TestApp::new().await.unwrap();
    send(&together, &story()).await;
    let expected = stored_trace(&together).await;
    let mut backwards = story();
    backwards.reverse();
    let whole = TestApp::new().await.unwrap();
    send(&whole, &backwards).await;
    assert_eq!(stored_trace(&whole).await, expected);
    let apart = TestApp::new().await.unwrap();
    for (n, event) in backwards.iter().enumerate() {
        send(&apart, std::slice::from_ref(event)).await;
        if n % 2 == 0 {
            send(&apart, std::slice::from_ref(event)).await;
        }
    }
    assert_eq!(stored_trace(&apart).await, expected);
}

#[tokio::test]
async fn each_event_is_answered_on_its_own() {
    let app = TestApp::new().await.unwrap();
    let good = event("good", "span-create", 1, json!({ "id": "o", "traceId": "t" }));
    let events = [
        good.clone(),
        good,
        event("bad-level", "span-create", 1, json!({ "id": "p", "level": "LOUD" })),
        event("bad-type", "thing-create", 1, json!({})),
        event(
            "bad-score",
            "score-create",
            1,
            json!({ "traceId": "t", "name": "n", "value": true }),
        ),
        event("log", "sdk-log", 1, json!({ "log": "hello" })),
        json!(5),
    ];
    let answer = send(&app, &events).await;
    assert_eq!(answer["successes"], json!([{ "id": "good", "status": 201 }]));
    let errors = answer["errors"].as_array().unwrap();
    let failed: Vec<_> =
        errors.iter().map(|e| (e["id"].as_str().unwrap(), e["status"].as_u64().unwrap())).collect();
    assert_eq!(failed, [("bad-level", 400), ("bad-type", 400), ("", 400), ("bad-score", 400)]);
    assert!(errors[0]["message"].as_str().unwrap().starts_with("body.level"), "{errors:?}");
    assert_eq!(get(&app, "/api/public/observations/o").await["traceId"], "t");
    for body in [json!({}), json!({ "batch": {} }), json!([])] {
        let answer = app.client.json(Method::POST, BATCH, &body).await.unwrap();
        assert_eq!(answer.status, 400, "{body}");
    }
}

#[tokio::test]
async fn a_public_key_alone_sends_scores_and_nothing_else() {
    let app = TestApp::new().await.unwrap();
    let events = json!({ "batch": [
        event("1", "score-create", 1, json!({ "traceId": "t", "name": "n", "value": 2 })),
        event("2", "span-create", 1, json!({ "id": "o" })),
    ] });
    let bearer = format!("Bearer {}", KEYS.0);
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let anonymous = app.anonymous();
    let answer = anonymous.send(Method::POST, BATCH, &headers, events.to_string()).await.unwrap();
    assert_eq!(answer.status, 207);
    let answer = answer.json();
    assert_eq!(answer["successes"][0]["id"], "1");
    assert_eq!(
        (&answer["errors"][0]["id"], &answer["errors"][0]["status"]),
        (&json!("2"), &json!(401))
    );
    // The score is named after its event: sending it again makes no second one.
    send(
        &app,
        &[event("1", "score-create", 1, json!({ "traceId": "t", "name": "n", "value": 2 }))],
    )
    .await;
    let scores = get(&app, "/api/public/v3/scores").await;
    assert_eq!(scores["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_update_that_comes_first_finds_its_trace_when_the_create_comes() {
    let app = TestApp::new().await.unwrap();
    send(&app, &[event("2", "generation-update", 2, json!({ "id": "o", "output": "late" }))]).await;
    assert_eq!(get(&app, "/api/public/observations/o").await["traceId"], "o");
    let create = json!({ "id": "o", "traceId": "t", "name": "n" });
    send(&app, &[event("1", "generation-create", 1, create)]).await;
    let observation = get(&app, "/api/public/observations/o").await;
    assert_eq!((&observation["traceId"], &observation["output"]), (&json!("t"), &json!("late")));
    assert_eq!(app.client.get("/api/public/traces/o").await.unwrap().status, 404);
}

#[tokio::test]
async fn a_deleted_trace_can_be_sent_again_and_a_trace_needs_no_observation() {
    let app = TestApp::new().await.unwrap();
    send(&app, &story()).await;
    let answer =
        app.client.json(Method::DELETE, "/api/public/traces/tr", &json!({})).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(app.client.get("/api/public/traces/tr").await.unwrap().status, 404);
    send(&app, &[event("9", "trace-create", 9, json!({ "id": "tr", "name": "anew" }))]).await;
    let trace = get(&app, "/api/public/traces/tr").await;
    assert_eq!((&trace["name"], &trace["userId"]), (&json!("anew"), &Value::Null));
    assert_eq!(trace["observations"], json!([]));
    let answer = app
        .client
        .json(Method::POST, "/api/public/generations", &json!({ "id": "g1", "traceId": "tr" }))
        .await
        .unwrap();
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "id": "g1" })));
    let update = json!({ "generationId": "g1", "output": "x" });
    let answer = app.client.json(Method::PATCH, "/api/public/generations", &update).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(get(&app, "/api/public/observations/g1").await["output"], "x");
}

#[tokio::test]
async fn a_span_from_otlp_keeps_fields_that_later_parts_omit() {
    let app = TestApp::new().await.unwrap();
    let (trace, id) = ("0123456789abcdef0123456789abcdef", "0123456789abcdef");
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let span = json!({ "traceId": trace, "spanId": id, "name": "ask", "kind": 1,
        "startTimeUnixNano": "1772359200000000000", "endTimeUnixNano": "1772359201000000000",
        "attributes": [text("gen_ai.request.model", "gpt-4o"),
            text("langfuse.observation.input", "question"),
            text("langfuse.observation.output", "answer"),
            text("langfuse.environment", "prod"), text("langfuse.version", "7")] });
    let export = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let path = "/api/public/otel/v1/traces";
    let answer = app.client.json(Method::POST, path, &export).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let before = get(&app, &format!("/api/public/traces/{trace}")).await;
    let parts = [
        event("1", "trace-create", 1, json!({ "id": trace, "userId": "ann" })),
        event(
            "2",
            "generation-update",
            2,
            json!({ "id": id, "traceId": trace, "level": "WARNING" }),
        ),
    ];
    send(&app, &parts).await;
    let after = get(&app, &format!("/api/public/traces/{trace}")).await;
    assert_eq!(after["userId"], "ann");
    assert_eq!(before["name"], "ask");
    for field in ["name", "input", "output", "version", "environment", "timestamp", "latency"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    let (was, is) = (&before["observations"][0], &after["observations"][0]);
    assert_eq!(is["level"], "WARNING");
    for field in
        ["name", "type", "startTime", "endTime", "model", "input", "output", "version", "metadata"]
    {
        assert_eq!(is[field], was[field], "{field}");
    }
    assert_eq!(was["output"], "answer");
}

#[tokio::test]
async fn a_body_with_a_content_encoding_is_refused_as_such_and_not_as_bad_json() {
    let app = TestApp::new().await.unwrap();
    let score = json!({ "traceId": "t", "name": "s", "value": 1 }).to_string();
    let json = ("content-type", "application/json");
    for path in [BATCH, "/api/public/scores", "/api/public/v2/prompts"] {
        for encoding in ["gzip", "GZIP", "br", "zstd", "deflate", "identity, gzip", "x"] {
            let headers = [json, ("content-encoding", encoding)];
            let sent = app.client.send(Method::POST, path, &headers, "\u{1f}\u{8b}");
            let refused = sent.await.unwrap();
            assert_eq!(refused.status, 415, "{path} {encoding}");
            assert!(refused.text().contains("Content-Encoding"), "{}", refused.text());
        }
    }
    let headers = [json, ("content-encoding", "identity")];
    let sent = app.client.send(Method::POST, "/api/public/scores", &headers, score);
    assert_eq!(sent.await.unwrap().status, 200);
}
