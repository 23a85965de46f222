//! Rules that name a version of their evaluator: it stays pinned, or runs in the shadow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";

/// Saves the evaluator that finds this term as the next version.
async fn next_version(app: &TestApp, evaluator: &str, term: &str) {
    let body = json!({
        "type": "plugin", "plugin": "perpend/text", "evaluator": "contains-any",
        "config": { "terms": [term] },
    });
    let path = format!("{EVALUATORS}/{evaluator}");
    let (status, made) = call(app, Method::PATCH, &path, body).await;
    assert_eq!(status, 200, "{made}");
}

/// Sends a trace with one generation of this output; returns its scores.
async fn sent(app: &TestApp, number: u64, output: &str) -> Vec<Value> {
    let trace = Trace::new(number, "ticket").generation("answer", output);
    app.ingest(&trace).await.unwrap();
    let path = format!(
        "/api/public/v3/scores?fields=details,subject&traceId={}",
        perpend_it::trace_id(number)
    );
    let listed = app.wait_for(&path, |listed| count(listed) == 1).await;
    listed.unwrap()["data"].as_array().unwrap().clone()
}

/// The only execution of a trace in which a version ran in the shadow, once it has ended.
async fn in_the_shadow(app: &TestApp, number: u64) -> Value {
    let path = format!("/api/v1/executions?traceId={}", perpend_it::trace_id(number));
    let shadow = |listed: &Value| {
        let mut all = listed["data"].as_array().unwrap().iter();
        all.find(|each| each["shadowVersion"].is_number()).cloned()
    };
    let listed = app
        .wait_for(&path, |listed| shadow(listed).is_some_and(|each| each["state"] == "completed"));
    let id = shadow(&listed.await.unwrap()).unwrap()["id"].clone();
    let path = format!("/api/v1/executions/{}", id.as_str().unwrap());
    app.client.get(&path).await.unwrap().json()
}

async fn story(app: TestApp) {
    let config = json!({ "terms": ["one"] });
    let made = app.evaluator("perpend/text", "contains-any", config).await;
    let evaluator = made.unwrap();
    let generations = json!([
        { "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] },
    ]);
    let pinned = json!({ "versionPolicy": "pinned:1", "filter": generations });
    let rule = app.rule(&evaluator, pinned).await.unwrap();
    let path = format!("{RULES}/{rule}");
    let policy = async || {
        let rule = app.client.get(&path).await.unwrap().json();
        rule["evaluatorAssignments"][0]["versionPolicy"].clone()
    };
    assert_eq!(policy().await, "pinned:1");

    // A later version does not replace the pinned one.
    next_version(&app, &evaluator, "two").await;
    assert_eq!(sent(&app, 1, "one").await[0]["value"], 1.0);
    assert_eq!(sent(&app, 2, "two").await[0]["value"], 0.0);

    // A client that does not know of versions leaves the policy as it is.
    let same = json!({ "evaluatorAssignments": [{ "evaluatorId": evaluator }] });
    assert_eq!(call(&app, Method::PATCH, &path, same).await.0, 200);
    assert_eq!(policy().await, "pinned:1");

    // The newest version runs in the shadow: the one before it scores, and its own scores stand aside.
    let shadow = json!({ "versionPolicy": "shadow:2" });
    assert_eq!(call(&app, Method::PATCH, &path, shadow).await.0, 200);
    let scores = sent(&app, 3, "two").await;
    assert_eq!(scores[0]["value"], 0.0, "{scores:?}");
    assert!(scores[0]["metadata"].get("shadow").is_none(), "{scores:?}");
    let run = in_the_shadow(&app, 3).await;
    assert_eq!(run["shadowVersion"], 2, "{run}");
    let aside = &run["supersededScores"];
    assert_eq!(
        (&aside[0]["value"], &aside[0]["metadata"]["shadow"]),
        (&json!(1.0), &json!(true)),
        "{run}"
    );
    assert_eq!(aside[0]["name"], scores[0]["name"], "{run}");
    let explain = format!(
        "/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId={}",
        perpend_it::trace_id(3),
        run["observationId"].as_str().unwrap()
    );
    let explained = app.client.get(&explain).await.unwrap().json();
    let assignments = explained["details"]["assignments"].as_array().unwrap();
    assert_eq!(assignments.len(), 2, "{explained}");
    assert_eq!(assignments[1]["shadowVersion"], 2, "{explained}");
    assert_eq!(assignments[1]["executionId"], run["id"], "{explained}");

    // Its executions have ids of their own: back at the newest version, nothing is scored twice.
    let latest = json!({ "versionPolicy": "latest" });
    assert_eq!(call(&app, Method::PATCH, &path, latest).await.0, 200);
    assert_eq!(policy().await, Value::Null);
    assert_eq!(sent(&app, 4, "two").await[0]["value"], 1.0);
    let listed = app.client.get("/api/public/v3/scores").await.unwrap();
    assert_eq!(count(&listed.json()), 4);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_pinned_version_stays_and_one_in_the_shadow_scores_aside() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_with_workers_versions_are_pinned_and_shadowed_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("made as one");
    };
    let settings = [("database.url", url.as_str()), PROCESSES];
    story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_shadow_version_without_its_model_affects_no_other() {
    let app = TestApp::new().await.unwrap();
    let reply = json!({ "reply": { "reasoning": "So it is.", "score": 0.9 } });
    connect(&app, "main", json!([reply])).await;
    // It exists when the version is saved, and is deleted before the scoring.
    let gone = json!({ "contains": "gone", "error": { "status": 404 } });
    connect(&app, "other", json!([gone, reply])).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    let evaluator = made["id"].as_str().unwrap();
    let mut second = judge(Some("gpt-4o-mini"));
    second["modelConfig"]["provider"] = json!("other");
    let path = format!("{EVALUATORS}/{evaluator}");
    let (status, saved) = call(&app, Method::PATCH, &path, second).await;
    assert_eq!(status, 200, "{saved}");
    let mut more = generations();
    more["versionPolicy"] = json!("shadow:2");
    app.rule(evaluator, more).await.unwrap();
    for number in 1..4 {
        assert_eq!(sent(&app, number, "gone").await[0]["value"], 0.9);
        let path = format!("/api/v1/executions?traceId={}", perpend_it::trace_id(number));
        let ended = app.wait_for(&path, |listed| {
            let mut all = listed["data"].as_array().unwrap().iter();
            all.any(|each| each["shadowVersion"] == 2 && each["state"] == "failed")
        });
        ended.await.unwrap();
    }
    let health = app.client.get("/api/v1/evaluation-health").await.unwrap();
    assert_eq!(health.json()["status"], "ok", "{}", health.text());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_policy_that_names_no_version_of_the_evaluator_is_refused_with_its_field() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["one"] });
    let made = app.evaluator("perpend/text", "contains-any", config).await;
    let evaluator = made.unwrap();
    let rule = |policy: Value| {
        json!({
            "name": "rule", "enabled": true,
            "evaluatorAssignments": [{ "evaluatorId": evaluator, "versionPolicy": policy }],
        })
    };
    for (policy, problem) in [
        (json!("pinned:2"), "must not exceed version 1"),
        (json!("shadow:1"), "must leave a version"),
        (json!("shadow:4294967296"), "`latest`, `pinned:N` or `shadow:N`"),
        (json!("pinned:0"), "`latest`, `pinned:N` or `shadow:N`"),
        (json!("pinned:+1"), "`latest`, `pinned:N` or `shadow:N`"),
        (json!("newest"), "`latest`, `pinned:N` or `shadow:N`"),
        (json!(1), "string"),
    ] {
        let (status, answer) = call(&app, Method::POST, RULES, rule(policy.clone())).await;
        assert_eq!(status, 400, "{policy}: {answer}");
        let answer = answer.to_string();
        assert!(
            answer.contains("evaluatorAssignments[0].versionPolicy") && answer.contains(problem),
            "{policy}: {answer}"
        );
    }
    app.stop().await.unwrap();
}
