//! Pages of datasets without a script, over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, wait_for};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::{OURS, Visitor, rows};

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
async fn selected_items_are_copied_moved_and_run() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "from" })).await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let other = test.dataset(json!({ "name": "to", "inputSchema": schema })).await;
    let to = other.rsplit('/').next().unwrap();
    for (id, input) in
        [("one", json!({ "q": "a" })), ("a,b", json!({ "q": "b" })), ("bad", json!(1))]
    {
        test.item(json!({ "datasetName": "from", "id": id, "input": input })).await;
    }
    let bulk = format!("{path}/bulk");
    let page = test.visitor.page(&path).await;
    assert!(page.contains(&format!("<option value=\"{to}\">to</option>")), "{page}");
    let copy = [("act", "copy"), ("to", to), ("item", "one"), ("item", "bad")];
    let sent = test.send(&path, &bulk, &copy).await;
    assert_eq!(location(&test, &sent), path);
    assert_eq!(rows(&test.visitor.page(&other).await).len(), 1);
    assert_eq!(rows(&test.visitor.page(&path).await), ["bad", "a,b", "one"]);
    let moved = [("act", "move"), ("to", to), ("item", "a%2Cb")];
    let sent = test.send(&path, &bulk, &moved).await;
    assert_eq!(sent.status, 303);
    assert_eq!(rows(&test.visitor.page(&other).await).len(), 2);
    assert_eq!(rows(&test.visitor.page(&path).await), ["bad", "one"]);
    let nowhere = test.send(&path, &bulk, &[("act", "copy"), ("to", ""), ("item", "one")]).await;
    let message = "must be a dataset of this project";
    assert!(nowhere.status == 400 && nowhere.text().contains(message), "{}", nowhere.text());
    let run = [("act", "run"), ("item", "one"), ("item", "a%2Cb")];
    let sent = test.send(&path, &bulk, &run).await;
    let form = test.visitor.page(&location(&test, &sent)).await;
    assert!(form.contains("value=\"from\" selected") && form.contains("one\na,b"), "{form}");
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

const SCHEMA: &str = r#"{ "type": "object", "properties": { "q": { "type": "string" } } }"#;

#[tokio::test]
async fn an_invalid_item_is_not_saved_and_the_form_keeps_the_typed_text() {
    let test = DatasetTest::new().await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let path = test.dataset(json!({ "name": "d", "inputSchema": schema })).await;
    let (new, items) = (format!("{path}/new-item"), format!("{path}/items"));
    let typed = [("id", "one"), ("input", "{\"q\": 1}"), ("expected", "\"a\""), ("metadata", "")];
    let sent = test.send(&new, &items, &typed).await;
    assert_eq!(sent.status, 422);
    let refused = sent.text();
    assert!(refused.contains("/q: ") && refused.contains("{&#34;q&#34;: 1}"), "{refused}");
    assert!(refused.contains("value=\"one\""), "{refused}");
    let check = format!("/_{path}/check");
    let problems = test.send(&new, &check, &typed).await;
    assert_eq!(problems.status, 200);
    let problems = problems.text();
    assert!(problems.contains("id=\"problems-input\"") && problems.contains("/q: "), "{problems}");
    let sent = test.send(&new, &items, &[("input", "{"), ("metadata", "{}")]).await;
    assert!(sent.status == 422 && sent.text().contains("must be JSON"));
    let valid = [("id", "one"), ("input", "{\"q\": \"b\"}"), ("expected", "\"a\"")];
    let sent = test.send(&new, &items, &valid).await;
    let item = location(&test, &sent);
    assert_eq!(item, format!("{items}/one"));
    let again = test.send(&new, &items, &valid).await;
    assert!(again.status == 422 && again.text().contains("must be unused"));
    let page = test.visitor.page(&item).await;
    assert!(page.contains("{\n  &#34;q&#34;: &#34;b&#34;\n}"), "{page}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_item_is_changed_compared_deleted_and_restored_from_its_versions() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    let id = "a/b ü";
    test.item(json!({ "datasetName": "d", "id": id, "input": "first" })).await;
    let item = format!("{path}/items/{}", perpend_views::segment(id));
    let version = async |id: &str| {
        let path = format!("/api/public/dataset-items/{}", perpend_views::segment(id));
        test.get(&path).await["version"].as_str().unwrap().to_owned()
    };
    let first = version(id).await;
    let fields = |version: &str, input: &str, act: &str| {
        [("version", version.to_owned()), ("input", input.to_owned()), ("act", act.to_owned())]
    };
    let send = async |fields: [(&'static str, String); 3]| {
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        test.send(&item, &item, &fields).await
    };
    let saved = send(fields(&first, "\"second\"", "save")).await;
    assert_eq!(location(&test, &saved), item);
    let late = send(fields(&first, "\"third\"", "save")).await;
    assert_eq!(late.status, 409);
    let late = late.text();
    assert!(late.contains("&#34;third&#34;") && late.contains("Changes since"), "{late}");
    let second = version(id).await;
    let page = test.visitor.page(&format!("{item}?version={second}&compare={first}")).await;
    assert!(page.contains("Changes since") && page.contains("<del>"), "{page}");
    let past = test.visitor.page(&format!("{item}?version={first}")).await;
    assert!(past.contains("value=\"restore\"") && past.contains("&#34;first&#34;"), "{past}");
    let raw = format!("{}{item}/versions/{first}/raw/input", test.visitor.base);
    assert_eq!(test.visitor.client.get(&raw).await.unwrap().text(), "first");
    let deleted = send(fields(&second, "", "delete")).await;
    assert_eq!(deleted.status, 303);
    let undo = [("act", "restore"), ("version", second.as_str())];
    let undone = test.send(&item, &item, &undo).await;
    assert_eq!(location(&test, &undone), item);
    let api = format!("/api/public/dataset-items/{}", perpend_views::segment(id));
    assert_eq!(test.get(&api).await["input"], "second");
    let now = version(id).await;
    let deleted = send(fields(&now, "", "delete")).await;
    assert_eq!(deleted.status, 303);
    let gone = test.visitor.page(&item).await;
    assert!(gone.contains("deleted") && gone.contains("value=\"restore\""), "{gone}");
    assert_eq!(rows(&test.visitor.page(&path).await), Vec::<String>::new());
    let restored = send(fields(&first, "\"first\"", "restore")).await;
    assert_eq!(location(&test, &restored), item);
    assert_eq!(test.get(&api).await["input"], "first");
    let faulty = test.visitor.page(&format!("{item}?version=1&compare=x")).await;
    assert!(faulty.contains("`version`") && faulty.contains("`compare`"), "{faulty}");
    let unknown = format!("{}{path}/items/none", test.visitor.base);
    assert_eq!(test.visitor.client.get(&unknown).await.unwrap().status, 404);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn changes_are_listed_compared_and_an_earlier_state_is_restored() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    test.item(json!({ "datasetName": "d", "id": "one", "input": "before" })).await;
    let item = test.get("/api/public/dataset-items/one").await;
    let then = item["version"].as_str().unwrap();
    // Both changes are in one minute.
    test.app.clock.stop();
    test.app.clock.advance(std::time::Duration::from_secs(120));
    test.item(json!({ "datasetName": "d", "id": "one", "input": "after" })).await;
    test.item(json!({ "datasetName": "d", "id": "two", "input": "later" })).await;
    let log = test.visitor.page(&format!("{path}?tab=versions")).await;
    assert!(log.contains("1 item added, 1 item changed"), "{log}");
    let now = test.get("/api/public/dataset-items/two").await;
    let now = now["version"].as_str().unwrap();
    let diff = test.visitor.page(&format!("{path}?tab=versions&a={then}&b={now}")).await;
    assert!(diff.contains("1 item added, 1 changed, 0 removed"), "{diff}");
    assert_eq!(rows(&diff), ["one", "two"]);
    let (page, action) = (format!("{path}?asof={then}"), format!("{path}/restore"));
    let restored = test.send(&page, &action, &[("asof", then)]).await;
    assert_eq!(location(&test, &restored), path);
    assert_eq!(rows(&test.visitor.page(&path).await), ["one"]);
    assert_eq!(test.get("/api/public/dataset-items/one").await["input"], "before");
    let versions = test.get("/api/v1/dataset-items/one/versions").await;
    assert_eq!(versions["data"].as_array().unwrap().len(), 3, "all versions are kept");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn earlier_schemas_are_shown_and_restored_alone_or_with_the_items_of_then() {
    let test = DatasetTest::new().await;
    test.app.clock.stop();
    let schema = |key: &str| json!({ "type": "object", "required": [key] });
    let path = test.dataset(json!({ "name": "d", "inputSchema": schema("q") })).await;
    test.item(json!({ "datasetName": "d", "id": "one", "input": { "q": 1 } })).await;
    let item = test.get("/api/public/dataset-items/one").await;
    let then = item["version"].as_str().unwrap().to_owned();
    test.app.clock.advance(std::time::Duration::from_secs(120));
    test.post("/api/public/v2/datasets", json!({ "name": "d", "inputSchema": {} })).await;
    test.item(json!({ "datasetName": "d", "id": "one", "input": { "p": 1 } })).await;
    let new = json!({ "name": "d", "inputSchema": schema("p") });
    test.post("/api/public/v2/datasets", new).await;
    test.app.clock.advance(std::time::Duration::from_secs(120));
    let log = test.visitor.page(&format!("{path}?tab=versions")).await;
    assert!(log.contains("?tab=schemas&#38;asof="), "{log}");
    let tab = test.visitor.page(&format!("{path}?tab=schemas&asof={then}")).await;
    assert!(tab.contains("Schemas as of") && tab.contains("&#34;q&#34;"), "{tab}");
    let alone = json!({ "version": then, "include": "schemas" });
    let restore = "/api/v1/datasets/d/restore";
    let refused = test.app.client.json(Method::POST, restore, &alone).await.unwrap();
    assert_eq!(refused.status, 400, "{}", refused.text());
    let dry = json!({ "version": then, "include": "schemas", "dryRun": true });
    let dry = test.post(restore, dry).await;
    assert_eq!(
        (&dry["hasRestoredSchemas"], &dry["problems"][0]["itemId"]),
        (&json!(true), &json!("one"))
    );
    let wrong = json!({ "version": then, "include": "runs" });
    let wrong = test.app.client.json(Method::POST, restore, &wrong).await.unwrap();
    assert!(wrong.status == 400 && wrong.text().contains("include"), "{}", wrong.text());
    let page = format!("{path}?asof={then}");
    let form = test.visitor.page(&page).await;
    assert!(form.contains("Restore items and schemas"), "{form}");
    let fields = [("asof", then.as_str()), ("include", "all")];
    let sent = test.send(&page, &format!("{path}/restore"), &fields).await;
    assert_eq!(location(&test, &sent), path);
    let dataset = test.get("/api/public/v2/datasets/d").await;
    assert_eq!(dataset["inputSchema"], schema("q"));
    let item = test.get("/api/public/dataset-items/one").await;
    assert_eq!(item["input"], json!({ "q": 1 }));
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn the_impact_of_schemas_is_shown_and_schemas_are_inferred_without_saving() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    for n in 0..3 {
        let id = format!("i{n}");
        test.item(json!({ "datasetName": "d", "id": id, "input": { "q": n } })).await;
    }
    let (tab, action) = (format!("{path}?tab=schemas"), format!("{path}/schemas"));
    let sent = test.send(&tab, &action, &[("input_schema", SCHEMA), ("act", "impact")]).await;
    assert_eq!(sent.status, 200);
    let impact = sent.text();
    assert!(impact.contains("3 of 3 active items do not match"), "{impact}");
    assert!(impact.contains(&format!("{path}/items/i0\"")), "{impact}");
    let sent = test.send(&tab, &action, &[("input_schema", "5"), ("act", "impact")]).await;
    assert_eq!(sent.status, 422, "{}", sent.text());
    let sent = test.send(&tab, &action, &[("act", "infer")]).await;
    assert_eq!(sent.status, 200);
    let inferred = sent.text();
    assert!(
        inferred.contains("Inferred from 3 items") && inferred.contains("integer"),
        "{inferred}"
    );
    let dataset = test.get("/api/public/v2/datasets/d").await;
    assert_eq!(dataset["inputSchema"], Value::Null);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_dataset_is_moved_and_deleted_only_with_its_name() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d", "description": "old" })).await;
    test.dataset(json!({ "name": "used" })).await;
    let edit = format!("{path}/edit");
    let used = test.send(&edit, &edit, &[("name", "used"), ("description", "new")]).await;
    assert!(used.status == 422 && used.text().contains("must be unused"));
    let moved = test.send(&edit, &edit, &[("name", "a/d"), ("description", "")]).await;
    assert_eq!(location(&test, &moved), path);
    let dataset = test.get("/api/public/v2/datasets/a%2Fd").await;
    assert_eq!(dataset["description"], Value::Null);
    let delete = format!("{path}/delete");
    let refused = test.send(&edit, &delete, &[("confirm", "d")]).await;
    assert!(refused.status == 422 && refused.text().contains("must be the name"));
    let deleted = test.send(&edit, &delete, &[("confirm", "a/d")]).await;
    assert_eq!(location(&test, &deleted), "/datasets?folder=a");
    let gone = format!("{}{path}", test.visitor.base);
    assert_eq!(test.visitor.client.get(&gone).await.unwrap().status, 404);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_archived_dataset_is_left_out_of_lists_and_choices_and_still_works() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "f/old" })).await;
    test.dataset(json!({ "name": "f/new" })).await;
    let (edit, archive) = (format!("{path}/edit"), format!("{path}/archive"));
    let sent = test.send(&edit, &archive, &[("act", "archive")]).await;
    assert_eq!(location(&test, &sent), path);
    assert_eq!(rows(&test.visitor.page("/datasets?folder=f").await), ["new"]);
    assert_eq!(rows(&test.visitor.page("/datasets?folder=f&archived=1").await), ["old"]);
    let choices = test.visitor.page("/experiments/new").await;
    assert!(choices.contains("value=\"f/new\"") && !choices.contains("value=\"f/old\""));
    let form = test.visitor.page("/experiments/new?dataset=f%2Fold").await;
    assert!(form.contains("value=\"f/old\" selected"), "{form}");
    test.item(json!({ "datasetName": "f/old", "id": "one", "input": "kept" })).await;
    assert_eq!(rows(&test.visitor.page(&path).await), ["one"]);
    let stored = test.get("/api/v1/datasets/f%2Fold").await;
    assert!(stored["archivedAt"].is_string(), "{stored}");
    let listed = test.get("/api/v1/datasets?archived=false").await;
    assert_eq!(listed["meta"]["totalItems"], 1);
    let sent = test.send(&edit, &archive, &[("act", "activate")]).await;
    assert_eq!(location(&test, &sent), path);
    assert_eq!(rows(&test.visitor.page("/datasets?folder=f").await), ["new", "old"]);
    let unknown = test.send(&edit, &archive, &[("act", "burn")]).await;
    assert_eq!(unknown.status, 400);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn an_observation_is_added_to_a_dataset_with_a_mapping_and_its_source() {
    let test = DatasetTest::new().await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let path = test.dataset(json!({ "name": "d", "inputSchema": schema })).await;
    let dataset = path.rsplit('/').next().unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "Two days.");
    test.app.ingest(&trace).await.unwrap();
    let pane = test.visitor.page(&format!("/traces/{}?trace", trace.id)).await;
    let link = format!("/dataset-items/new?trace={}", trace.id);
    assert!(pane.contains(&link), "{pane}");
    let choose = test.visitor.page(&link).await;
    assert!(choose.contains("Choose a dataset") && !choose.contains("<textarea"), "{choose}");
    let preview = format!("{link}&dataset={dataset}&input=$.output&expected=$.none");
    let page = test.visitor.page(&preview).await;
    assert!(page.contains("selects nothing") && page.contains("<textarea"), "{page}");
    let fields =
        [("trace", trace.id.as_str()), ("input", "{\"q\": \"Refund?\"}"), ("expected", "\"2\"")];
    let sent = test.send(&preview, &format!("{path}/items"), &fields).await;
    let item = location(&test, &sent);
    let shown = test.visitor.page(&item).await;
    assert!(shown.contains(&format!("/traces/{}\"", trace.id)), "{shown}");
    let wrong = [("trace", trace.id.as_str()), ("input", "{\"q\": 1}")];
    let refused = test.send(&preview, &format!("{path}/items"), &wrong).await;
    assert_eq!(refused.status, 422);
    let refused = refused.text();
    let kept = format!("name=\"trace\" value=\"{}\"", trace.id);
    assert!(refused.contains("/q: ") && refused.contains(&kept), "{refused}");
    let missing = format!("{}/dataset-items/new?trace=none", test.visitor.base);
    assert_eq!(test.visitor.client.get(&missing).await.unwrap().status, 404);
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn selected_traces_and_all_of_a_list_are_added_after_a_preview() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    let dataset = path.rsplit('/').next().unwrap();
    let traces: Vec<Trace> = (1..=3)
        .map(|n| {
            Trace::new(n, if n == 3 { "other" } else { "ticket" }).generation("answer", "Yes.")
        })
        .collect();
    for trace in &traces {
        test.app.ingest(trace).await.unwrap();
    }
    let list = test.visitor.page("/traces?q=name%3Aticket").await;
    assert!(list.contains("/dataset-items/from-traces\"") && list.contains("from-traces?in="));
    let from = "/dataset-items/from-traces";
    let chosen = format!("{from}?trace={}&dataset={dataset}&input=$.name&expected=", traces[2].id);
    let preview = test.visitor.page(&chosen).await;
    assert!(preview.contains("1 created") && preview.contains("Add 1 trace"), "{preview}");
    assert_eq!(rows(&test.visitor.page(&path).await), Vec::<String>::new(), "only a preview");
    let id = traces[2].id.as_str();
    let fields = [("trace", id), ("dataset", dataset), ("input", "$.name"), ("expected", "")];
    let sent = test.send(&chosen, from, &fields).await;
    assert_eq!(location(&test, &sent), path);
    let all = [
        ("in", "/traces?q=name%3Aticket"),
        ("dataset", dataset),
        ("input", "$.name"),
        ("expected", ""),
    ];
    let sent = test.send(&chosen, from, &all).await;
    assert_eq!(location(&test, &sent), path);
    let items = test.get("/api/public/dataset-items?datasetName=d").await;
    let mut inputs: Vec<&str> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["input"].as_str().unwrap())
        .collect();
    inputs.sort_unstable();
    assert_eq!(inputs, ["other", "ticket", "ticket"]);
    let wrong = test.visitor.page(&format!("{chosen}&metadata=x")).await;
    assert!(wrong.contains("JSONPath") && !wrong.contains("Add 1 trace"), "{wrong}");
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn selected_observations_and_all_of_a_list_are_added() {
    let test = DatasetTest::new().await;
    let path = test.dataset(json!({ "name": "d" })).await;
    let dataset = path.rsplit('/').next().unwrap();
    for n in 1..=2 {
        let trace = Trace::new(n, "ticket").generation("answer", "Yes.");
        test.app.ingest(&trace).await.unwrap();
    }
    let list = test.visitor.page("/observations?q=name%3Aanswer").await;
    let values = list.split("name=\"observation\" form=\"choice\" value=\"").skip(1);
    let values: Vec<&str> = values.filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    assert_eq!(values.len(), 2, "{list}");
    let all = "in=%2Fobservations%3Fq%3Dname%253Aanswer";
    assert!(list.contains(&format!("from-traces?{all}\"")), "{list}");
    let from = "/dataset-items/from-traces";
    let mapping = "&input=$.name&expected=$.output";
    let one = format!("{from}?observation={}&dataset={dataset}{mapping}", values[0]);
    let preview = test.visitor.page(&one).await;
    assert!(preview.contains("1 created") && preview.contains("Add 1 observation"), "{preview}");
    let fields =
        [("observation", values[0]), ("dataset", dataset), ("input", "$.name"), ("expected", "")];
    let sent = test.send(&one, from, &fields).await;
    assert_eq!(location(&test, &sent), path);
    let items = test.get("/api/public/dataset-items?datasetName=d").await;
    assert_eq!(items["data"][0]["input"], "answer");
    assert!(items["data"][0]["sourceObservationId"].is_string(), "{items}");
    let fields = [
        ("in", "/observations?q=name%3Aanswer"),
        ("dataset", dataset),
        ("input", "$.name"),
        ("expected", ""),
    ];
    let sent = test.send(&format!("{from}?{all}&dataset={dataset}"), from, &fields).await;
    assert_eq!(location(&test, &sent), path);
    let items = test.get("/api/public/dataset-items?datasetName=d").await;
    assert_eq!(items["meta"]["totalItems"], 2);
    let fields = [("observation", values[0]), ("dataset", dataset), ("input", "name")];
    let refused = test.send(&one, from, &fields).await;
    assert_eq!(refused.status, 422);
    let refused = refused.text();
    assert!(refused.contains("class=\"problem\"") && refused.contains("value=\"name\""));
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn pasted_rows_and_a_file_are_mapped_checked_and_imported() {
    let test = DatasetTest::new().await;
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let path = test.dataset(json!({ "name": "d", "inputSchema": schema })).await;
    let import = format!("{path}/import");
    let empty = test.send(&import, &import, &[("text", " ")]).await;
    assert_eq!(empty.status, 422, "{}", empty.text());
    let rows_of_file = "question,answer\n=1+1,2\n\"a, b\",c\n,d\n";
    let sent = test.send(&import, &import, &[("text", rows_of_file)]).await;
    let state = location(&test, &sent);
    let page = test.visitor.page(&state).await;
    assert!(page.contains("question") && page.contains("=1+1"), "{page}");
    let mapping = [
        ("column", "question"),
        ("target", "input"),
        ("path", "q"),
        ("type", "text"),
        ("column", "answer"),
        ("target", "expectedOutput"),
        ("path", ""),
        ("type", "text"),
        ("act", "import"),
    ];
    let wrong = mapping.map(|(name, value)| match (name, value) {
        ("path", "q") => (name, "q.q"),
        ("type", "text") => (name, "date"),
        pair => pair,
    });
    let refused = test.send(&state, &state, &wrong).await;
    assert_eq!(refused.status, 422);
    let refused = refused.text();
    assert!(refused.contains("href=\"#field-mapping\"") && refused.contains("value=\"q.q\""));
    let progress = test.visitor.page(&format!("/_{state}/progress")).await;
    assert_eq!(progress.trim(), "", "the import does not run");
    let sent = test.send(&state, &state, &mapping).await;
    assert_eq!(location(&test, &sent), state);
    let id = state.rsplit('/').next().unwrap();
    let of_api = format!("/api/v1/datasets/d/imports/{id}");
    let is_done = |import: &Value| import["state"] == "completed";
    wait_for(&test.app.client, &of_api, is_done).await.unwrap();
    let done = test.visitor.page(&state).await;
    assert!(done.contains("3 rows: 2 created, 1 invalid"), "{done}");
    let download = format!("{}{state}/rejected?format=csv", test.visitor.base);
    let rejected = test.visitor.client.get(&download).await.unwrap().text();
    assert!(rejected.starts_with("row,") && rejected.contains("\n3,"), "{rejected}");
    let base = test.visitor.base.clone();
    let file = b"id,question\nx,fine\ny,\n";
    let token = test.visitor.token(&format!("{base}{import}")).await;
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"form\"\r\n\r\n{token}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"q.csv\"\r\n\r\n{}\r\n--b--\r\n",
        String::from_utf8_lossy(file)
    );
    let headers = [("content-type", "multipart/form-data; boundary=b"), OURS];
    let upload = format!("{base}{import}/file");
    let client = &test.visitor.client;
    let forged =
        client.send(Method::POST, &upload, &headers, body.replacen(&token[..4], "AAAA", 1));
    assert_eq!(forged.await.unwrap().status, 403);
    let sent = client.send(Method::POST, &upload, &headers, body).await.unwrap();
    let page = test.visitor.page(&location(&test, &sent)).await;
    assert!(page.contains("q.csv") && page.contains("fine"), "{page}");
    let export = client.get(&format!("{base}{path}/export?format=jsonl")).await.unwrap();
    assert_eq!(export.status, 200, "{}", export.text());
    test.app.stop().await.unwrap();
}
