//! Pages of datasets without a script, over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::{Visitor, rows};

/// A visitor of the pages with a client of the API.
struct DatasetTest {
    app: TestApp,
    visitor: Visitor,
}

impl DatasetTest {
    async fn new() -> Self {
        let app = TestApp::new().await.unwrap();
        let visitor = Visitor::of(&app).await;
        Self { app, visitor }
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.app.client.json(Method::POST, path, &body).await.unwrap();
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
        answer.json()
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.app.client.get(path).await.unwrap();
        assert!(answer.status.is_success(), "{path}: {}", answer.text());
        answer.json()
    }

    /// Creates a dataset over the API; returns its path below the project.
    async fn dataset(&self, body: Value) -> String {
        let dataset = self.post("/api/public/v2/datasets", body).await;
        format!("/datasets/{}", dataset["id"].as_str().unwrap())
    }

    async fn item(&self, body: Value) -> String {
        let item = self.post("/api/public/dataset-items", body).await;
        item["id"].as_str().unwrap().to_owned()
    }

    /// Sends the form of a page with these fields.
    async fn send(&self, page: &str, action: &str, fields: &[(&str, &str)]) -> Answer {
        let base = &self.visitor.base;
        let page = format!("{base}{page}");
        let token = self.visitor.token(&page).await;
        let own = [("form", token.as_str()), ("back", page.as_str())];
        let pairs: Vec<(&str, String)> =
            own.iter().chain(fields).map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = perpend_views::with_query("", &pairs);
        let body = body.trim_start_matches('?').to_owned();
        self.visitor.send(&format!("{base}{action}"), body).await
    }
}

/// The path below the project that a form leads to.
fn location(test: &DatasetTest, answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    let location = answer.headers["location"].to_str().unwrap();
    location.strip_prefix(&test.visitor.base).unwrap().to_owned()
}

#[tokio::test]
async fn a_dataset_is_created_in_a_folder_and_a_used_name_is_refused_with_the_typed_text() {
    let test = DatasetTest::new().await;
    let empty = test.visitor.page("/datasets").await;
    assert!(empty.contains("No datasets yet"), "{empty}");
    let fields = [("name", "support/refunds"), ("description", "Questions <i>")];
    let sent = test.send("/datasets", "/datasets", &fields).await;
    let path = location(&test, &sent);
    let page = test.visitor.page(&path).await;
    assert!(page.contains("No items yet") && page.contains("Questions &#60;i&#62;"), "{page}");
    assert_eq!(rows(&test.visitor.page("/datasets").await), ["support"]);
    assert_eq!(rows(&test.visitor.page("/datasets?folder=support").await), ["refunds"]);
    let again = test.send("/datasets", "/datasets", &fields).await;
    assert_eq!(again.status, 422);
    let again = again.text();
    assert!(again.contains("value=\"support/refunds\"") && again.contains("must be unused"));
    let unnamed = test.send("/datasets", "/datasets", &[("name", "")]).await;
    assert_eq!(unnamed.status, 422, "{}", unnamed.text());
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn items_are_filtered_by_text_metadata_and_status_and_archived_with_undo() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    let item = |id: &str, input: &str, metadata: Value| json!({ "datasetName": "d", "id": id, "input": { "q": input }, "metadata": metadata });
    test.item(item("one", "Where is 50% of it?", json!({ "tier": "gold", "n": 1 }))).await;
    test.item(item("two", "A \"quoted\" line", json!({ "tier": "silver", "n": 12 }))).await;
    let shown = async |query: &str| rows(&test.visitor.page(&format!("{path}{query}")).await);
    assert_eq!(shown("").await, ["two", "one"]);
    assert_eq!(shown("?q=WHERE").await, ["one"]);
    assert_eq!(shown("?q=50%25").await, ["one"]);
    assert_eq!(shown("?q=%22quoted%22").await, ["two"]);
    assert_eq!(shown("?q=5_").await, Vec::<String>::new(), "`_` is literal");
    assert_eq!(shown("?key=tier&value=gold").await, ["one"]);
    assert_eq!(shown("?key=n&value=1").await, ["one"]);
    assert_eq!(shown("?status=archived").await, Vec::<String>::new());
    let bulk = format!("{path}/bulk");
    let sent = test.send(&path, &bulk, &[("act", "archive"), ("item", "one")]).await;
    assert_eq!(location(&test, &sent), path);
    assert_eq!(shown("").await, ["two"]);
    assert_eq!(shown("?status=archived").await, ["one"]);
    assert_eq!(shown("?status=all").await, ["two", "one"]);
    let sent = test.send(&path, &bulk, &[("act", "delete"), ("item", "two")]).await;
    assert_eq!(sent.status, 303);
    let sent = test.send(&path, &bulk, &[("act", "activate"), ("item", "one")]).await;
    assert_eq!(sent.status, 303);
    assert_eq!(shown("?status=all").await, ["one"]);
    let none = test.send(&path, &bulk, &[("act", "burn"), ("item", "one")]).await;
    assert_eq!(none.status, 400);
    let faulty = test.visitor.page(&format!("{path}?status=gone&page=x&tab=none&asof=now")).await;
    for name in ["`status`", "`page`", "`tab`", "`asof`"] {
        assert!(faulty.contains(name), "{name}: {faulty}");
    }
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_earlier_state_shows_its_items_only_to_read() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    test.item(json!({ "datasetName": "d", "id": "one", "input": "before" })).await;
    let item = test.get("/api/public/dataset-items/one").await;
    let version = item["version"].as_str().unwrap();
    test.app.clock.advance(std::time::Duration::from_secs(1));
    test.item(json!({ "datasetName": "d", "id": "one", "input": "after" })).await;
    test.item(json!({ "datasetName": "d", "id": "two", "input": "later" })).await;
    let then = test.visitor.page(&format!("{path}?asof={version}")).await;
    assert_eq!(rows(&then), ["one"]);
    assert!(then.contains("before") && !then.contains("name=\"item\""), "{then}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn schemas_that_items_break_are_refused_with_the_items_and_the_typed_text() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    test.item(json!({ "datasetName": "d", "id": "good", "input": { "q": "a" } })).await;
    test.item(json!({ "datasetName": "d", "id": "bad", "input": { "q": 1 } })).await;
    let (tab, action) = (format!("{path}?tab=schemas"), format!("{path}/schemas"));
    let schema = r#"{ "properties": { "q": { "type": "string" } } }"#;
    let fields = [("input_schema", schema), ("expected_schema", ""), ("act", "save")];
    let sent = test.send(&tab, &action, &fields).await;
    assert_eq!(sent.status, 422);
    let refused = sent.text();
    assert!(refused.contains("1 item does not match"), "{refused}");
    assert!(refused.contains(&format!("{path}/items/bad\"")), "{refused}");
    assert!(refused.contains("input/q: ") && refused.contains("&#34;properties&#34;"), "{refused}");
    let sent = test.send(&tab, &action, &[("input_schema", "{"), ("act", "save")]).await;
    assert_eq!(sent.status, 422);
    assert!(sent.text().contains("must be JSON"));
    test.item(json!({ "datasetName": "d", "id": "bad", "input": { "q": "b" } })).await;
    let sent = test.send(&tab, &action, &fields).await;
    assert_eq!(location(&test, &sent), tab);
    let dataset = test.get("/api/public/v2/datasets/d").await;
    assert_eq!(dataset["inputSchema"]["properties"]["q"]["type"], "string");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_code_of_a_dataset_names_it() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "a \"b\"" })).await;
    let page = test.visitor.page(&format!("{path}?tab=use")).await;
    assert!(page.contains("get_dataset(&#34;a \\&#34;b\\&#34;&#34;"), "{page}");
    assert!(page.contains("runExperiment") && page.contains("version"), "{page}");
    test.app.stop().await.unwrap();
}
