//! The editor of a judge over HTTP, without a script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, count};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::judges::{call, connect};
use crate::pages::Visitor;

const EVALUATORS: &str = "/api/public/v2/evaluators";
const NEW: &str = "/evaluators/new/judge";

/// The value of an input.
fn value_of(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\"")).unwrap();
    let (tag, _) = rest.split_once('>').unwrap();
    let (_, value) = tag.split_once("value=\"").unwrap();
    value.split('"').next().unwrap().to_owned()
}

fn has_problem(answer: &Answer, field: &str) {
    assert_eq!(answer.status, 422, "{}", answer.text());
    let page = answer.text();
    assert!(page.contains(&format!("id=\"problem-{field}\"")), "{field}: {page}");
}

/// The fields of a judge with one message about the politeness of an answer.
fn fields<'f>(others: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    let usual = [
        ("name", "politeness"),
        ("role", "user"),
        ("content", "Is this polite?\n{{output}}"),
        ("output", "BOOLEAN"),
        ("connection", "main"),
        ("model", "gpt-4o-mini"),
        ("repeats", "1"),
        ("reducer", "mode"),
        ("fence", "1"),
        ("action", "save"),
    ];
    let is_replaced = |name: &str| others.iter().any(|(other, _)| *other == name);
    let kept = usual.into_iter().filter(|(name, _)| !is_replaced(name));
    kept.chain(others.iter().copied()).collect()
}

fn polite() -> Value {
    json!([{ "reply": { "reasoning": "It thanks.", "score": true }, "usage": { "input": 100, "output": 10 } }])
}

async fn n_evaluators(app: &TestApp) -> usize {
    count(&app.client.get(EVALUATORS).await.unwrap().json())
}

/// The evaluator at a page.
async fn evaluator(app: &TestApp, location: &str) -> Value {
    let id = location.rsplit('/').next().unwrap();
    app.client.get(&format!("{EVALUATORS}/{id}")).await.unwrap().json()
}

fn location(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.headers["location"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_judge_is_made_from_a_preset_with_the_default_model() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let replies = json!([{ "reply": { "reasons": "Short.", "choice": "concise" } }]);
    connect(&app, "main", replies).await;
    let default = json!({ "provider": "main", "model": "m" });
    let path = "/api/v1/llm-connections/default-model";
    let (status, set) = call(&app, Method::PUT, path, default).await;
    assert_eq!(status, 200, "{set}");
    let page = visitor.page(&format!("{NEW}?preset=conciseness")).await;
    assert_eq!(value_of(&page, "name"), "conciseness");
    assert!(page.contains("concise = 1") && page.contains("main m"), "{page}");
    let presets = app.client.get("/api/v1/judge-presets").await.unwrap().json();
    let mut presets = presets["data"].as_array().unwrap().iter();
    let preset = presets.find(|preset| preset["name"] == "conciseness").unwrap();
    let prompt = preset["definition"]["config"]["prompt"].as_str().unwrap();
    let sent = fields(&[
        ("name", "conciseness"),
        ("content", prompt),
        ("output", "CHOICES"),
        ("categories", "concise = 1\nverbose = 0"),
        ("reasons", "1"),
        ("connection", ""),
        ("model", ""),
    ]);
    let saved = visitor.submit(NEW, NEW, &sent).await;
    let made = evaluator(&app, &location(&saved)).await;
    assert_eq!((&made["type"], &made["name"]), (&json!("llm_as_judge"), &json!("conciseness")));
    assert_eq!(made["config"]["choice_scores"], json!({ "concise": 1, "verbose": 0 }), "{made}");
    assert_eq!(made["prompt"][0]["content"].as_str(), Some(prompt), "{made}");
    let missing = visitor.client.get(&format!("{}{NEW}?preset=none", visitor.base)).await.unwrap();
    assert_eq!(missing.status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn wrong_values_are_at_their_fields_and_nothing_is_saved() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    connect(&app, "main", polite()).await;
    let send = async |others: &[(&str, &str)]| visitor.submit(NEW, NEW, &fields(others)).await;
    let unmapped = [("content", "{{question}}"), ("mapping", "output output")];
    has_problem(&send(&unmapped).await, "mapping");
    has_problem(&send(&[("content", "{{user-name}}")]).await, "messages");
    has_problem(&send(&[("connection", "gone")]).await, "connection");
    has_problem(&send(&[("model", "")]).await, "model");
    has_problem(&send(&[("reasks", "9")]).await, "reasks");
    has_problem(&send(&[("temperature", "7")]).await, "temperature");
    let one_category = [("output", "CATEGORICAL"), ("categories", "polite")];
    has_problem(&send(&one_category).await, "output");
    has_problem(&send(&[("config", "[]")]).await, "config");
    let kept = send(&[("output", "NUMERIC"), ("min", "low"), ("content", "How polite?")]).await;
    has_problem(&kept, "min");
    assert!(kept.text().contains("How polite?"), "{}", kept.text());
    assert_eq!(n_evaluators(&app).await, 0);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn messages_are_added_and_removed_by_buttons() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let n_messages = |page: &str| page.matches("name=\"content\"").count();
    let two = [("action", "add-message"), ("content", "Words above.")];
    let added = visitor.submit(NEW, NEW, &fields(&two)).await;
    assert_eq!((added.status.as_u16(), n_messages(&added.text())), (200, 2), "{}", added.text());
    let both = [
        ("role", "system"),
        ("content", "Words above."),
        ("role", "user"),
        ("content", "Words below."),
        ("action", "remove-message:0"),
    ];
    let removed = visitor.submit(NEW, NEW, &fields(&both)).await.text();
    assert_eq!(n_messages(&removed), 1, "{removed}");
    assert!(removed.contains("Words below.") && !removed.contains("Words above."), "{removed}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_prompt_is_rendered_with_an_estimate_and_no_call() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    connect(&app, "main", json!([{ "error": { "status": 500 } }])).await;
    app.ingest(&Trace::new(1, "root").generation("answer", "Thank you <b>for</b> waiting."))
        .await
        .unwrap();
    let preview = async |others: &[(&str, &str)]| {
        let others: Vec<_> = others.iter().copied().chain([("action", "preview")]).collect();
        let shown = visitor.submit(NEW, NEW, &fields(&others)).await;
        assert_eq!(shown.status, 200, "{}", shown.text());
        shown.text()
    };
    let item = [("try_from", "item"), ("try_item", r#"{"output": "Go away."}"#)];
    let of_item = preview(&item).await;
    assert!(of_item.contains("<mark title=\"output\">Go away.</mark>"), "{of_item}");
    assert!(of_item.contains("main gpt-4o-mini") && of_item.contains("$0.00"), "{of_item}");
    let list = app.client.get("/api/public/v2/observations?limit=10").await.unwrap().json();
    let mut listed = list["data"].as_array().unwrap().iter();
    let generation = listed.find(|each| each["type"] == "GENERATION").unwrap();
    let id = generation["id"].as_str().unwrap();
    let stored = [("try_from", "ids"), ("try_target", "observation"), ("try_ids", id)];
    let stored = preview(&stored).await;
    assert!(stored.contains("Thank you &#60;b&#62;for"), "{stored}");
    let unknown = [("try_from", "ids"), ("try_ids", "nothing"), ("action", "preview")];
    has_problem(&visitor.submit(NEW, NEW, &fields(&unknown)).await, "try_ids");
    let wrong_item = [("try_from", "item"), ("try_item", "[1]"), ("action", "preview")];
    has_problem(&visitor.submit(NEW, NEW, &fields(&wrong_item)).await, "try_item");
    let unmapped = [("content", "{{question}}"), ("try_from", "ids"), ("try_ids", id)];
    let previewed: Vec<_> = unmapped.into_iter().chain([("action", "preview")]).collect();
    let refused = visitor.submit(NEW, NEW, &fields(&previewed)).await;
    has_problem(&refused, "mapping");
    let page = refused.text();
    assert!(page.contains("name=\"pick\" value=\"output\""), "{page}");
    let picked: Vec<_> =
        unmapped.into_iter().chain([("pick", "output"), ("pick_variable", "question")]).collect();
    let picked = visitor.submit(NEW, NEW, &fields(&picked)).await;
    assert_eq!(picked.status, 200, "{}", picked.text());
    let page = picked.text();
    assert!(
        page.contains("question output") && page.contains("<mark title=\"question\">Thank"),
        "{page}"
    );
    let costs = app.client.get("/api/v1/model-costs").await.unwrap().json();
    assert_eq!(count(&costs), 0, "{costs}");
    assert_eq!(n_evaluators(&app).await, 0);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_judge_is_tried_before_it_is_saved() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    connect(&app, "main", polite()).await;
    let item =
        [("try_from", "item"), ("try_item", r#"{"output": "Thank you."}"#), ("action", "try")];
    let tried = visitor.submit(NEW, NEW, &fields(&item)).await;
    assert_eq!(tried.status, 200, "{}", tried.text());
    let page = tried.text();
    assert!(page.contains("id=\"try-results\"") && page.contains("It thanks."), "{page}");
    assert_eq!(value_of(&page, "name"), "politeness");
    assert_eq!(n_evaluators(&app).await, 0);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_changed_judge_is_a_new_version_and_the_second_of_two_windows_overwrites_nothing() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    connect(&app, "main", polite()).await;
    let saved = location(&visitor.submit(NEW, NEW, &fields(&[])).await);
    let href = saved.strip_prefix(&visitor.base).unwrap();
    let edit = format!("{href}/edit");
    let page = visitor.page(&edit).await;
    assert_eq!(
        (value_of(&page, "version"), value_of(&page, "name")),
        ("1".into(), "politeness".into())
    );
    assert!(page.contains("Is this polite?"), "{page}");
    let send = async |version: &str, content: &str, name: &str| {
        let own = [
            ("version", version),
            ("stored_name", "politeness"),
            ("content", content),
            ("name", name),
        ];
        visitor.submit(&edit, &edit, &fields(&own)).await
    };
    let shown = visitor.page(href).await;
    let id = href.rsplit('/').next().unwrap();
    assert!(shown.contains(&format!("/rules/new?evaluator={id}\"")), "{shown}");
    let rule = visitor.page(&format!("/rules/new?evaluator={id}")).await;
    assert!(rule.contains(&format!("value=\"{id}\" checked")), "{rule}");
    let unchanged = send("1", "Is this polite?\n{{output}}", "politeness").await;
    assert_eq!(location(&unchanged), saved);
    assert_eq!(evaluator(&app, &saved).await["version"], 1);
    location(&send("1", "Of one window: {{output}}", "politeness").await);
    let stored = evaluator(&app, &saved).await;
    assert_eq!((&stored["version"], &stored["name"]), (&json!(2), &json!("politeness")));
    assert_eq!(stored["prompt"][0]["content"], "Of one window: {{output}}", "{stored}");

    let refused = send("1", "Of the other window: {{output}}", "politeness").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let page = refused.text();
    assert!(page.contains("Of one window") && page.contains("Of the other window"), "{page}");
    assert_eq!(value_of(&page, "version"), "2");
    assert_eq!(evaluator(&app, &saved).await["version"], 2);
    location(&send("2", "Of the other window: {{output}}", "kindness").await);
    let stored = evaluator(&app, &saved).await;
    assert_eq!((&stored["version"], &stored["name"]), (&json!(3), &json!("kindness")));

    let renamed = send("3", "Of the other window: {{output}}", "courtesy").await;
    assert_eq!(renamed.status, 409, "{}", renamed.text());
    assert_eq!(evaluator(&app, &saved).await["name"], "kindness");
    app.stop().await.unwrap();
}
