//! Batches, history, files and sources of the items of datasets, over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::body::{Body, Bytes};
use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{Child, KEYS, TestApp, Trace, command, trace_id, wait_for};
use perpend_server::client::{Answer, Client};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

const FORMATS: [&str; 4] = ["csv", "tsv", "jsonl", "json"];

async fn create(client: &Client, name: &str) {
    let body = json!({ "name": name });
    let made = client.json(Method::POST, "/api/public/v2/datasets", &body).await.unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
}

async fn call(client: &Client, method: Method, path: &str, body: Value) -> Value {
    let answer = client.json(method, path, &body).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.text());
    answer.json()
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    call(client, Method::POST, path, body).await
}

async fn get(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Outcomes of a batch, as `created updated ...`.
fn results(batch: &Value) -> String {
    let results = batch["results"].as_array().unwrap().iter();
    let results: Vec<&str> = results.map(|each| each["result"].as_str().unwrap()).collect();
    results.join(" ")
}

async fn export(client: &Client, dataset: &str, format: &str) -> Vec<u8> {
    let path = format!("/api/v1/datasets/{dataset}/export?format={format}");
    let answer = client.get(&path).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.body
}

async fn upload(client: &Client, path: &str, body: impl Into<Vec<u8>>) -> Answer {
    let headers = [("content-type", "application/octet-stream")];
    let body: Vec<u8> = body.into();
    client.send(Method::POST, path, &headers, body).await.unwrap()
}

/// Uploads a file and waits for the end of its import.
async fn import(client: &Client, dataset: &str, query: &str, body: impl Into<Vec<u8>>) -> Value {
    let path = format!("/api/v1/datasets/{dataset}/import?start=import&{query}");
    let uploaded = upload(client, &path, body).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let id = uploaded.json()["id"].as_str().unwrap().to_owned();
    ended(client, &format!("/api/v1/datasets/{dataset}/imports/{id}")).await
}

async fn ended(client: &Client, path: &str) -> Value {
    let is_ended =
        |import: &Value| !matches!(import["state"].as_str(), Some("checking" | "importing"));
    wait_for(client, path, is_ended).await.unwrap()
}

/// All items of a dataset without what differs between datasets.
async fn items(client: &Client, dataset: &str) -> Vec<Value> {
    let exported = export(client, dataset, "jsonl").await;
    let lines = exported.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut items: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    items.sort_by_key(|item| item["id"].to_string());
    items
}

#[tokio::test]
async fn each_item_of_a_batch_has_its_own_outcome() {
    let app = TestApp::new().await.unwrap();
    let schema = json!({ "type": "object", "required": ["q"] });
    let body = json!({ "name": "d", "inputSchema": schema });
    post(&app.client, "/api/public/v2/datasets", body).await;
    let path = "/api/v1/datasets/d/items/batch";
    let batch = json!({ "items": [
        { "id": "a", "input": { "q": 1 }, "expectedOutput": "x", "metadata": { "m": 1 } },
        { "id": "b", "input": { "p": 1 } },
        { "id": "c", "input": { "q": 2 } },
        { "id": "a", "input": { "q": 3 } },
        { "input": { "q": 4 }, "surprise": true },
    ] });
    let made = post(&app.client, path, batch.clone()).await;
    assert_eq!(results(&made), "created invalid created invalid invalid");
    assert_eq!(made["counts"]["created"], 2);
    assert_eq!(made["results"][1]["problems"][0]["field"], "input");
    let again = post(&app.client, path, batch).await;
    assert_eq!(results(&again), "unchanged invalid unchanged invalid invalid");
    let clear = json!({ "items": [
        { "id": "a", "expectedOutput": null, "metadata": null },
        { "id": "c", "delete": true },
        { "id": "none", "delete": true },
    ] });
    let dry = json!({ "items": clear["items"], "dryRun": true });
    let expected = "updated deleted invalid";
    assert_eq!(results(&post(&app.client, path, dry).await), expected);
    assert_eq!(results(&post(&app.client, path, clear).await), expected);
    let left = items(&app.client, "d").await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["input"], json!({ "q": 1 }));
    assert_eq!((&left[0]["expectedOutput"], &left[0]["metadata"]), (&Value::Null, &Value::Null));
    let skip = json!({ "items": [{ "id": "a", "input": { "q": 9 } }], "onExisting": "skip" });
    assert_eq!(results(&post(&app.client, path, skip).await), "skipped");
    let other = app.other_project().await.unwrap();
    let foreign = json!({ "items": [{ "input": { "q": 1 } }] });
    assert_eq!(other.json(Method::POST, path, &foreign).await.unwrap().status, 404);
}

#[tokio::test]
async fn items_are_copied_and_moved_to_another_dataset() {
    let app = TestApp::new().await.unwrap();
    create(&app.client, "a").await;
    let strict = json!({ "name": "b", "inputSchema": { "type": "integer" } });
    post(&app.client, "/api/public/v2/datasets", strict).await;
    let batch = json!({ "items": [
        { "id": "one", "input": 1, "status": "ARCHIVED" }, { "id": "two", "input": "text" },
    ] });
    post(&app.client, "/api/v1/datasets/a/items/batch", batch).await;
    let path = "/api/v1/datasets/a/items/copy";
    let copy = json!({ "itemIds": ["one", "two", "none"], "to": "b" });
    let copied = post(&app.client, path, copy.clone()).await;
    assert_eq!(
        (&copied["counts"]["created"], &copied["counts"]["invalid"]),
        (&json!(1), &json!(2))
    );
    let again = post(&app.client, path, copy).await;
    assert_eq!(again["counts"]["unchanged"], 1, "{again}");
    let copies = items(&app.client, "b").await;
    assert_eq!((copies.len(), &copies[0]["status"]), (1, &json!("ARCHIVED")));
    let moved = json!({ "itemIds": ["one", "two"], "to": "b", "move": true });
    post(&app.client, path, moved).await;
    let left = items(&app.client, "a").await;
    assert_eq!((left.len(), &left[0]["id"]), (1, &json!("two")), "an item that does not fit stays");
}

/// The items without their ids, sorted.
fn without_ids(mut items: Vec<Value>) -> Vec<String> {
    for item in &mut items {
        item.as_object_mut().unwrap().remove("id");
    }
    let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
    texts.sort_unstable();
    texts
}

#[tokio::test]
async fn an_export_imports_equal_in_every_format_on_each_database() {
    for database in TempDatabase::each_migrated().await {
        let url = match database.url() {
            DatabaseUrl::Sqlite(_) => None,
            DatabaseUrl::Postgres(raw) => Some(raw.clone()),
        };
        let settings: Vec<(&str, &str)> =
            url.iter().map(|url| ("database.url", url.as_str())).collect();
        let app = TestApp::with(&settings).await.unwrap();
        exports_import_equal(&app).await;
        app.stop().await.unwrap();
    }
}

async fn exports_import_equal(app: &TestApp) {
    let other = app.other_project().await.unwrap();
    create(&app.client, "d").await;
    let tricky = [
        json!("=1+1"),
        json!("'quoted"),
        json!("a,b\t\"c\"\r\nd;\u{2028} \u{1f600}"),
        json!({ "": [null, true, -1.5, 1e300], "k\"": { "nested": "-2" } }),
        json!(-7),
        json!(null),
        json!(""),
        json!([]),
        json!("null"),
    ];
    let items_of_batch = tricky.iter().enumerate().map(|(n, value)| {
        json!({
            "id": format!("{}{n}", ["=", "'", "@x,", "+", "i"][n % 5]),
            "input": value, "expectedOutput": [value], "metadata": { "v": value },
            "sourceTraceId": if n == 0 { json!("=t") } else { Value::Null },
            "status": if n == 1 { "ARCHIVED" } else { "ACTIVE" },
        })
    });
    let batch = json!({ "items": items_of_batch.collect::<Vec<Value>>() });
    let made = post(&app.client, "/api/v1/datasets/d/items/batch", batch).await;
    assert_eq!(made["counts"]["created"], tricky.len());
    let expected = items(&app.client, "d").await;
    assert_eq!(expected.len(), tricky.len());
    for format in FORMATS {
        create(&other, format).await;
        let file = export(&app.client, "d", format).await;
        let query = format!("fileName=d.{format}");
        let done = import(&other, format, &query, file.clone()).await;
        assert_eq!(done["state"], "completed", "{done}");
        assert_eq!(done["progress"]["created"], tricky.len(), "{done}");
        assert_eq!(items(&other, format).await, expected, "{format}");
        let again = import(&other, format, &query, file).await;
        assert_eq!(again["progress"]["unchanged"], tricky.len(), "{again}");
        call(&other, Method::DELETE, &format!("/api/v1/datasets/{format}"), json!({})).await;
        // In the same project, the ids are in use.
        create(&app.client, format).await;
        let file = export(&app.client, "d", format).await;
        for outcome in ["created", "unchanged"] {
            let done = import(&app.client, format, &query, file.clone()).await;
            assert_eq!(done["progress"][outcome], tricky.len(), "{done}");
        }
        assert_eq!(without_ids(items(&app.client, format).await), without_ids(expected.clone()));
        let path = format!("/api/v1/datasets/{format}");
        call(&app.client, Method::DELETE, &path, json!({})).await;
    }
}

#[tokio::test]
async fn a_broken_row_is_reported_with_its_position_and_affects_no_other() {
    let app = TestApp::new().await.unwrap();
    let schema = json!({ "type": "object", "required": ["q"] });
    let body = json!({ "name": "d", "inputSchema": schema });
    post(&app.client, "/api/public/v2/datasets", body).await;
    let file = "key;question;size\none;=SUM(A1);1\ntwo;\"a\nb\";x\nthree;c\nfour;;4\nfive;e;5\n";
    let base = "/api/v1/datasets/d";
    let uploaded = upload(&app.client, &format!("{base}/import?fileName=q.csv"), file).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let uploaded = uploaded.json();
    assert_eq!((&uploaded["delimiter"], &uploaded["state"]), (&json!(";"), &json!("uploaded")));
    assert_eq!(uploaded["preview"]["columns"], json!(["key", "question", "size"]));
    let path = format!("{base}/imports/{}", uploaded["id"].as_str().unwrap());
    let mapping = json!({ "mapping": [
        { "column": "key", "target": "id" },
        { "column": "question", "target": "input", "path": ["q"] },
        { "column": "size", "target": "metadata", "path": ["size"], "type": "number" },
    ] });
    call(&app.client, Method::PATCH, &path, mapping).await;
    post(&app.client, &format!("{path}/check"), json!({})).await;
    let checked = ended(&app.client, &path).await;
    let counts = |import: &Value| {
        ["rows", "created", "invalid"].map(|name| import["progress"][name].as_u64().unwrap())
    };
    assert_eq!((checked["state"].as_str(), counts(&checked)), (Some("checked"), [5, 2, 3]));
    assert!(items(&app.client, "d").await.is_empty(), "a check writes no items");
    post(&app.client, &format!("{path}/start"), json!({})).await;
    let done = ended(&app.client, &path).await;
    assert_eq!((done["state"].as_str(), counts(&done)), (Some("completed"), [5, 2, 3]));
    let made = items(&app.client, "d").await;
    assert_eq!(made.len(), 2);
    assert_eq!(made[1]["input"], json!({ "q": "=SUM(A1)" }), "text that looks like a formula");
    let rejected = app.client.get(&format!("{path}/rejected?format=jsonl")).await.unwrap();
    let rows: Vec<Value> =
        rejected.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<(u64, &str)> = rows
        .iter()
        .map(|row| (row["row"].as_u64().unwrap(), row["column"].as_str().unwrap()))
        .collect();
    assert_eq!(places, [(2, "size"), (3, ""), (4, "")]);
    assert_eq!(rows[0]["pointer"], "/metadata/size");
    let table = app.client.get(&format!("{path}/rejected")).await.unwrap().text();
    assert_eq!(table.lines().next(), Some("row,column,pointer,reason"));
    let spool = std::fs::read_dir(app.data_dir().join("imports")).unwrap();
    assert_eq!(spool.count(), 0, "the file is deleted at the end");
    let listed = get(&app.client, &format!("{base}/imports")).await;
    assert_eq!(listed["data"][0]["id"], uploaded["id"]);
}

#[tokio::test]
async fn rows_whose_id_exists_are_skipped_updated_or_end_the_import() {
    let app = TestApp::new().await.unwrap();
    create(&app.client, "d").await;
    let first = "id,input\na,1\nb,2\n";
    let done = import(&app.client, "d", "fileName=a.csv", first).await;
    assert_eq!(done["progress"]["created"], 2, "{done}");
    let second = "id,input\nc,3\na,4\nd,5\n";
    let done = import(&app.client, "d", "fileName=a.csv&duplicates=stop", second).await;
    assert_eq!((&done["state"], &done["progress"]["created"]), (&json!("failed"), &json!(1)));
    assert!(done["error"].as_str().unwrap().contains("row 2"), "{done}");
    let done = import(&app.client, "d", "fileName=a.csv&duplicates=skip", second).await;
    let progress = &done["progress"];
    assert_eq!((&progress["created"], &progress["skipped"]), (&json!(1), &json!(2)));
    let done = import(&app.client, "d", "fileName=a.csv&duplicates=update", second).await;
    let progress = &done["progress"];
    assert_eq!((&progress["updated"], &progress["unchanged"]), (&json!(1), &json!(2)));
    let inputs: Vec<Value> =
        items(&app.client, "d").await.into_iter().map(|item| item["input"].clone()).collect();
    assert_eq!(inputs, ["4", "2", "3", "5"]);
    // Rows without an id are new each time they are uploaded.
    for _ in 0..2 {
        let done = import(&app.client, "d", "format=jsonl", "{\"input\": 1}\n{\"input\": 1}").await;
        assert_eq!(done["progress"]["created"], 2, "{done}");
    }
    let wrong = upload(&app.client, "/api/v1/datasets/d/import?start=import", "a,b\n1,2\n").await;
    assert_eq!(wrong.status, 422, "no column can be mapped: {}", wrong.text());
}

#[tokio::test]
async fn a_dataset_returns_to_an_earlier_state_as_new_versions() {
    let app = TestApp::new().await.unwrap();
    create(&app.client, "d").await;
    let path = "/api/v1/datasets/d/items/batch";
    let first = json!({ "items": [{ "id": "a", "input": 1 }, { "id": "b", "input": 2 }] });
    let made = post(&app.client, path, first).await;
    let version = made["results"][0]["version"].as_str().unwrap().to_owned();
    let before = items(&app.client, "d").await;
    let second = json!({ "items": [
        { "id": "a", "input": 10 }, { "id": "b", "delete": true }, { "id": "c", "input": 3 },
    ] });
    post(&app.client, path, second).await;
    let diff = get(&app.client, &format!("/api/v1/datasets/d/diff?from={version}")).await;
    let counts = ["added", "changed", "removed"].map(|name| diff[name].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 1]);
    assert_eq!(
        (&diff["data"][0]["before"]["input"], &diff["data"][0]["after"]["input"]),
        (&json!(1), &json!(10))
    );
    let restored =
        post(&app.client, "/api/v1/datasets/d/restore", json!({ "version": version })).await;
    assert_eq!(restored["problems"], json!([]));
    assert_eq!(items(&app.client, "d").await, before);
    let diff = get(&app.client, &format!("/api/v1/datasets/d/diff?from={version}")).await;
    assert_eq!(diff["added"], 0);
    let versions = get(&app.client, "/api/v1/dataset-items/a/versions").await;
    assert_eq!(versions["meta"]["totalItems"], 3, "the history is kept");
    let changes = get(&app.client, "/api/v1/datasets/d/changes").await;
    assert!(changes["data"][0]["version"].is_string());
}

#[tokio::test]
async fn a_dataset_is_renamed_cleared_and_deleted() {
    let app = TestApp::new().await.unwrap();
    let schema = json!({ "type": "object" });
    let body = json!({ "name": "a", "description": "text", "inputSchema": schema });
    post(&app.client, "/api/public/v2/datasets", body).await;
    create(&app.client, "b").await;
    let item = json!({ "items": [{ "id": "one", "input": { "q": 1 } }] });
    post(&app.client, "/api/v1/datasets/a/items/batch", item).await;
    let impact = json!({ "inputSchema": { "type": "string" } });
    let impact = post(&app.client, "/api/v1/datasets/a/schema-impact", impact).await;
    assert_eq!((&impact["checkedCount"], &impact["failingCount"]), (&json!(1), &json!(1)));
    assert_eq!(impact["violations"][0]["itemId"], "one");
    let inferred = get(&app.client, "/api/v1/datasets/a/infer-schema").await;
    assert_eq!(inferred["inputSchema"]["required"], json!(["q"]));
    let clear = json!({ "description": null, "inputSchema": null, "name": "folder/a" });
    let cleared = call(&app.client, Method::PATCH, "/api/v1/datasets/a", clear).await;
    assert_eq!((&cleared["description"], &cleared["inputSchema"]), (&Value::Null, &Value::Null));
    assert_eq!(cleared["name"], "folder/a");
    // Clients send unset members as null, which changes nothing there.
    let schema = json!({ "name": "folder/a", "inputSchema": { "type": "object" } });
    post(&app.client, "/api/public/v2/datasets", schema).await;
    let unset = json!({ "name": "folder/a", "inputSchema": null });
    let kept = post(&app.client, "/api/public/v2/datasets", unset).await;
    assert_eq!(kept["inputSchema"], json!({ "type": "object" }));
    let taken = json!({ "name": "b" });
    let taken = app.client.json(Method::PATCH, "/api/v1/datasets/folder%2Fa", &taken).await;
    assert_eq!(taken.unwrap().status, 409);
    call(&app.client, Method::DELETE, "/api/v1/datasets/folder%2Fa", json!({})).await;
    assert_eq!(app.client.get("/api/public/dataset-items/one").await.unwrap().status, 404);
    assert_eq!(app.client.get("/api/public/v2/datasets/folder%2Fa").await.unwrap().status, 404);
}

#[tokio::test]
async fn items_are_made_of_traces_with_a_preview_and_only_once() {
    let app = TestApp::new().await.unwrap();
    create(&app.client, "d").await;
    for number in 1..=3 {
        let trace = Trace::new(number, "root")
            .attribute("langfuse.observation.input", &format!("{{\"q\":{number}}}"))
            .attribute("langfuse.observation.output", "Paris");
        app.ingest(&trace).await.unwrap();
    }
    let path = "/api/v1/datasets/d/from-traces";
    let mapping =
        json!({ "input": "$.input.q", "expectedOutput": "$.output", "metadata": "$.name" });
    let dry = json!({ "query": "", "mapping": mapping, "dryRun": true });
    let preview = post(&app.client, path, dry).await;
    assert_eq!(preview["counts"]["created"], 3, "{preview}");
    assert_eq!(preview["results"][0]["item"]["expectedOutput"], "Paris");
    assert!(items(&app.client, "d").await.is_empty());
    let add = json!({ "query": "", "mapping": mapping, "limit": 2 });
    let added = post(&app.client, path, add.clone()).await;
    assert_eq!((&added["counts"]["created"], &added["hasMore"]), (&json!(2), &json!(true)));
    let again = post(&app.client, path, add).await;
    assert_eq!(again["counts"]["unchanged"], 2, "{again}");
    let ids = [trace_id(1), "nothing".to_owned()];
    let mapping = json!({ "input": "$.input.z" });
    let missing = json!({ "traceIds": ids, "mapping": mapping });
    let refused = post(&app.client, path, missing).await;
    assert_eq!(refused["counts"]["invalid"], 2, "{refused}");
    let whole = json!({ "traceIds": [trace_id(1)] });
    assert_eq!(post(&app.client, path, whole).await["counts"]["created"], 1);
    let made = items(&app.client, "d").await;
    let is_linked = |item: &&Value| item["sourceTraceId"].is_string();
    assert_eq!((made.len(), made.iter().filter(is_linked).count()), (3, 3));
    let paths = json!({ "input": "$.input.q", "expectedOutput": "$.output", "metadata": "$.name" });
    let rest = json!({ "query": "", "mapping": paths, "background": true });
    let started = post(&app.client, path, rest).await;
    let import = format!("/api/v1/datasets/d/imports/{}", started["importId"].as_str().unwrap());
    let done = ended(&app.client, &import).await;
    let progress = &done["progress"];
    assert_eq!((&done["state"], &done["isOfTraces"]), (&json!("completed"), &json!(true)));
    assert_eq!((&progress["created"], &progress["unchanged"]), (&json!(1), &json!(2)), "{done}");
    let wrong = json!({ "query": "nosuchcolumn:1" });
    assert_eq!(app.client.json(Method::POST, path, &wrong).await.unwrap().status, 400);
}

#[tokio::test]
async fn a_killed_server_continues_an_import_without_duplicates() {
    const N_ROWS: u64 = 20_000;
    let data = tempfile::tempdir().unwrap();
    let mut server = Child::start(data.path()).await.unwrap();
    create(&server.client, "d").await;
    let file: String = (0..N_ROWS).map(|n| format!("{{\"input\":{n}}}\n")).collect();
    let path = "/api/v1/datasets/d/import?format=jsonl&start=import";
    let uploaded = upload(&server.client, path, file).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let id = uploaded.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/datasets/d/imports/{id}");
    for n_rows in [1, N_ROWS / 2] {
        let has_rows = |import: &Value| n_rows <= import["progress"]["rows"].as_u64().unwrap();
        wait_for(&server.client, &path, has_rows).await.unwrap();
        server.kill().await.unwrap();
        server = Child::start(data.path()).await.unwrap();
    }
    let done = ended(&server.client, &path).await;
    assert_eq!(
        (&done["state"], &done["progress"]["created"]),
        (&json!("completed"), &json!(N_ROWS))
    );
    let mut inputs: Vec<u64> = items(&server.client, "d")
        .await
        .iter()
        .map(|item| item["input"].as_u64().unwrap())
        .collect();
    inputs.sort_unstable();
    assert!(inputs.into_iter().eq(0..N_ROWS), "each row is an item once");
}

/// 200 MB of rows, most of them too long.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_of_200_mb_is_imported_in_constant_memory() {
    const N_ROWS: usize = 40;
    const ROW_BYTES: usize = 5 << 20;
    let data = tempfile::tempdir().unwrap();
    let mut server = Child::start(data.path()).await.unwrap();
    create(&server.client, "d").await;
    server.reset_peak_memory().unwrap();
    let before = server.peak_memory().unwrap();
    let long = Bytes::from([vec![b'x'; ROW_BYTES], b",1\n".to_vec()].concat());
    let rows = (0..N_ROWS).flat_map(move |_| [long.clone(), Bytes::from_static(b"short,2\n")]);
    let header = [Bytes::from_static(b"input,expected\n")];
    let rows = header.into_iter().chain(rows).map(Ok::<Bytes, std::io::Error>);
    let body = Body::from_stream(futures_util::stream::iter(rows));
    let path = "/api/v1/datasets/d/import?fileName=a.csv&start=import";
    let uploaded = server.client.send(Method::POST, path, &[], body).await.unwrap();
    assert_eq!(uploaded.status, 201, "{}", uploaded.text());
    let id = uploaded.json()["id"].as_str().unwrap().to_owned();
    let done = ended(&server.client, &format!("/api/v1/datasets/d/imports/{id}")).await;
    let progress = &done["progress"];
    assert_eq!((&progress["created"], &progress["invalid"]), (&json!(N_ROWS), &json!(N_ROWS)));
    let n_more = server.peak_memory().unwrap().saturating_sub(before);
    assert!(n_more < 100 << 20, "{n_more} bytes more");
    server.kill().await.unwrap();
}

/// Runs `perpend dataset` for a project; exit status and output.
async fn run_command(app: &TestApp, args: &[&str]) -> (Option<i32>, String) {
    let keys = ["--server", &app.origin, "--public-key", KEYS.0, "--secret-key", KEYS.1];
    let all: Vec<&str> = [&["dataset"][..], args, &keys[..]].concat();
    let output = command(&all).unwrap().output().await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn the_command_imports_checks_and_exports() {
    let app = TestApp::new().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (table, rejected, exported) = (path("a.csv"), path("rejected.csv"), path("out.tsv"));
    std::fs::write(&table, "no;question;n\n1;What?;1\n2;Why?;many\n").unwrap();
    let mapping = ["--map", "no=id", "--map", "question=input.q", "--map", "n=metadata.n:number"];
    let import = ["import", &table, "--dataset", "folder/d", "--create", "--rejected", &rejected];
    let check = [&import[..], &mapping[..], &["--check"][..]].concat();
    let (status, text) = run_command(&app, &check).await;
    assert_eq!(status, Some(3), "{text}");
    assert!(items(&app.client, "folder%2Fd").await.is_empty());
    let (status, text) = run_command(&app, &[&import[..], &mapping[..]].concat()).await;
    assert_eq!(status, Some(3), "{text}");
    let made = items(&app.client, "folder%2Fd").await;
    assert_eq!((made.len(), &made[0]["input"]), (1, &json!({ "q": "What?" })));
    let reasons = std::fs::read_to_string(&rejected).unwrap();
    assert_eq!(reasons.lines().count(), 2, "{reasons}");
    let export = ["export", "--dataset", "folder/d", "--output", &exported];
    let (status, text) = run_command(&app, &export).await;
    assert_eq!(status, Some(0), "{text}");
    let again = ["import", &exported, "--dataset", "folder/d", "--json"];
    let (status, text) = run_command(&app, &again).await;
    assert_eq!(status, Some(0), "{text}");
    let import: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(import["progress"]["unchanged"], 1, "{import}");
    let (status, text) = run_command(&app, &["export", "--dataset", "none"]).await;
    assert_eq!(status, Some(1));
    assert!(text.contains("404"), "{text}");
}
