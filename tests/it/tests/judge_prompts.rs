//! Where the prompts of judges come from: ready-made ones, and those of prompt management.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use serde_json::{Value, json};

use crate::judges::{call, connect, judge};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const PROMPTS: &str = "/api/public/v2/prompts";

/// The reply of a model that follows this configuration.
fn reply_to(config: &Value) -> Value {
    if let Some(choices) = config["choice_scores"].as_object() {
        let first = choices.keys().next().unwrap();
        return json!({ "reasons": "Because.", "choice": first });
    }
    let categories = &config["output"]["score"]["categories"];
    let score = match categories.as_array() {
        Some(categories) => categories[0].clone(),
        None => json!(true),
    };
    json!({ "reasoning": "Because.", "score": score })
}

#[tokio::test]
async fn each_ready_made_judge_is_an_evaluator_as_it_is_listed() {
    let app = TestApp::new().await.unwrap();
    let listed = app.client.get("/api/v1/judge-presets").await.unwrap();
    let listed = listed.json();
    let presets = listed["data"].as_array().unwrap();
    assert!(30 < presets.len(), "{}", presets.len());
    connect(&app, "main", json!([])).await;
    let default = json!({ "provider": "main", "model": "m" });
    let path = "/api/v1/llm-connections/default-model";
    let (status, set) = call(&app, Method::PUT, path, default).await;
    assert_eq!(status, 200, "{set}");
    for preset in presets {
        let definition = &preset["definition"];
        let replies = json!([{ "reply": reply_to(&definition["config"]) }]);
        connect(&app, "main", replies).await;
        let (status, made) = call(&app, Method::POST, EVALUATORS, definition.clone()).await;
        assert_eq!(status, 200, "{}: {made}", preset["name"]);
        let direction = preset["direction"].as_str().unwrap();
        assert!(["higher", "lower", "neutral"].contains(&direction));
    }
    app.stop().await.unwrap();
}

/// Makes a version of the prompt that is in production.
async fn prompt(app: &TestApp, text: &str) {
    let body = json!({ "name": "tone", "prompt": text, "labels": ["production"] });
    let (status, made) = call(app, Method::POST, PROMPTS, body).await;
    assert!(status == 200 || status == 201, "{made}");
}

fn judge_of(reference: &Value) -> Value {
    let mut body = judge(Some("m"));
    body.as_object_mut().unwrap().remove("prompt");
    body["promptRef"] = reference.clone();
    body
}

#[tokio::test]
async fn a_prompt_of_prompt_management_is_taken_as_it_is_when_the_judge_is_saved() {
    let app = TestApp::new().await.unwrap();
    let reply = json!({ "reasoning": "It thanks.", "score": 0.9 });
    connect(&app, "main", json!([{ "reply": reply }])).await;
    prompt(&app, "How polite is this?\n{{output}}").await;
    let body = judge_of(&json!({ "name": "tone" }));
    let (status, first) = call(&app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{first}");
    let text = |shown: &Value| shown["prompt"][0]["content"].clone();
    assert_eq!(text(&first), "How polite is this?\n{{output}}");
    assert_eq!(first["promptRef"], json!({ "name": "tone", "version": 1 }));
    assert_eq!(first["variables"], json!(["output"]));

    // The returned definition can be sent back.
    let mut back = judge(Some("m"));
    for member in ["prompt", "promptRef"] {
        back[member] = first[member].clone();
    }
    let path = format!("{EVALUATORS}/{}", first["id"].as_str().unwrap());
    let (status, again) = call(&app, Method::PATCH, &path, back).await;
    assert_eq!(status, 200, "{again}");
    assert_eq!(again["promptRef"], first["promptRef"]);

    prompt(&app, "How rude is this?\n{{output}}").await;
    let shown = app.client.get(&path).await.unwrap().json();
    assert_eq!(text(&shown), text(&first));
    let body = judge_of(&json!({ "name": "tone" }));
    let (status, second) = call(&app, Method::PATCH, &path, body).await;
    assert_eq!(status, 200, "{second}");
    assert_eq!(text(&second), "How rude is this?\n{{output}}");
    assert_eq!(second["promptRef"]["version"], 2);

    let config = json!({
        "prompt_ref": { "name": "tone", "version": 1 },
        "output": { "dataType": "BOOLEAN", "score": { "description": "It is polite." } },
    });
    let of_plugin = json!({
        "type": "plugin", "name": "tone", "plugin": "perpend/judge", "evaluator": "judge",
        "config": config, "grants": ["model"],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": "m" } }],
    });
    let yes = json!([{ "reply": { "reasoning": "It thanks.", "score": true } }]);
    connect(&app, "main", yes).await;
    let (status, made) = call(&app, Method::POST, EVALUATORS, of_plugin).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(text(&made), text(&first), "{made}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_unusable_judge_prompt_is_refused_with_its_position() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "" }])).await;
    prompt(&app, "How polite is {{output}}, {{customer}}?").await;
    let chat = json!({
        "name": "chat", "type": "chat",
        "prompt": [{ "type": "placeholder", "name": "history" }],
    });
    let (status, made) = call(&app, Method::POST, PROMPTS, chat).await;
    assert!(status == 200 || status == 201, "{made}");
    let mut neither = judge_of(&json!({ "name": "tone" }));
    neither.as_object_mut().unwrap().remove("promptRef");
    for (body, status, part) in [
        (judge_of(&json!({ "name": "tone", "version": 7 })), 400, "version 7"),
        (judge_of(&json!({ "name": "nobody" })), 400, "promptRef"),
        (judge_of(&json!(["tone"])), 400, "promptRef"),
        (judge_of(&json!({ "name": "tone", "label": "x" })), 400, "label"),
        (judge_of(&json!({ "name": "chat", "version": 1 })), 422, "placeholder"),
        (judge_of(&json!({ "name": "tone" })), 400, "customer"),
        (neither, 400, "prompt or promptRef is required"),
    ] {
        let (answered, response) = call(&app, Method::POST, EVALUATORS, body).await;
        assert_eq!(answered, status, "{response}");
        assert!(response["message"].as_str().unwrap().contains(part), "{response}");
    }
    app.stop().await.unwrap();
}
