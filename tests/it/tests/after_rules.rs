//! Rules that wait for others: a cheap check decides where the judge runs, and a person's thumbs-down starts it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{PROCESSES, TestApp, Trace, count, trace_id};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, connect, judge};

const RULES: &str = "/api/public/v2/evaluation-rules";

/// Names and values of the scores of a trace, once there are so many.
async fn scores(app: &TestApp, number: u64, n: usize) -> Vec<(String, Value)> {
    let path = format!("/api/public/v3/scores?traceId={}", trace_id(number));
    let listed = app.wait_for(&path, |listed| count(listed) == n).await;
    let listed = listed.unwrap();
    let all = listed["data"].as_array().unwrap().iter();
    let named = all.map(|each| (each["name"].as_str().unwrap().to_owned(), each["value"].clone()));
    let mut named: Vec<_> = named.collect();
    named.sort_by(|one, other| one.0.cmp(&other.0));
    named
}

async fn explain(app: &TestApp, rule: &str, number: u64, observation: &Value) -> Value {
    let path = format!(
        "/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId={}",
        trace_id(number),
        observation.as_str().unwrap()
    );
    app.client.get(&path).await.unwrap().json()
}

async fn story(app: TestApp) {
    let reply = json!({ "reply": { "reasoning": "So it is.", "score": 0.25 } });
    connect(&app, "main", json!([reply])).await;
    let config = json!({ "terms": ["order"] });
    let made = app.evaluator("perpend/text", "contains-any", config).await;
    let cheap = made.unwrap();
    let (_, made) =
        call(&app, Method::POST, "/api/public/v2/evaluators", judge(Some("gpt-4o-mini"))).await;
    let dear = made["id"].as_str().unwrap().to_owned();
    let generations = json!({
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
    });
    let first = app.rule(&cheap, json!({ "filter": [generations] })).await.unwrap();
    let path = format!("/api/public/v2/evaluators/{cheap}");
    let named = app.client.get(&path).await.unwrap().json()["name"].clone();
    let missed = json!({
        "type": "numberObject", "column": "scores_avg", "key": named, "operator": "=", "value": 0,
    });
    let more =
        json!({ "name": "second", "filter": [generations, missed], "after": [first], "audit": 0 });
    let second = app.rule(&dear, more).await.unwrap();
    let thumbs_down = json!({
        "type": "booleanObject", "column": "score_booleans", "key": "thumb", "operator": "=",
        "value": false,
    });
    let more = json!({ "name": "third", "filter": [generations, thumbs_down] });
    let third = app.rule(&dear, more).await.unwrap();
    let shown = app.client.get(&format!("{RULES}/{second}")).await.unwrap();
    assert_eq!(shown.json()["after"], json!([first]), "{}", shown.text());
    assert_eq!(shown.json()["audit"], 0.0);

    // The cheap rule does not score the first observation, and only for this one the judge is called.
    let quiet = Trace::new(1, "ticket").generation("answer", "something else");
    let good = Trace::new(2, "ticket").generation("answer", "the order");
    app.ingest(&quiet).await.unwrap();
    app.ingest(&good).await.unwrap();
    let judged = scores(&app, 1, 2).await;
    assert!(judged.contains(&("politeness".to_owned(), json!(0.25))), "{judged:?}");
    assert_eq!(scores(&app, 2, 1).await[0].1, 1.0);
    let path = format!("/api/v1/executions?traceId={}", trace_id(2));
    let of_good = app.client.get(&path).await.unwrap().json();
    let observation = of_good["data"][0]["observationId"].clone();
    let explained = explain(&app, &second, 2, &observation).await;
    assert_eq!(explained["step"], "not_matched", "{explained}");
    assert_eq!(explained["details"]["actual"], 1.0, "{explained}");
    let explained = explain(&app, &third, 2, &observation).await;
    assert_eq!(explained["step"], "not_matched", "{explained}");

    // A user disagrees twice: the judge is called once.
    for id in ["one", "two"] {
        let thumb = json!({
            "id": id, "traceId": trace_id(2), "observationId": observation, "name": "thumb",
            "value": 0, "dataType": "BOOLEAN",
        });
        let (status, answer) = call(&app, Method::POST, "/api/public/scores", thumb).await;
        assert_eq!(status, 200, "{answer}");
    }
    let judged = scores(&app, 2, 4).await;
    assert!(judged.contains(&("politeness".to_owned(), json!(0.25))), "{judged:?}");
    let explained = explain(&app, &third, 2, &observation).await;
    assert_eq!(explained["step"], "taken", "{explained}");

    // A rule that is deleted is not waited for.
    let (status, _) = call(&app, Method::DELETE, &format!("{RULES}/{first}"), json!({})).await;
    assert_eq!(status, 200);
    let shown = app.client.get(&format!("{RULES}/{second}")).await.unwrap();
    assert_eq!(shown.json()["after"], Value::Null, "{}", shown.text());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_cheap_check_decides_where_the_judge_runs_and_a_thumbs_down_starts_it() {
    story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_with_workers_rules_wait_for_others_as_on_sqlite() {
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
async fn a_rule_with_an_impossible_dependency_is_refused_with_its_field() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["one"] });
    let made = app.evaluator("perpend/text", "contains-any", config).await;
    let evaluator = made.unwrap();
    let rule = async |name: &str, more: Value| {
        let mut more = more;
        more["name"] = json!(name);
        app.rule(&evaluator, more).await.unwrap()
    };
    let first = rule("first", json!({})).await;
    let second = rule("second", json!({ "after": [first] })).await;
    let third = rule("third", json!({ "after": [second] })).await;
    let fourth = rule("fourth", json!({ "after": [third] })).await;
    let traces = rule("traces", json!({ "target": "trace" })).await;
    for (path, body, field, problem) in [
        (&first, json!({ "after": [third] }), "after[0]", "depends on this rule"),
        (&first, json!({ "after": [first] }), "after[0]", "depend on itself"),
        (&first, json!({ "after": ["no-such-rule"] }), "after[0]", "unknown rule"),
        (&first, json!({ "after": [""] }), "after[0]", ""),
        (&first, json!({ "after": [traces] }), "after[0]", "contain the targets"),
        (&traces, json!({ "after": [first, first] }), "after[1]", "duplicate rule"),
        (&traces, json!({ "after": [fourth] }), "after", "at most 3"),
        (&traces, json!({ "after": vec!["x"; 21] }), "after", "at most 20"),
        (&first, json!({ "target": "trace" }), "target", "depends on this rule"),
        (&first, json!({ "audit": 1.5 }), "audit", "from 0 to 1"),
        (&first, json!({ "audit": -0.1 }), "audit", "from 0 to 1"),
    ] {
        let path = format!("{RULES}/{path}");
        let (status, answer) = call(&app, Method::PATCH, &path, body.clone()).await;
        assert_eq!(status, 400, "{body}: {answer}");
        let answer = answer.to_string();
        assert!(
            answer.contains(&format!("\"{field}\"")) && answer.contains(problem),
            "{body}: {answer}"
        );
    }
    app.stop().await.unwrap();
}
