//! The replay of a session over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, trace_id};
use serde_json::{Value, json};

use crate::pages::Visitor;

/// A span of this trace that begins `at` milliseconds after the first one, with string attributes.
fn span(
    (trace, id, parent): (u64, u64, Option<u64>),
    name: &str,
    at: u64,
    attributes: &[(&str, &str)],
) -> Value {
    let attribute =
        |(key, value): &(&str, &str)| json!({ "key": key, "value": { "stringValue": value } });
    let nanos = |at: u64| format!("{}", 1_770_000_000_000_000_000_u64 + at * 1_000_000);
    json!({
        "traceId": trace_id(trace), "spanId": Trace::span_id(id),
        "parentSpanId": parent.map(Trace::span_id).unwrap_or_default(), "name": name,
        "startTimeUnixNano": nanos(at), "endTimeUnixNano": nanos(at + 1),
        "attributes": attributes.iter().map(attribute).collect::<Vec<_>>(),
    })
}

async fn send(app: &TestApp, spans: Vec<Value>) {
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let sent = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
}

#[tokio::test]
async fn a_turn_that_carries_its_whole_history_shows_what_is_new_in_it() {
    const TURNS: u64 = 23;
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let mut history = Vec::new();
    let mut spans = Vec::new();
    for n in 1..=TURNS {
        history.push(json!({ "role": "user", "content": format!("question {n}") }));
        let input = Value::from(history.clone()).to_string();
        let output = format!("answer {n}");
        history.push(json!({ "role": "assistant", "content": output }));
        let attributes = [
            ("session.id", "grows"),
            ("perpend.observation.input", input.as_str()),
            ("perpend.observation.output", output.as_str()),
        ];
        spans.push(span((n, 1, None), "turn", 1_000 * n, &attributes));
    }
    send(&app, spans).await;
    let first = visitor.page("/sessions/grows").await;
    for n in 1..=20 {
        assert_eq!(
            first.matches(&format!(">question {n}</pre>")).count(),
            1,
            "{n}: {first}"
        );
    }
    assert!(
        first.contains("same 12 messages as turn 6") && first.contains("href=\"#turn-6\""),
        "{first}"
    );
    // The window from turn 4 on: the turn before it was read to be compared.
    let later = visitor.page("/sessions/grows?turn=23").await;
    assert!(
        later.contains("same 6 messages as turn 3") && later.contains("href=\"?turn=3\""),
        "{later}"
    );
    assert!(!later.contains(">question 3</pre>") && later.contains(">question 4</pre>"));
    let those = format!(
        "/value?trace={}&part=input&as=conversation&n=12",
        trace_id(7)
    );
    let those = visitor.page(&those).await;
    assert_eq!(those.matches("<article class=\"message").count(), 12);
    assert!(those.contains("answer 6") && !those.contains("question 7"));
    app.stop().await.unwrap();
}
