//! Trials of evaluators over chosen and recent targets, and the page that tries a stored evaluator without script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, count};
use serde_json::{Value, json};

use crate::judges::{call, connect, judge};
use crate::pages::Visitor;
use crate::rule_preview::send;
use crate::trials::{TRIAL, left_nothing};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const OUTPUT: &str = "perpend.observation.output";

fn of_ids(ids: &str) -> [(&'static str, &str); 4] {
    [("action", "try"), ("try_from", "ids"), ("try_target", "observation"), ("try_ids", ids)]
}

async fn thankful(app: &TestApp) -> String {
    let config = json!({ "terms": ["Thank"] });
    app.evaluator("perpend/text", "contains-any", config).await.unwrap()
}

#[tokio::test]
async fn the_fifty_newest_matches_are_tried_and_nothing_is_stored() {
    let app = TestApp::new().await.unwrap();
    let evaluator = thankful(&app).await;
    for n in 1..=52 {
        let name = if n == 1 { "other" } else { "ticket" };
        send(&app, &Trace::new(n, name).attribute(OUTPUT, "Thank you.")).await;
    }
    let named = |name: &str| json!([{ "type": "string", "column": "name", "operator": "=", "value": name }]);
    let trial = |recent: Value| json!({ "evaluatorId": evaluator, "recent": recent });
    let body = trial(json!({ "filter": named("ticket"), "limit": 50 }));
    let (status, tried) = call(&app, Method::POST, TRIAL, body).await;
    assert_eq!((status, count(&tried)), (200, 50), "{tried}");
    for result in tried["data"].as_array().unwrap() {
        assert_eq!(result["scores"][0]["value"], 1.0, "{result}");
        assert_ne!(result["traceId"], Trace::new(1, "other").id.as_str(), "{result}");
    }
    let body = trial(json!({ "target": "trace", "filter": named("other") }));
    let (status, tried) = call(&app, Method::POST, TRIAL, body).await;
    assert_eq!((status, count(&tried)), (200, 1), "{tried}");
    assert_eq!(tried["data"][0]["observationId"], Value::Null, "{tried}");
    let (_, tried) = call(&app, Method::POST, TRIAL, trial(json!({ "filter": named("x") }))).await;
    assert_eq!(tried, json!({ "data": [] }));
    left_nothing(&app).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_shows_results_next_to_stored_scores_and_scores_by_people() {
    let app = TestApp::new().await.unwrap();
    let evaluator = thankful(&app).await;
    app.rule(&evaluator, json!({})).await.unwrap();
    let trace = Trace::new(1, "ticket").attribute(OUTPUT, "Thank you.");
    app.ingest(&trace).await.unwrap();
    app.scores(1).await.unwrap();
    let config = json!({ "name": "contains-any", "dataType": "NUMERIC" });
    let (_, config) = call(&app, Method::POST, "/api/public/score-configs", config).await;
    let by_hand = json!({
        "traceId": trace.id, "observationId": Trace::span_id(1), "name": "contains-any", "value": 0,
        "dataType": "NUMERIC", "source": "ANNOTATION", "configId": config["id"],
    });
    let (status, made) = call(&app, Method::POST, "/api/public/scores", by_hand).await;
    assert_eq!(status, 200, "{made}");

    let visitor = Visitor::of(&app).await;
    let page = format!("/evaluators/{evaluator}/try");
    let chosen =
        visitor.page(&format!("{page}?trace={}&observation={}", trace.id, Trace::span_id(1))).await;
    let url = format!("{}/traces/{}?observation={}", visitor.base, trace.id, Trace::span_id(1));
    assert!(chosen.contains(&url), "{chosen}");
    let tried = visitor.submit(&page, &page, &of_ids(&Trace::span_id(1))).await;
    let text = tried.text();
    assert_eq!(tried.status, 200, "{text}");
    for (label, value) in
        [("Equal to the stored score", "1 of 1"), ("Equal to the score by people", "0 of 1")]
    {
        let (_, rest) = text.split_once(label).unwrap();
        let (shown, _) = rest.split_once("</dd>").unwrap();
        assert!(shown.contains(value), "{label}: {shown}");
    }
    for wrong in ["", "none"] {
        let refused = visitor.submit(&page, &page, &of_ids(wrong)).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().contains("id=\"problem-try_ids\""), "{}", refused.text());
    }
    app.scores(2).await.unwrap();
    let stored = app.client.get("/api/public/v3/scores").await.unwrap().json();
    assert_eq!(count(&stored), 2, "a trial stores nothing: {stored}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn recent_targets_and_a_written_item_are_tried_without_script() {
    let app = TestApp::new().await.unwrap();
    let evaluator = thankful(&app).await;
    send(&app, &Trace::new(1, "ticket").attribute(OUTPUT, "Go away.")).await;
    let visitor = Visitor::of(&app).await;
    let page = format!("/evaluators/{evaluator}/try");
    let own = visitor.page(&format!("/evaluators/{evaluator}")).await;
    assert!(own.contains(&format!("{page}\"")), "{own}");
    let recent = |q: &'static str, limit: &'static str| {
        let target = ("try_target", "observation");
        [("action", "try"), ("try_from", "recent"), target, ("try_q", q), ("try_limit", limit)]
    };
    let tried = visitor.submit(&page, &page, &recent("name:ticket", "5")).await;
    assert_eq!(tried.status, 200, "{}", tried.text());
    assert!(tried.text().contains("Results by target"), "{}", tried.text());
    let none = visitor.submit(&page, &page, &recent("name:other", "")).await;
    assert_eq!(none.status, 200, "{}", none.text());
    assert!(!none.text().contains("Results by target"), "{}", none.text());
    for (q, limit, field) in
        [("weather:fine", "5", "try_q"), ("", "0", "try_limit"), ("", "many", "try_limit")]
    {
        let refused = visitor.submit(&page, &page, &recent(q, limit)).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        let problem = format!("id=\"problem-{field}\"");
        assert!(refused.text().contains(&problem), "{problem}: {}", refused.text());
    }
    let written =
        |item: &'static str| [("action", "try"), ("try_from", "item"), ("try_item", item)];
    let tried = visitor.submit(&page, &page, &written("{\"output\": \"Thank you.\"}")).await;
    assert!(tried.text().contains("Results by target"), "{}", tried.text());
    for wrong in ["[]", "{\"outputs\": 1}"] {
        let refused = visitor.submit(&page, &page, &written(wrong)).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().contains("id=\"problem-try_item\""), "{}", refused.text());
    }
    left_nothing(&app).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_calls_and_the_cost_of_a_judge_are_estimated_before_the_first_call() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": { "reasoning": "It thanks.", "score": 0.9 } }])).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    for n in 1..=3 {
        send(&app, &Trace::new(n, "ticket").generation("answer", "Thank you.")).await;
    }
    let visitor = Visitor::of(&app).await;
    let page = format!("/evaluators/{}/try", made["id"].as_str().unwrap());
    let fields = |action: &'static str, q: &'static str| {
        let limit = ("try_limit", "3");
        [("action", action), ("try_from", "recent"), ("try_q", q), limit]
    };
    let estimated = visitor.submit(&page, &page, &fields("estimate", "type:GENERATION")).await;
    let text = estimated.text();
    assert_eq!(estimated.status, 200, "{text}");
    assert!(text.contains("3 model calls, about $"), "{text}");
    assert!(!text.contains("Results by target"), "{text}");
    left_nothing(&app).await;
    let none = visitor.submit(&page, &page, &fields("estimate", "name:nothing")).await;
    assert!(none.text().contains("cannot be scored"), "{}", none.text());
    let tried = visitor.submit(&page, &page, &fields("try", "type:GENERATION")).await;
    assert!(tried.text().contains("3 calls"), "{}", tried.text());
    left_nothing(&app).await;
    app.stop().await.unwrap();
}
