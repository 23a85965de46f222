//! The list of evaluators and the page of one, without a script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use serde_json::{Value, json};

use crate::code_evaluators::{code, is_here};
use crate::judges::{call, connect, generations, judge};
use crate::pages::{Visitor, rows};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const SOURCE: &str = "export function evaluate(ctx) {\n  return { scores: [] };\n}\n";

/// Adds a version of a function of `perpend/text` with this configuration.
async fn change(app: &TestApp, id: &str, config: Value) {
    let body = json!({
        "type": "plugin", "plugin": "perpend/text", "evaluator": "length", "config": config,
    });
    let (status, changed) = call(app, Method::PATCH, &format!("{EVALUATORS}/{id}"), body).await;
    assert_eq!(status, 200, "{changed}");
}

/// A rule of generations with this name.
fn named(name: &str) -> Value {
    let mut rule = generations();
    rule["name"] = name.into();
    rule
}

/// The rest of the first row that contains a text.
fn row_of<'p>(page: &'p str, text: &str) -> &'p str {
    page.split_once(text).unwrap().1.split("</tr>").next().unwrap()
}

#[tokio::test]
async fn the_list_has_the_rules_the_scores_and_the_kind_of_each_evaluator() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let empty = visitor.page("/evaluators").await;
    for kind in ["plugin", "code", "llm_as_judge"] {
        assert!(empty.contains(&format!("\"type\": \"{kind}\"")), "{kind}: {empty}");
    }
    let used = app.evaluator("perpend/text", "length", json!({ "max": 20 })).await.unwrap();
    let rule = app.rule(&used, named("short answers")).await.unwrap();
    app.evaluator("perpend/text", "exact-match", json!({})).await.unwrap();
    app.ingest(&Trace::new(1, "ticket").generation("answer", "On Monday.")).await.unwrap();
    app.scores(1).await.unwrap();
    let list = visitor.page("/evaluators").await;
    assert_eq!(rows(&list), ["exact-match", "length"], "newest first");
    let row = row_of(&list, &format!("/evaluators/{used}\""));
    assert!(row.contains("plug-in") && row.contains("perpend/text"), "{row}");
    assert!(row.contains(&format!("/rules/{rule}\"")) && row.contains("short answers"), "{row}");
    assert!(row.contains("\">1</a>") && row.contains("active"), "{row}");
    // Names of evaluators lead to their page.
    let link = format!("/evaluators/{used}\"");
    for path in ["/rules".to_owned(), format!("/rules/{rule}"), "/scores".to_owned()] {
        let page = visitor.page(&path).await;
        assert!(page.contains(&link), "{path}: {page}");
    }
    let one = format!("/evaluators/{used}");
    for enabled in ["false", "true"] {
        let switch = format!("{one}/rules");
        let switched = visitor.submit(&one, &switch, &[("enabled", enabled)]).await;
        assert_eq!(switched.status, 303, "{}", switched.text());
        let rule = app.client.get(&format!("/api/public/v2/evaluation-rules/{rule}")).await;
        assert_eq!(rule.unwrap().json()["enabled"].to_string(), enabled);
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn any_two_versions_are_compared_and_the_parts_of_the_fingerprint_are_named() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let id = app.evaluator("perpend/text", "length", json!({ "max": 20 })).await.unwrap();
    change(&app, &id, json!({ "max": 20, "min": 3 })).await;
    change(&app, &id, json!({ "max": 40, "min": 3 })).await;
    let pinned = json!({
        "name": "pinned",
        "evaluatorAssignments": [{ "evaluatorId": id, "versionPolicy": "pinned:1" }],
    });
    app.rule(&id, pinned).await.unwrap();
    let path = format!("/evaluators/{id}");
    let page = visitor.page(&path).await;
    let first = row_of(&page, "aria-label=\"Version 1\"");
    assert!(first.contains("1 rule"), "{first}");
    let second = row_of(&page, "aria-label=\"Version 2\"");
    assert!(second.contains("setting min") && !second.contains("setting max"), "{second}");
    assert!(page.contains("pinned:1") && !page.contains("id=\"differences\""), "{page}");

    let both = visitor.page(&format!("{path}?a=1&b=3")).await;
    let (_, differences) = both.split_once("id=\"differences\"").unwrap();
    let (differences, _) = differences.split_once("id=\"uses\"").unwrap();
    for part in ["setting max", "setting min", "20", "40"] {
        assert!(differences.contains(part), "{part}: {differences}");
    }
    let none = visitor.page(&format!("{path}?a=2&b=2")).await;
    assert!(none.contains("the same fingerprint"), "{none}");

    let former = visitor.page(&format!("{path}?version=1")).await;
    assert!(former.contains("not the newest version"), "{former}");
    for unknown in ["version=9", "version=x", "a=1&b=9"] {
        let unknown = format!("{}{path}?{unknown}", visitor.base);
        assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404, "{unknown}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn source_code_has_line_numbers_and_a_judge_its_messages_model_and_output() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    connect(&app, "main", json!([{ "reply": { "reasoning": "ok", "score": 1 } }])).await;
    let (status, made) = call(&app, Method::POST, EVALUATORS, judge(Some("small"))).await;
    assert_eq!(status, 200, "{made}");
    let page = visitor.page(&format!("/evaluators/{}", made["id"].as_str().unwrap())).await;
    for part in ["How polite is this answer?", "small (connection main)", "NUMERIC", "1 is very"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    if !is_here(&app, "TYPESCRIPT", SOURCE).await {
        app.stop().await.unwrap();
        return;
    }
    let (_, made) = call(&app, Method::POST, EVALUATORS, code("TYPESCRIPT", SOURCE)).await;
    let page = visitor.page(&format!("/evaluators/{}", made["id"].as_str().unwrap())).await;
    assert!(page.contains("TypeScript"), "{page}");
    let (_, third) = page.split_once("id=\"line-3\"").unwrap();
    assert!(third.starts_with("><code>}</code>"), "{third}");
    assert!(!page.contains("id=\"line-4\""), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_deletion_names_the_rules_that_lose_the_evaluator_and_keeps_the_scores() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let id = app.evaluator("perpend/text", "length", json!({ "max": 20 })).await.unwrap();
    let other = app.evaluator("perpend/text", "exact-match", json!({})).await.unwrap();
    let alone = app.rule(&id, named("alone")).await.unwrap();
    let mut both = named("with another");
    both["evaluatorAssignments"] = json!([{ "evaluatorId": id }, { "evaluatorId": other }]);
    app.rule(&id, both).await.unwrap();
    app.ingest(&Trace::new(1, "ticket").generation("answer", "On Monday.")).await.unwrap();
    app.scores(3).await.unwrap();
    let path = format!("/evaluators/{id}/delete");
    let confirmation = visitor.page(&path).await;
    let (_, disabled) = confirmation.split_once("switched off").unwrap();
    let (disabled, remaining) = disabled.split_once("keep others").unwrap();
    assert!(disabled.contains("alone") && remaining.contains("with another"), "{confirmation}");
    let deleted = visitor.submit(&path, &path, &[]).await;
    assert_eq!(deleted.status, 303, "{}", deleted.text());
    assert_eq!(rows(&visitor.page("/evaluators").await), ["exact-match"]);
    let page = format!("{}/evaluators/{id}", visitor.base);
    assert_eq!(visitor.client.get(&page).await.unwrap().status, 404);
    let rule = app.client.get(&format!("/api/public/v2/evaluation-rules/{alone}")).await;
    assert_eq!(rule.unwrap().json()["enabled"], false);
    assert_eq!(app.scores(3).await.unwrap().len(), 3);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_evaluator_of_another_project_is_not_found() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let other = app.other_project().await.unwrap();
    let body = json!({
        "type": "plugin", "name": "theirs", "plugin": "perpend/text", "evaluator": "exact-match",
    });
    let made = other.json(Method::POST, EVALUATORS, &body).await.unwrap().json();
    let id = made["id"].as_str().unwrap();
    assert!(!visitor.page("/evaluators").await.contains("theirs"));
    for path in [format!("/evaluators/{id}"), format!("/evaluators/{id}/delete")] {
        let path = format!("{}{path}", visitor.base);
        assert_eq!(visitor.client.get(&path).await.unwrap().status, 404, "{path}");
    }
    let path = format!("/evaluators/{id}/delete");
    let refused = visitor.submit("/evaluators", &path, &[]).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    let theirs = other.get(&format!("{EVALUATORS}/{id}")).await.unwrap();
    assert_eq!(theirs.status, 200, "{}", theirs.text());
    app.stop().await.unwrap();
}
