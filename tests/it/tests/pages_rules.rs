//! The page of a rule and its editor over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, count};
use perpend_server::client::Answer;
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

const RULES: &str = "/api/public/v2/evaluation-rules";

/// The value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.headers["location"].to_str().unwrap().to_owned()
}

async fn rule(app: &TestApp, id: &str) -> Value {
    app.client.get(&format!("{RULES}/{id}")).await.unwrap().json()
}

/// The fields of the editor.
fn fields(evaluator: &str, name: &str, others: &[(&str, &str)]) -> String {
    let all = [
        ("name", name),
        ("target", "observation"),
        ("sampling", "100"),
        ("on_missing", "fail"),
        ("late", "ignore"),
        ("evaluator", evaluator),
    ];
    let all = all.iter().chain(others);
    all.map(|(name, value)| format!("&{name}={}", encode(value))).collect()
}

#[tokio::test]
async fn a_rule_begins_with_the_filter_of_a_list_and_is_previewed_and_saved_on() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    app.ingest(&Trace::new(1, "root").generation("answer", "x")).await.unwrap();
    let list = visitor.page("/observations?q=type%3AGENERATION%20latency%3A%3C999").await;
    let (_, link) = list.split_once("/rules/new?").unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    let editor = visitor.page(&format!("/rules/new?{link}")).await;
    assert!(editor.contains("value=\"type:GENERATION\""), "{editor}");
    assert!(editor.contains("latency:&#60;999") && editor.contains("Not copied"), "{editor}");

    let token = visitor.token(&format!("{}/rules/new", visitor.base)).await;
    let action = format!("{}/rules", visitor.base);
    let send = async |others: &[(&str, &str)]| {
        let body = format!("form={token}{}", fields(&evaluator, "answers", others));
        visitor.send(&action, body).await
    };
    let wrong = send(&[("q", "weather:fine"), ("action", "on")]).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    assert!(wrong.text().contains("id=\"problem-q\""), "{}", wrong.text());
    let preview = send(&[("q", "type:GENERATION"), ("action", "preview")]).await;
    assert_eq!(preview.status, 200, "{}", preview.text());
    assert!(preview.text().contains("id=\"preview\""), "{}", preview.text());
    let rules = app.client.get(RULES).await.unwrap().json();
    assert_eq!(count(&rules), 0, "a preview stores nothing: {rules}");

    let saved = send(&[("q", "type:GENERATION"), ("action", "on")]).await;
    let href = location(&saved);
    let id = href.rsplit('/').next().unwrap();
    let stored = rule(&app, id).await;
    assert_eq!((&stored["enabled"], &stored["sampling"]), (&json!(true), &json!(1.0)), "{stored}");
    assert_eq!(stored["filter"][0]["column"], "type", "{stored}");
    let page = visitor.client.get(&href).await.unwrap().text();
    assert!(page.contains("type:GENERATION") && page.contains("answers"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_second_of_two_windows_that_edit_a_rule_gets_both_versions_and_overwrites_nothing() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let id = app.rule(&evaluator, json!({ "name": "first name" })).await.unwrap();
    let action = format!("{}/rules/{id}/edit", visitor.base);
    let editor = visitor.client.get(&action).await.unwrap().text();
    let revision = hidden(&editor, "revision");
    let token = visitor.token(&action).await;
    let save = async |name: &str, revision: &str| {
        let others = [("revision", revision), ("settle_ms", "0"), ("action", "save")];
        let body = format!("form={token}{}", fields(&evaluator, name, &others));
        visitor.send(&action, body).await
    };
    location(&save("of one window", &revision).await);
    let refused = save("of the other window", &revision).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let page = refused.text();
    assert!(page.contains("of one window") && page.contains("of the other window"), "{page}");
    assert_eq!(rule(&app, &id).await["name"], "of one window");

    let current = hidden(&page, "revision");
    assert_ne!(current, revision);
    location(&save("of the other window", &current).await);
    assert_eq!(rule(&app, &id).await["name"], "of the other window");
    let changes = app.client.get(&format!("/api/v1/evaluation-rules/{id}/changes")).await;
    let changes = changes.unwrap().json();
    let names = changes["data"].as_array().unwrap().iter().map(|each| &each["definition"]["name"]);
    let names: Vec<&Value> = names.collect();
    assert_eq!(names, ["of the other window", "of one window", "first name"]);
    let shown = visitor.page(&format!("/rules/{id}")).await;
    assert!(shown.contains("first name") && shown.contains("of one window"), "{shown}");

    // The API checks the revision too.
    let stale = json!({ "sampling": 0.5, "revision": revision });
    let path = format!("{RULES}/{id}");
    assert_eq!(app.client.json(Method::PATCH, &path, &stale).await.unwrap().status, 409);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_rule_that_fails_shows_its_funnel_its_failures_by_class_and_explains_a_target() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let id = app.rule(&evaluator, json!({ "name": "length" })).await.unwrap();
    // The root has no output.
    app.ingest(&Trace::new(1, "root").generation("answer", "x")).await.unwrap();
    let failed = "/api/v1/failed-executions";
    let failed = app.wait_for(failed, |answer| count(answer) == 1).await.unwrap();
    app.scores(1).await.unwrap();
    let counters = format!("/api/v1/evaluation-rules/{id}/counters");
    let funnel = app.client.get(&counters).await.unwrap().json()["funnel"].clone();
    let n = |member: &str| funnel[member].as_u64().unwrap();
    assert_eq!(n("arrived"), n("notMatched") + n("sampledOut") + n("sampled"), "{funnel}");
    assert_eq!((n("made"), n("notMatched")), (2, 0), "{funnel}");
    assert_eq!((n("scored"), n("failed"), n("missing")), (1, 1, 0), "{funnel}");

    let one = &failed["data"][0];
    let class = one["errorClass"].as_str().unwrap();
    let page = visitor.page(&format!("/rules/{id}")).await;
    assert!(!page.contains("differs by") && page.contains("failing"), "{page}");
    let of_class = format!("/executions?rule={id}&state=failed&class={class}\"");
    let page = page.replace("&amp;", "&").replace("&#38;", "&");
    assert!(page.contains(&of_class), "{page}");
    let requeue = format!("/executions/{}/requeue\"", one["id"].as_str().unwrap());
    assert!(page.contains(&requeue), "{page}");
    let list = visitor.page("/rules").await;
    assert!(
        list.contains(&format!("/rules/{id}\"")) && list.contains("1 failed execution"),
        "{list}"
    );

    let observation = one["observationId"].as_str().unwrap();
    let explained = visitor.page(&format!("/rules/{id}?explain={observation}")).await;
    let path = format!("/api/v1/evaluation-rules/{id}/explain");
    let trace = one["traceId"].as_str().unwrap();
    let path = format!("{path}?traceId={trace}&observationId={observation}");
    let sentence = app.client.get(&path).await.unwrap().json();
    let sentence = sentence["explanation"].as_str().unwrap();
    assert!(explained.contains(sentence), "{sentence}: {explained}");
    let unknown = visitor.page(&format!("/rules/{id}?explain=00000000000000ff")).await;
    assert!(unknown.contains("No observation has this id"), "{unknown}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_rule_is_switched_off_and_on_and_deleted_only_by_its_name() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let id = app.rule(&evaluator, json!({ "name": "length" })).await.unwrap();
    let href = format!("{}/rules/{id}", visitor.base);
    let switch = format!("{href}/enabled");
    let token = visitor.token(&href).await;
    let off = visitor.send(&switch, format!("form={token}&enabled=false")).await;
    assert_eq!(off.status, 303, "{}", off.text());
    assert_eq!(rule(&app, &id).await["enabled"], false);
    let cookie = off.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let client = visitor.client.clone().with_header("cookie", &cookie);
    let switched = client.get(&href).await.unwrap().text();
    assert!(switched.contains(">Undo</button>"), "{switched}");
    let token = visitor.token(&href).await;
    let on = visitor.send(&switch, format!("form={token}&enabled=true")).await;
    assert_eq!(on.status, 303, "{}", on.text());
    assert_eq!(rule(&app, &id).await["enabled"], true);
    assert!(
        visitor.send(&switch, format!("form={token}&enabled=x")).await.status.is_client_error()
    );

    let token = visitor.token(&format!("{href}/edit")).await;
    let delete = format!("{href}/delete");
    let refused = visitor.send(&delete, format!("form={token}&confirm=other")).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let gone = visitor.send(&delete, format!("form={token}&confirm=length")).await;
    assert_eq!(gone.status, 303, "{}", gone.text());
    assert_eq!(visitor.client.get(&href).await.unwrap().status, 404);
    app.stop().await.unwrap();
}
