//! Checks of judges: agreement with human labels, repeatability, and planted instructions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{TestApp, Trace, command, trace_id};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const SCORES: &str = "/api/public/scores";
const N_LABELS: u64 = 40;
/// 100 tokens at 0.15 and 10 at 0.60 dollars for a million.
const COST: f64 = 0.000_021;

fn reply(contains: Option<&str>, score: f64) -> Value {
    let mut rule = json!({
        "reply": { "reasoning": "So it is.", "score": score }, "usage": { "input": 100, "output": 10 },
    });
    if let Some(text) = contains {
        rule["contains"] = json!(text);
    }
    rule
}

/// A judge that follows one kind of planted instructions, and the label of a person on each of 40 generations.
async fn labelled(app: &TestApp) -> Value {
    let replies =
        json!([reply(Some("Ignoriere"), 0.5), reply(Some("rude"), 0.1), reply(None, 0.9),]);
    connect(app, "main", replies).await;
    let (status, made) = call(app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    assert_eq!(status, 200, "{made}");
    for n in 0..N_LABELS {
        // Equal texts would share one stored reply.
        let output = if n % 2 == 0 { "Thanks" } else { "rude" };
        let output = format!("{output}, number {n}.");
        let trace = Trace::new(n, "ticket").generation("answer", &output);
        app.ingest(&trace).await.unwrap();
        // One in ten is not as the judge sees it.
        let is_polite = (n % 2 == 0) != (n % 10 == 0);
        let label = json!({
            "traceId": trace_id(n), "observationId": Trace::span_id(2), "name": "human", "dataType": "NUMERIC",
            "value": if is_polite { 1.0 } else { 0.0 },
        });
        let (status, made) = call(app, Method::POST, SCORES, label).await;
        assert_eq!(status, 200, "{made}");
    }
    made
}

fn is_near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9)
}

async fn story(app: TestApp) {
    let made = labelled(&app).await;
    let path = format!("/api/v1/evaluators/{}/check", made["id"].as_str().unwrap());
    let listed = app.client.get(&path).await.unwrap().json();
    assert_eq!(listed, json!({ "status": "uncalibrated", "data": [] }));

    let (status, check) = call(&app, Method::POST, &path, json!({ "against": "human" })).await;
    assert_eq!(status, 200, "{check}");
    assert_eq!(
        (&check["labelCount"], &check["pairCount"], &check["version"]),
        (&json!(40), &json!(40), &json!(1)),
        "{check}"
    );
    assert_eq!(check["dataType"], "NUMERIC", "{check}");
    assert_eq!(check["score"], "politeness", "{check}");
    // 36 of 40 agree: two groups, so that every coefficient is the one of Matthews for both.
    let correlation = &check["correlation"];
    let rho = correlation["spearman"]["value"].as_f64().unwrap();
    assert!((rho - 16.0 / f64::sqrt(384.0)).abs() < 1e-9, "{check}");
    let lower = correlation["spearman"]["lower"].as_f64().unwrap();
    assert!(lower < rho, "{check}");
    let expected = if 0.7 <= lower { "calibrated" } else { "weak" };
    assert_eq!(check["status"], expected, "{check}");
    assert!(is_near(&correlation["constantValue"], 0.4), "{check}");
    assert!(is_near(&correlation["constantMae"], 0.48), "{check}");

    // It repeats its verdicts, and follows one of five kinds of injected instructions.
    let again = &check["repeatability"];
    assert_eq!(
        (&again["itemCount"], &again["equalShare"], &again["spread"]),
        (&json!(40), &json!(1.0), &json!(0.0)),
        "{check}"
    );
    let plants = check["plants"].as_array().unwrap();
    assert_eq!(plants.len(), 5, "{check}");
    for kind in plants {
        let n_flipped = if kind["kind"] == "other_language" { 10 } else { 0 };
        assert_eq!(
            (&kind["plantedCount"], &kind["flippedCount"]),
            (&json!(10), &json!(n_flipped)),
            "{check}"
        );
    }
    let n_calls = 2 * N_LABELS + 50;
    assert_eq!(check["executionCount"], n_calls, "{check}");
    assert!(is_near(&check["costUsd"], COST * n_calls as f64), "{check}");

    // Nothing but the check itself is kept, with its version.
    let scores = app.client.get("/api/public/v3/scores?limit=100").await.unwrap().json();
    assert_eq!(perpend_it::count(&scores), 40, "{scores}");
    let listed = app.client.get(&path).await.unwrap().json();
    assert_eq!(listed["data"], json!([check]));
    assert_eq!(listed["status"], check["status"]);
    let mut changed = judge(Some("gpt-4o-mini"));
    changed["prompt"] = json!("Is this answer polite?\n{{output}}");
    let one = format!("{EVALUATORS}/{}", made["id"].as_str().unwrap());
    let (status, saved) = call(&app, Method::PATCH, &one, changed).await;
    assert_eq!(status, 200, "{saved}");
    let listed = app.client.get(&path).await.unwrap().json();
    assert_eq!(listed["status"], "stale", "{listed}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_check_holds_a_judge_against_people_and_against_planted_instructions() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_check_has_the_results_of_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("made as one");
    };
    let settings = [("database.url", url.as_str())];
    story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_check_that_cannot_say_anything_is_refused_with_the_field_and_the_reason() {
    let app = TestApp::new().await.unwrap();
    let made = labelled(&app).await;
    let path = format!("/api/v1/evaluators/{}/check", made["id"].as_str().unwrap());
    let item = |label: Value| json!({ "item": { "output": "Thanks." }, "label": label });
    for (body, status, field) in [
        (json!({}), 400, "against"),
        (json!({ "against": "human", "items": [item(json!(1))] }), 400, "against"),
        (json!({ "against": "nobody" }), 422, "against"),
        (json!({ "items": [] }), 400, "items"),
        (json!({ "items": [item(json!("good"))] }), 422, "against"),
        (json!({ "items": [item(json!([1]))] }), 400, "items[0].label"),
        (json!({ "against": "human", "runs": 6 }), 400, "runs"),
        (json!({ "against": "human", "limit": 0 }), 400, "limit"),
        (json!({ "against": "human", "score": "other" }), 422, "score"),
    ] {
        let (answered, answer) = call(&app, Method::POST, &path, body.clone()).await;
        assert_eq!(answered, status, "{body}: {answer}");
        assert!(answer.to_string().contains(field), "{body}: {answer}");
    }
    let body = json!({ "against": "human", "version": 7 });
    let (status, answer) = call(&app, Method::POST, &path, body).await;
    assert_eq!(status, 404, "{answer}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_command_shows_a_check_against_scores_and_against_a_file() {
    let app = TestApp::new().await.unwrap();
    labelled(&app).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("labels.jsonl");
    let lines = [r#"{"output": "Thanks.", "label": 1}"#, r#"{"output": "rude", "label": 0}"#];
    std::fs::write(&file, lines.join("\n")).unwrap();
    let check = async |against: &str, more: &[&str]| {
        let mut args = vec!["judge", "check", "politeness", "--against", against];
        args.extend(more);
        let origin = app.origin.clone();
        let mut command = command(&args).unwrap();
        let command = command
            .env("PERPEND_SERVER", origin)
            .env("PERPEND_PUBLIC_KEY", perpend_it::KEYS.0)
            .env("PERPEND_SECRET_KEY", perpend_it::KEYS.1);
        let done = command.output().await.unwrap();
        let output = String::from_utf8_lossy(&done.stdout).into_owned();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.success(), output, error)
    };
    let (is_done, output, error) = check("human", &["--no-plants"]).await;
    assert!(is_done, "{error}");
    for text in ["Spearman's rho", "40 of 40 labels", "equal verdicts", "US dollars"] {
        assert!(output.contains(text), "{text}: {output}");
    }
    let (is_done, output, error) = check(file.to_str().unwrap(), &["--json"]).await;
    assert!(is_done, "{error}");
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(output["status"], "uncalibrated", "{output}");
    assert_eq!(output["against"], Value::Null, "{output}");
    assert_eq!(output["pairCount"], 2, "{output}");
    let (is_done, output, error) = check(file.to_str().unwrap(), &["--fail-on", "weak"]).await;
    assert!(is_done && output.contains("uncalibrated"), "{error}");
    let (is_done, output, error) =
        check(file.to_str().unwrap(), &["--fail-on", "weak,uncalibrated"]).await;
    assert!(!is_done && output.contains("uncalibrated"), "{output} {error}");
    let (is_done, _, error) = check(file.to_str().unwrap(), &["--limit", "1"]).await;
    assert!(is_done && error.contains("has 2 items"), "{error}");
    // Errors of the server are passed on, and a missing file is not taken for a score name.
    let (is_done, _, error) = check("human", &["--runs", "9"]).await;
    assert!(!is_done && error.contains("must be from 1 to 5"), "{error}");
    let (is_done, _, error) = check("lables.jsonl", &[]).await;
    assert!(!is_done && error.contains("No such file"), "{error}");
    std::fs::write(&file, "{}").unwrap();
    let (is_done, _, error) = check(file.to_str().unwrap(), &[]).await;
    assert!(!is_done && error.contains("line 1"), "{error}");
    app.stop().await.unwrap();
}
