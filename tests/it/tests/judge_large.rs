//! Judges over traces that are longer than any prompt: refused, digested, or explored with tools.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{OTLP, TestApp, Trace, count, trace_id};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const TRIAL: &str = "/api/v1/evaluations/trial";
const N_STEPS: u64 = 120;
/// Bytes of the output of a step: 3.2 MB together, about 800,000 tokens.
const STEP: usize = 27_000;
/// The step with the fact, and where in its output it is looked for.
const FACT: u64 = 60;
const FACT_OFFSET: usize = 20_000;
const FAILED: u64 = 80;

/// The output of an observation. The fact is outside the excerpt that a search returns.
fn output(step: u64) -> String {
    let mut output = format!("step {step} went as planned. ").repeat(STEP / 20);
    if step == FACT {
        let fact = format!("Invoice 99172 {}The CODE is 4711.", ". ".repeat(200));
        output.replace_range(FACT_OFFSET..FACT_OFFSET + fact.len(), &fact);
    }
    output.truncate(STEP);
    if step == FAILED {
        "The booking failed: the card was declined.".clone_into(&mut output);
    }
    output
}

/// A root with 120 generations below it, of which one failed.
fn trace(number: u64) -> Value {
    let span = |n: u64, name: &str, output: Option<String>| {
        let text = |key: &str, text: &str| json!({ "key": key, "value": { "stringValue": text } });
        let attributes = output.map(|output| {
            [
                text("perpend.observation.type", "generation"),
                text("perpend.observation.output", &output),
            ]
        });
        json!({
            "traceId": trace_id(number), "spanId": Trace::span_id(n), "name": name,
            "parentSpanId": if n == 1 { String::new() } else { Trace::span_id(1) },
            "startTimeUnixNano": (1_770_000_000_000_000_000 + n * 1_000_000).to_string(),
            "endTimeUnixNano": (1_770_000_000_000_000_000 + n * 9_000_000).to_string(),
            "status": if n == FAILED + 1 { json!({ "code": 2 }) } else { json!({}) },
            "attributes": attributes.map_or_else(Vec::new, Vec::from),
        })
    };
    let steps = (1..=N_STEPS).map(|step| span(step + 1, "step", Some(output(step))));
    let spans: Vec<Value> = [span(1, "booking", None)].into_iter().chain(steps).collect();
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] })
}

async fn send(app: &TestApp, number: u64) {
    let sent = app.client.json(Method::POST, OTLP, &trace(number)).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    let stored = format!("/api/public/v2/observations?traceId={}&limit=1", trace_id(number));
    app.wait_for(&stored, |listed| count(listed) == 1).await.unwrap();
}

/// A model that searches, reads the hit, and reports whether it has seen the fact.
fn explorer() -> Value {
    let exploring = "Look into the trace with the tools";
    let read = json!({
        "observation": Trace::span_id(FACT + 1), "part": "output", "from": FACT_OFFSET, "bytes": 600,
    });
    json!([
        { "contains": exploring, "turn": 1, "usage": { "input": 20_000, "output": 20 },
          "toolCalls": [{ "name": "search", "arguments": { "text": "INVOICE 99172" } }] },
        { "contains": exploring, "turn": 2, "usage": { "input": 20_100, "output": 30 },
          "toolCalls": [{ "name": "read", "arguments": read }] },
        { "contains": exploring, "turn": 3, "reply": "ready", "usage": { "input": 20_300, "output": 1 } },
        { "contains": "The CODE is 4711.", "reply": { "reasoning": "The code was told: 4711.", "score": true } },
        { "contains": "the card was declined", "reply": { "reasoning": "The booking failed.", "score": false } },
        { "reply": { "reasoning": "There is no code.", "score": false } },
    ])
}

fn judge(large: &str, grants: &Value) -> Value {
    json!({
        "type": "plugin", "name": format!("told-{large}"), "plugin": "perpend/judge", "evaluator": "judge",
        "grants": grants,
        "config": {
            "prompt": "Was the code of the invoice told?\n{{output}}", "large": large, "max_input_tokens": 20_000,
            "output": { "dataType": "BOOLEAN", "score": { "description": "The code was told." } },
        },
        "variableMapping": [{ "variable": "output", "source": "observation:type=generation,all.output" }],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": "m" } }],
    })
}

async fn made(app: &TestApp, large: &str) -> String {
    let body = judge(large, &json!(["model", "trace"]));
    let (status, made) = call(app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// The result of a trial of a judge on the trace.
async fn tried(app: &TestApp, evaluator: &str, number: u64) -> Value {
    let body = json!({ "evaluatorId": evaluator, "targets": [{ "traceId": trace_id(number) }] });
    let (status, tried) = call(app, Method::POST, TRIAL, body).await;
    assert_eq!(status, 200, "{tried}");
    tried["data"][0].clone()
}

async fn explored_story(app: TestApp) {
    connect(&app, "main", explorer()).await;
    let evaluator = made(&app, "explore").await;
    let of_traces = json!({ "target": "trace", "settleMs": 0, "quietMs": 0 });
    app.rule(&evaluator, of_traces).await.unwrap();
    send(&app, 1).await;
    let scores = app.scores(1).await.unwrap();
    let score = &scores[0];
    assert_eq!(score["comment"], "The code was told: 4711.", "{score}");
    let explored = &score["metadata"]["explored"];
    assert_eq!(
        (&explored["calls"], &explored["model_calls"], &explored["ended"]),
        (&json!(2), &json!(3), &json!("enough")),
        "{score}"
    );
    assert_eq!(explored["input_tokens"], 60_400, "{score}");
    let evidence = explored["evidence"].as_array().unwrap();
    let tools: Vec<_> = evidence.iter().map(|one| one["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["outline", "search", "read"], "{score}");
    assert_eq!(evidence[0]["observations"], N_STEPS + 1);
    assert_eq!(
        (&evidence[2]["observation"], &evidence[2]["from"], &evidence[2]["to"]),
        (&json!(Trace::span_id(FACT + 1)), &json!(FACT_OFFSET), &json!(FACT_OFFSET + 600))
    );
    let read = &output(FACT)[FACT_OFFSET..FACT_OFFSET + 600];
    let digest = perpend_domain::plugin::Digest::of(read.as_bytes()).to_string();
    assert_eq!(evidence[2]["sha256"], digest);

    // Made again it is the same, byte for byte: nothing of it depends on time or chance.
    let first = tried(&app, &evaluator, 1).await;
    let again = tried(&app, &evaluator, 1).await;
    assert_eq!(first["scores"].to_string(), again["scores"].to_string());
    let shown = &first["scores"][0]["metadata"]["explored"]["evidence"];
    assert_eq!(shown.to_string(), explored["evidence"].to_string(), "{first}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_fact_in_a_trace_of_800_000_tokens_is_found_with_tools() {
    explored_story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_fact_in_a_large_trace_is_found_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    explored_story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_digest_shows_the_failed_step_and_reports_omissions() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", explorer()).await;
    let evaluator = made(&app, "digest").await;
    send(&app, 1).await;
    let result = tried(&app, &evaluator, 1).await;
    let score = &result["scores"][0];
    assert_eq!(score["comment"], "The booking failed.", "{result}");
    let digest = &score["metadata"]["digest"];
    assert_eq!(digest["observations"], N_STEPS + 1, "{score}");
    let (all, kept) = (digest["bytes"].as_u64().unwrap(), digest["kept_bytes"].as_u64().unwrap());
    assert!(3_000_000 < all && kept < 80_000, "{digest}");
    assert!(score["metadata"]["truncated"]["output"]["bytes"].as_u64().unwrap() > 3_000_000);
    assert_eq!(result["modelCalls"].as_array().unwrap().len(), 1);
    let again = tried(&app, &evaluator, 1).await;
    assert_eq!(again["scores"], result["scores"]);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_long_prompt_fails_unless_the_judge_allows_it() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", explorer()).await;
    let evaluator = made(&app, "fail").await;
    send(&app, 1).await;
    let result = tried(&app, &evaluator, 1).await;
    let response = result["errorMessage"].as_str().unwrap();
    assert!(response.contains("context_too_long"), "{result}");
    let calls = result["modelCalls"].as_array();
    assert!(calls.is_none_or(Vec::is_empty), "{result}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn only_a_judge_that_reads_the_trace_has_to_be_granted_it() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", explorer()).await;
    let model = json!(["model"]);
    for (large, status) in [("digest", 422), ("explore", 422), ("fail", 200)] {
        let (answered, response) = call(&app, Method::POST, EVALUATORS, judge(large, &model)).await;
        assert_eq!(answered, status, "{large}: {response}");
        let names = response.to_string();
        assert_eq!(names.contains("must contain `trace`"), status == 422, "{response}");
    }
    let both = json!(["model", "trace"]);
    for (member, value, expected_part) in [
        ("panel", json!({ "repeats": 3 }), "/panel"),
        ("max_input_tokens", Value::Null, "/large"),
        ("explore", json!({ "max_calls": 51 }), "max_calls"),
    ] {
        let mut body = judge("explore", &both);
        body["config"][member] = value;
        let (status, response) = call(&app, Method::POST, EVALUATORS, body).await;
        assert!((400..500).contains(&status), "{member}: {response}");
        assert!(response.to_string().contains(expected_part), "{member}: {response}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_exploration_that_would_cost_more_than_its_slot_allows_ends_without_a_score() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", explorer()).await;
    send(&app, 1).await;
    // An exchange has 20,000 tokens of input, at 0.15 dollars for a million: 0.003 dollars.
    for (limit, class) in [(0.02, Value::Null), (0.0065, json!("invalid_input"))] {
        let mut body = judge("explore", &json!(["model", "trace"]));
        body["name"] = json!(format!("at most {limit}"));
        body["slots"][0]["model"]["model"] = json!("gpt-4o-mini");
        body["slots"][0]["limits"] = json!({ "maxUsd": limit, "maxOutputTokens": 100 });
        let (status, made) = call(&app, Method::POST, EVALUATORS, body).await;
        assert_eq!(status, 200, "{made}");
        // Fresh calls: stored replies cost nothing.
        let body = json!({
            "evaluatorId": made["id"], "targets": [{ "traceId": trace_id(1) }], "fresh": true,
        });
        let (_, tried) = call(&app, Method::POST, TRIAL, body).await;
        let mut tried = tried["data"][0].clone();
        tried["item"] = Value::Null;
        assert_eq!(tried["errorClass"], class, "{tried}");
        let cost = tried["costUsd"].as_f64().unwrap();
        assert!(0.0 < cost && cost <= limit, "{limit}: {tried}");
        let message = tried["errorMessage"].as_str().unwrap_or("limits.maxUsd");
        assert!(message.contains("limits.maxUsd"), "{tried}");
    }
    let mut body = judge("explore", &json!(["model", "trace"]));
    body["slots"][0]["limits"] = json!({ "maxUsd": 0 });
    let (status, answer) = call(&app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("limits.maxUsd"), "{answer}");
    app.stop().await.unwrap();
}
