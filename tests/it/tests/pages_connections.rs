//! Connections to model providers on their pages, without a script, and over REST.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, wait_for};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::judges::{call, connect, generations, judge};
use crate::pages::{Visitor, rows};

const KEY: &str = "sk-never-shown-again";
const LIST: &str = "/settings/connections";

/// A visitor of the pages with a client of the API.
struct ConnectionTest {
    app: TestApp,
    visitor: Visitor,
}

impl ConnectionTest {
    async fn new() -> Self {
        let app = TestApp::new().await.unwrap();
        let visitor = Visitor::of(&app).await;
        Self { app, visitor }
    }

    /// The path below the project that a form leads to.
    fn location(&self, answer: &Answer) -> String {
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.headers["location"].to_str().unwrap();
        location.strip_prefix(&self.visitor.base).unwrap().to_owned()
    }

    async fn usage(&self, id: &str) -> Value {
        let path = format!("/api/v1/llm-connections/{id}/usage");
        let answer = self.app.client.get(&path).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

fn page_of(id: &str) -> String {
    format!("{LIST}/{id}")
}

/// The value of a hidden field.
fn hidden(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn replies() -> Value {
    json!([{ "reply": { "reasoning": "ok", "score": 1 }, "usage": { "input": 100, "output": 10 } }])
}

#[tokio::test]
async fn a_connection_is_created_by_a_form_and_its_secrets_are_on_no_page() {
    let test = ConnectionTest::new().await;
    let empty = test.visitor.page(LIST).await;
    assert!(empty.contains("No connections yet"), "{empty}");
    let new = format!("{LIST}/new");
    let secret = "x-secret-value";
    let headers = format!("X-Team: {secret}");
    let fields = |provider, config| {
        [
            ("provider", provider),
            ("adapter", "mock"),
            ("secret_key", KEY),
            ("custom_models", "small\r\nlarge"),
            ("headers", headers.as_str()),
            ("config", config),
            ("max_in_flight", "3"),
        ]
    };
    let refused = test.visitor.submit(&new, &new, &fields("ours <i>", "{")).await;
    assert_eq!(refused.status, 422);
    let refused = refused.text();
    assert!(refused.contains("must be a JSON object") && refused.contains("ours &#60;i&#62;"));
    assert!(!refused.contains(KEY) && !refused.contains(secret), "{refused}");
    let config = json!({ "replies": replies() }).to_string();
    let created = test.visitor.submit(&new, &new, &fields("ours <i>", &config)).await;
    let path = test.location(&created);
    let again = test.visitor.submit(&new, &new, &fields("ours <i>", &config)).await;
    assert!(again.status == 422 && again.text().contains("must be unused"));
    assert_eq!(rows(&test.visitor.page(LIST).await), ["ours &#60;i&#62;"]);
    let page = test.visitor.page(&path).await;
    assert!(page.contains("X-Team") && page.contains("at most 3"), "{page}");
    for path in [LIST.to_owned(), path.clone(), format!("{path}/edit"), format!("{path}/delete")] {
        let page = test.visitor.page(&path).await;
        assert!(!page.contains(KEY) && !page.contains(secret), "{path}: {page}");
    }
    let id = path.rsplit('/').next().unwrap();
    let usage = test.usage(id).await;
    assert_eq!(usage["connection"]["customModels"], json!(["small", "large"]));
    assert_eq!(usage["connection"]["maxInFlight"], 3);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_test_shows_the_answer_of_the_provider_and_what_was_learnt() {
    let test = ConnectionTest::new().await;
    let id = connect(&test.app, "main", replies()).await;
    let (path, action) = (page_of(&id), format!("{}/test", page_of(&id)));
    let unnamed = test.visitor.submit(&path, &action, &[("model", "")]).await;
    assert_eq!(unnamed.status, 422, "{}", unnamed.text());
    assert!(unnamed.text().contains("aria-invalid"));
    let passed =
        test.visitor.submit(&path, &action, &[("model", "gpt-4o-mini"), ("action", "test")]).await;
    assert_eq!(passed.status, 200, "{}", passed.text());
    let passed = passed.text();
    assert!(passed.contains("passed") && passed.contains("110 tokens"), "{passed}");
    let usage = test.usage(&id).await;
    assert_eq!(usage["costs"]["callCount"], 1, "{usage}");
    assert_eq!(usage["models"][0]["model"], "gpt-4o-mini", "{usage}");
    assert!(usage["models"][0]["learned"]["method"].is_string(), "{usage}");
    let page = test.visitor.page(&path).await;
    assert!(page.contains("Detected by calls") && page.contains("gpt-4o-mini"), "{page}");

    let error = json!([{ "error": { "status": 401 } }]);
    let id = connect(&test.app, "broken", error).await;
    let (path, action) = (page_of(&id), format!("{}/test", page_of(&id)));
    let failed = test.visitor.submit(&path, &action, &[("model", "m")]).await;
    assert_eq!(failed.status, 200, "{}", failed.text());
    let failed = failed.text();
    assert!(failed.contains("auth_invalid") && failed.contains("enter the key"), "{failed}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn another_address_removes_the_key_and_a_test_requires_a_new_one() {
    let test = ConnectionTest::new().await;
    let body = json!({
        "provider": "main", "adapter": "openai", "secretKey": KEY, "customModels": ["m"],
        "extraHeaders": { "X-Team": "a" },
    });
    let path = "/api/public/llm-connections";
    let (_, made) = call(&test.app, Method::PUT, path, body).await;
    let id = made["id"].as_str().unwrap();
    let (path, edit) = (page_of(id), format!("{}/edit", page_of(id)));
    let form = test.visitor.page(&edit).await;
    let read_at = hidden(&form, "updated_at");
    let fields = |address, read_at| {
        [
            ("adapter", "openai"),
            ("base_url", address),
            ("custom_models", "m"),
            ("headers", "X-Team"),
            ("max_in_flight", "9"),
            ("updated_at", read_at),
        ]
    };
    let same = test.visitor.submit(&edit, &edit, &fields("", &read_at)).await;
    assert_eq!(test.location(&same), path);
    let usage = test.usage(id).await;
    assert_eq!(usage["connection"]["displaySecretKey"], "...gain", "the key is kept");
    assert_eq!(usage["connection"]["extraHeaderKeys"], json!(["X-Team"]));
    let late = fields("https://models.example", "2020-01-01T00:00:00Z");
    let late = test.visitor.submit(&edit, &edit, &late).await;
    assert_eq!(late.status, 409, "{}", late.text());
    let late = late.text();
    assert!(
        late.contains("Changed meanwhile") && late.contains("https://models.example"),
        "{late}"
    );
    let read_at = hidden(&late, "updated_at");
    let moved =
        test.visitor.submit(&edit, &edit, &fields("https://models.example", &read_at)).await;
    assert_eq!(test.location(&moved), path);
    let usage = test.usage(id).await;
    assert_eq!(usage["connection"]["displaySecretKey"], "", "{usage}");
    assert_eq!(usage["connection"]["extraHeaderKeys"], json!([]));
    assert!(test.visitor.page(LIST).await.contains("no key"));
    let tested = test.visitor.submit(&path, &format!("{path}/test"), &[("model", "m")]).await;
    assert_eq!(tested.status, 200, "{}", tested.text());
    let tested = tested.text();
    assert!(tested.contains("auth_invalid") && tested.contains("No request was sent"), "{tested}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_shows_the_evaluators_that_it_paused_and_a_test_that_passes_resumes_them() {
    let test = ConnectionTest::new().await;
    let main = connect(&test.app, "main", replies()).await;
    let save = [("provider", "main"), ("model", "small"), ("params", ""), ("action", "save")];
    let default = "/settings/default-model";
    let wrong = [("provider", "main"), ("model", " "), ("params", ""), ("action", "save")];
    assert_eq!(test.visitor.submit(LIST, default, &wrong).await.status, 422);
    assert_eq!(test.location(&test.visitor.submit(LIST, default, &save).await), LIST);
    let evaluators = "/api/public/v2/evaluators";
    let (status, made) = call(&test.app, Method::POST, evaluators, judge(None)).await;
    assert_eq!(status, 200, "{made}");
    let path = page_of(&main);
    let page = test.visitor.page(&path).await;
    assert!(page.contains("politeness") && page.contains("(default model)"), "{page}");
    let remove = [("provider", "main"), ("model", "small"), ("action", "remove")];
    assert_eq!(test.location(&test.visitor.submit(LIST, default, &remove).await), LIST);
    let usage = test.usage(&main).await;
    assert_eq!(usage["evaluators"], json!([]), "without a default model nothing uses it");
    assert_eq!(test.location(&test.visitor.submit(LIST, default, &save).await), LIST);

    let delete = format!("{path}/delete");
    let confirmation = test.visitor.page(&delete).await;
    assert!(confirmation.contains("politeness"), "{confirmation}");
    let deleted = test.visitor.submit(&delete, &delete, &[]).await;
    assert_eq!(test.location(&deleted), LIST);
    let gone = format!("{}{path}", test.visitor.base);
    assert_eq!(test.visitor.client.get(&gone).await.unwrap().status, 404);
    // A connection of another name does not resume the evaluator.
    connect(&test.app, "other", replies()).await;
    let body = json!({ "provider": "other", "model": "small" });
    let path = "/api/v1/llm-connections/default-model";
    let (status, answer) = call(&test.app, Method::PUT, path, body).await;
    assert_eq!(status, 200, "{answer}");
    let (_, listed) = call(&test.app, Method::GET, "/api/v1/llm-connections", json!({})).await;
    let usage = &listed["data"][0];
    assert_eq!(usage["connection"]["provider"], "other", "{listed}");
    assert_eq!(usage["evaluators"][0]["paused"], Value::Null, "a new default model resumed it");
    let id = usage["connection"]["id"].as_str().unwrap();
    let path = page_of(id);
    let action = format!("{path}/test");
    let resume = [("model", ""), ("action", "resume")];
    let tested = test.visitor.submit(&path, &action, &resume).await.text();
    assert!(tested.contains("passed"), "{tested}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_rejected_key_pauses_an_evaluator_and_the_saved_form_releases_its_executions() {
    let test = ConnectionTest::new().await;
    let id = connect(&test.app, "main", replies()).await;
    let evaluators = "/api/public/v2/evaluators";
    let (status, made) = call(&test.app, Method::POST, evaluators, judge(Some("small"))).await;
    assert_eq!(status, 200, "{made}");
    test.app.rule(made["id"].as_str().unwrap(), generations()).await.unwrap();
    let rejected = json!([{ "error": { "status": 401, "message": "expired" } }]);
    assert_eq!(connect(&test.app, "main", rejected).await, id);
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you.");
    test.app.ingest(&trace).await.unwrap();
    let usage = format!("/api/v1/llm-connections/{id}/usage");
    let is_held = |usage: &Value| {
        let evaluator = &usage["evaluators"][0];
        evaluator["paused"]["reason"] == "LLM_CONNECTION_AUTH_INVALID" && evaluator["waiting"] == 1
    };
    wait_for(&test.app.client, &usage, is_held).await.unwrap();
    let path = page_of(&id);
    let page = test.visitor.page(&path).await;
    assert!(page.contains("LLM_CONNECTION_AUTH_INVALID"), "{page}");
    assert!(page.contains("1 execution held") && page.contains("Test and resume"), "{page}");
    assert!(test.visitor.page(LIST).await.contains("1 paused"));
    let evaluator = made["id"].as_str().unwrap();
    for path in ["/evaluators".to_owned(), format!("/evaluators/{evaluator}")] {
        let page = test.visitor.page(&path).await;
        assert!(page.contains("LLM_CONNECTION_AUTH_INVALID"), "{path}: {page}");
        assert!(page.contains(&format!("/evaluators/{evaluator}")), "{path}: {page}");
    }
    let page = test.visitor.page(&format!("/evaluators/{evaluator}")).await;
    assert!(page.contains(&format!("{path}\"")), "it leads to its connection: {page}");
    let edit = format!("{path}/edit");
    let read_at = hidden(&test.visitor.page(&edit).await, "updated_at");
    let config = json!({ "replies": replies() }).to_string();
    let fields = [
        ("adapter", "mock"),
        ("secret_key", KEY),
        ("config", config.as_str()),
        ("max_in_flight", "8"),
        ("updated_at", read_at.as_str()),
    ];
    let saved = test.visitor.submit(&edit, &edit, &fields).await;
    assert_eq!(test.location(&saved), path);
    test.app.scores(1).await.unwrap();
    test.app.stop().await.unwrap();
}
