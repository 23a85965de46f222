//! Datasets through HTTP: items and their history, schemas, runs, and experiments as spans and as links.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use perpend_it::{PROCESSES, TestApp, count};
use perpend_server::client::Client;
use serde_json::{Value, json};

const DATASETS: &str = "/api/public/v2/datasets";
const ITEMS: &str = "/api/public/dataset-items";
const LINKS: &str = "/api/public/dataset-run-items";

async fn send(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = client.json(method, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

/// Posts what must be accepted.
async fn post(app: &TestApp, path: &str, body: Value) -> Value {
    let (status, made) = send(&app.client, Method::POST, path, body).await;
    assert_eq!(status, 200, "{made}");
    made
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn item(app: &TestApp, dataset: &str, id: &str, input: Value) -> Value {
    let body = json!({
        "datasetName": dataset, "id": id, "input": input,
        "expectedOutput": null, "metadata": null, "sourceTraceId": null, "status": null,
    });
    post(app, ITEMS, body).await
}

fn ids(list: &Value) -> String {
    let items = list["data"].as_array().unwrap().iter();
    let ids: Vec<&str> = items.filter_map(|item| item["id"].as_str()).collect();
    ids.join(",")
}

/// A trace as an experiment runner records it: the span of an item run with the span of its task.
fn experiment_trace(n: u8, experiment: &str, item_id: &str, dataset_id: Option<&str>) -> Value {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let (trace, root, task) =
        (format!("{n:032x}"), format!("{:016x}", 100 + u32::from(n)), format!("{n:016x}"));
    let mut attributes = vec![
        text("langfuse.experiment.id", experiment),
        text("langfuse.experiment.name", &format!("name of {experiment}")),
        text("langfuse.experiment.metadata", r#"{"model":"small"}"#),
        text("langfuse.experiment.item.id", item_id),
        text("langfuse.experiment.item.root_observation_id", &task),
        text("langfuse.experiment.item.expected_output", "\"Paris\""),
        text("langfuse.observation.input", "{\"q\":1}"),
        text("langfuse.observation.output", "Paris"),
        text("langfuse.environment", "sdk-experiment"),
    ];
    attributes.extend(dataset_id.map(|id| text("langfuse.experiment.dataset.id", id)));
    let start = 1_760_000_000_u64 + u64::from(n);
    let span = |id: &str, parent: &str| {
        json!({
            "traceId": trace, "spanId": id, "parentSpanId": parent, "name": "experiment-item",
            "startTimeUnixNano": (start * 1_000_000_000).to_string(),
            "endTimeUnixNano": (start * 1_000_000_000 + 500_000_000).to_string(),
            "attributes": attributes,
        })
    };
    json!({ "resourceSpans": [{ "scopeSpans": [{
        "scope": { "name": "langfuse-sdk" },
        "spans": [span(&root, ""), span(&task, &root)],
    }] }] })
}

async fn ingest(app: &TestApp, trace: &Value) {
    let (status, body) = send(&app.client, Method::POST, perpend_it::OTLP, trace.clone()).await;
    assert_eq!(status, 200, "{body}");
}

const SINCE: &str = "fromStartTime=2025-01-01T00:00:00Z";

#[tokio::test]
async fn a_dataset_is_made_once_and_changed_by_its_name() {
    let app = TestApp::new().await.unwrap();
    let body = json!({ "name": "eu/capitals 100%", "description": "Which?", "metadata": null, "inputSchema": null });
    let first = post(&app, DATASETS, body.clone()).await;
    assert_eq!((&first["metadata"], &first["inputSchema"]), (&Value::Null, &Value::Null));
    let again = post(&app, DATASETS, body).await;
    assert_eq!(again, first);
    let changed =
        post(&app, DATASETS, json!({ "name": "eu/capitals 100%", "metadata": { "a": 1 } })).await;
    assert_eq!((&changed["id"], &changed["description"]), (&first["id"], &json!("Which?")));
    let found = get(&app, &format!("{DATASETS}/eu%2Fcapitals%20100%25")).await;
    assert_eq!(found["metadata"], json!({ "a": 1 }));
    let twice = get(&app, &format!("{DATASETS}/eu%252Fcapitals%2520100%2525")).await;
    assert_eq!(twice["id"], first["id"], "older clients encode twice");
    let old = post(&app, "/api/public/datasets", json!({ "name": "old" })).await;
    assert_eq!((&old["items"], &old["runs"]), (&json!([]), &json!([])));
    let list = get(&app, DATASETS).await;
    assert_eq!(
        (list["data"][0]["name"].as_str(), &list["meta"]["totalItems"]),
        (Some("old"), &json!(2))
    );
    assert_eq!(app.client.get(&format!("{DATASETS}/none")).await.unwrap().status, 404);
    let other = app.other_project().await.unwrap();
    assert_eq!(other.get(&format!("{DATASETS}/old")).await.unwrap().status, 404);
}

#[tokio::test]
async fn an_item_has_all_required_members_and_later_writes_change_the_sent_ones() {
    let app = TestApp::new().await.unwrap();
    post(&app, DATASETS, json!({ "name": "d" })).await;
    let made = item(&app, "d", "one", json!({ "q": 1 })).await;
    for key in
        ["input", "expectedOutput", "metadata", "mediaReferences", "version", "datasetId", "status"]
    {
        assert!(made.get(key).is_some(), "{key}");
    }
    assert_eq!(made, item(&app, "d", "one", json!({ "q": 1 })).await, "again changes nothing");
    let more =
        json!({ "datasetName": "d", "id": "one", "expectedOutput": "Paris", "sourceTraceId": "t" });
    let changed = post(&app, ITEMS, more).await;
    assert_eq!(
        (&changed["input"], &changed["expectedOutput"]),
        (&json!({ "q": 1 }), &json!("Paris"))
    );
    assert_eq!(changed["createdAt"], made["createdAt"]);
    let fresh = post(&app, ITEMS, json!({ "datasetName": "d", "id": null })).await;
    assert_eq!((fresh["id"].as_str().map(str::len), &fresh["input"]), (Some(36), &Value::Null));
    assert_eq!(ids(&get(&app, &format!("{ITEMS}?sourceTraceId=t")).await), "one");
    post(&app, DATASETS, json!({ "name": "e" })).await;
    let (status, _) =
        send(&app.client, Method::POST, ITEMS, json!({ "datasetName": "e", "id": "one" })).await;
    assert_eq!(status, 409, "the id belongs to another dataset");
    let other = app.other_project().await.unwrap();
    assert_eq!(other.get(&format!("{ITEMS}/one")).await.unwrap().status, 404);
    for (body, field, expected) in [
        (json!({ "datasetName": "none" }), "dataset", 404),
        (json!({ "id": "x" }), "datasetName", 400),
        (json!({ "datasetName": "d", "id": "x".repeat(256) }), "id", 400),
        (json!({ "datasetName": "d", "id": "a\u{0}" }), "id", 400),
        (json!({ "datasetName": "d", "status": "GONE" }), "status", 400),
        (json!({ "datasetName": "d", "sourceTraceId": "" }), "sourceTraceId", 400),
    ] {
        let (status, answer) = send(&app.client, Method::POST, ITEMS, body.clone()).await;
        assert_eq!(status, expected, "{body}");
        assert!(answer.to_string().contains(field), "{answer}");
    }
}

#[tokio::test]
async fn a_dataset_reads_as_it_was_with_the_schema_of_then() {
    let app = TestApp::new().await.unwrap();
    let schema = json!({ "type": "object" });
    post(&app, DATASETS, json!({ "name": "d", "inputSchema": schema })).await;
    let one = item(&app, "d", "one", json!({ "n": 1 })).await;
    app.clock.advance(std::time::Duration::from_secs(10));
    let two = item(&app, "d", "two", json!({ "n": 2 })).await;
    app.clock.advance(std::time::Duration::from_secs(10));
    item(&app, "d", "one", json!({ "n": 10 })).await;
    post(&app, DATASETS, json!({ "name": "d", "inputSchema": { "required": ["n"] } })).await;
    let (status, _) = send(&app.client, Method::DELETE, &format!("{ITEMS}/two"), Value::Null).await;
    assert_eq!(status, 200);
    let at = |moment: &Value| format!("{ITEMS}?datasetName=d&version={}", moment.as_str().unwrap());
    assert_eq!(ids(&get(&app, &format!("{ITEMS}?datasetName=d")).await), "one");
    assert_eq!(ids(&get(&app, &at(&one["version"])).await), "one");
    assert_eq!(ids(&get(&app, &at(&two["updatedAt"])).await), "two,one", "milliseconds do as well");
    let then = get(&app, &at(&two["version"])).await;
    assert_eq!(then["data"][1]["input"], json!({ "n": 1 }));
    let path = format!("{DATASETS}/d?version={}", two["version"].as_str().unwrap());
    assert_eq!(get(&app, &path).await["inputSchema"], schema);
    assert_eq!(
        app.client.get(&format!("{DATASETS}/d?version=2001-01-01T00:00:00Z")).await.unwrap().status,
        404
    );
    assert_eq!(
        app.client.get(&format!("{ITEMS}?version=2025-01-01T00:00:00Z")).await.unwrap().status,
        400
    );
    assert_eq!(app.client.get(&format!("{ITEMS}/two")).await.unwrap().status, 404);
    let history = get(&app, "/api/v1/dataset-items/two/versions").await;
    assert_eq!((count(&history), &history["data"][0]["isDeleted"]), (2, &json!(true)));
    assert_eq!(count(&get(&app, "/api/v1/datasets/d/versions").await), 2);
}

#[tokio::test]
async fn items_and_existing_items_are_held_against_the_schemas() {
    let app = TestApp::new().await.unwrap();
    post(&app, DATASETS, json!({ "name": "d" })).await;
    for n in 0..3 {
        item(&app, "d", &format!("i{n}"), json!({ "q": n, "deep": [{ "x": n }] })).await;
    }
    let strict = json!({
        "properties": { "q": { "maximum": 1 }, "deep": { "items": { "properties": { "x": { "maximum": 1 } } } } },
    });
    let set = json!({ "name": "d", "inputSchema": strict });
    let (status, refused) = send(&app.client, Method::POST, DATASETS, set.clone()).await;
    assert_eq!(status, 400);
    let violations = refused["details"]["violations"].as_array().unwrap();
    let pointers: Vec<_> = violations.iter().map(|v| v["pointer"].as_str().unwrap()).collect();
    assert_eq!(
        (violations[0]["itemId"].as_str(), &refused["details"]["itemsAtFault"]),
        (Some("i2"), &json!(1))
    );
    assert!(pointers.contains(&"/q") && pointers.contains(&"/deep/0/x"), "{pointers:?}");
    assert_eq!(get(&app, &format!("{DATASETS}/d")).await["inputSchema"], Value::Null);
    send(&app.client, Method::DELETE, &format!("{ITEMS}/i2"), Value::Null).await;
    post(&app, DATASETS, set).await;
    let bad = json!({ "datasetName": "d", "id": "i1", "input": { "q": 5 } });
    let (status, refused) = send(&app.client, Method::POST, ITEMS, bad).await;
    assert_eq!((status, &refused["details"]["violations"][0]["pointer"]), (400, &json!("/q")));
}

#[tokio::test]
async fn invalid_schemas_are_refused_and_large_ones_are_accepted() {
    let app = TestApp::new().await.unwrap();
    for (schema, part) in [
        (json!({ "type": "nonsense" }), "not a JSON Schema"),
        (json!(7), "not a JSON Schema"),
        (json!({ "$ref": "http://127.0.0.1:1/s.json" }), "not a JSON Schema"),
        (json!({ "title": "x".repeat(1 << 20) }), "at most"),
    ] {
        let body = json!({ "name": "e", "expectedOutputSchema": schema });
        let (status, refused) = send(&app.client, Method::POST, DATASETS, body).await;
        let message = refused["message"].as_str().unwrap();
        assert_eq!(status, 400, "{message}");
        assert!(message.contains("expectedOutputSchema"), "{part}: {message}");
    }
    let large: serde_json::Map<String, Value> = (0..12_000)
        .map(|n| {
            (format!("property number {n}"), json!({ "type": "integer", "description": "any" }))
        })
        .collect();
    post(&app, DATASETS, json!({ "name": "large", "inputSchema": { "properties": large } })).await;
    item(&app, "large", "ok", json!({ "property number 7": 7 })).await;
    let bad = json!({ "datasetName": "large", "input": { "property number 7": "7" } });
    assert_eq!(send(&app.client, Method::POST, ITEMS, bad).await.0, 400);
}

/// Two alternatives at each level, none of which accepts a value other than a string: 2^60 combinations.
fn endless() -> Value {
    let mut defs = serde_json::Map::new();
    for n in 0..60 {
        let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
        defs.insert(n.to_string(), json!({ "anyOf": [next, next] }));
    }
    defs.insert("60".to_owned(), json!({ "type": "string" }));
    json!({ "$defs": defs, "$ref": "#/$defs/0" })
}

#[tokio::test]
async fn an_unboundedly_expensive_schema_is_reported_and_affects_nothing_else() {
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    let endless = endless();
    let made = json!({ "name": "d", "expectedOutputSchema": endless });
    post(&app, DATASETS, made).await;
    let body = json!({ "datasetName": "d", "id": "i", "expectedOutput": 1 });
    let (status, refused) = send(&app.client, Method::POST, ITEMS, body).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(status, 400, "{message}");
    assert!(
        message.contains("expectedOutputSchema") && message.contains("takes more than the limit"),
        "{message}"
    );
    // Valid values are accepted at once.
    let ok = json!({ "datasetName": "d", "id": "i", "expectedOutput": "a" });
    assert_eq!(send(&app.client, Method::POST, ITEMS, ok).await.0, 200);
}

#[tokio::test]
async fn items_of_a_project_do_not_wait_for_twenty_hostile_schemas_of_another() {
    const N_HOSTILE: usize = 20;
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    let hostile = app.other_project().await.unwrap();
    let name = |n: usize| format!("hostile-{n}");
    for n in 0..N_HOSTILE {
        let mut schema = endless();
        schema["title"] = json!(n.to_string());
        let made = json!({ "name": name(n), "inputSchema": schema });
        let (status, made) = send(&hostile, Method::POST, DATASETS, made).await;
        assert_eq!(status, 200, "{made}");
    }
    let schema = json!({ "type": "object", "required": ["question"] });
    post(&app, DATASETS, json!({ "name": "d", "inputSchema": schema })).await;
    // The cost of the first item of a server is not measured.
    item(&app, "d", "first", json!({ "question": 0 })).await;

    let requests = (0..N_HOSTILE).map(|n| {
        let body = json!({ "datasetName": name(n), "id": "i", "input": n });
        send(&hostile, Method::POST, ITEMS, body)
    });
    let mut requests: FuturesUnordered<_> = requests.collect();
    let innocent = async {
        for n in 1..=9 {
            item(&app, "d", &n.to_string(), json!({ "question": n })).await;
        }
    };
    let mut innocent = Box::pin(innocent);
    let mut n_ended = 0;
    loop {
        tokio::select! {
            () = &mut innocent => break,
            Some((status, body)) = requests.next() => {
                assert_eq!(status, 400, "{body}");
                n_ended += 1;
            }
        }
    }
    // In the order of arrival the first item would wait for all of them.
    assert!(n_ended < N_HOSTILE, "the items waited for every hostile one");
}

#[tokio::test]
async fn writers_of_one_dataset_at_the_same_time_all_get_through() {
    let app = TestApp::new().await.unwrap();
    post(&app, DATASETS, json!({ "name": "d", "inputSchema": { "type": "object" } })).await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let client = app.client.clone();
        tasks.push(tokio::spawn(async move {
            let body = json!({ "datasetName": "d", "id": format!("i{n}"), "input": { "n": n } });
            send(&client, Method::POST, ITEMS, body).await.0
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!(get(&app, &format!("{ITEMS}?datasetName=d")).await["meta"]["totalItems"], 20);
}

#[tokio::test]
async fn links_make_a_run_with_one_id_for_all_its_items() {
    let app = TestApp::new().await.unwrap();
    post(&app, DATASETS, json!({ "name": "d" })).await;
    for id in ["a", "b"] {
        item(&app, "d", id, json!(id)).await;
    }
    let link = |item: &str, trace: &str| {
        json!({ "runName": "run 1/2", "runDescription": "first", "metadata": { "m": 1 },
                "datasetItemId": item, "traceId": trace, "observationId": null })
    };
    let a = post(&app, LINKS, link("a", "trace a")).await;
    let b = post(&app, LINKS, link("b", "trace b")).await;
    assert_eq!(a["datasetRunId"], b["datasetRunId"]);
    assert_eq!(a["datasetRunId"].as_str().map(str::len), Some(16));
    assert_eq!(post(&app, LINKS, link("a", "trace a")).await["id"], a["id"], "twice is once");
    let runs = get(&app, "/api/public/datasets/d/runs").await;
    assert_eq!((count(&runs), &runs["data"][0]["metadata"]), (1, &json!({ "m": 1 })));
    let run = get(&app, "/api/public/datasets/d/runs/run%201%2F2").await;
    assert_eq!(
        (run["datasetRunItems"].as_array().map(Vec::len), &run["description"]),
        (Some(2), &json!("first"))
    );
    let dataset = run["datasetId"].as_str().unwrap();
    let list = get(&app, &format!("{LINKS}?datasetId={dataset}&runName=run%201%2F2&limit=1")).await;
    assert_eq!(list["meta"]["totalPages"], 2);
    let experiments = get(&app, &format!("/api/public/experiments?{SINCE}")).await;
    assert_eq!(
        (&experiments["data"][0]["id"], &experiments["data"][0]["itemCount"]),
        (&a["datasetRunId"], &json!(2))
    );
    let items =
        get(&app, &format!("/api/public/experiment-items?{SINCE}&fields=core,dataset,io")).await;
    assert_eq!((count(&items), &items["data"][0]["experimentName"]), (2, &json!("run 1/2")));
    let path = "/api/public/datasets/d/runs/run%201%2F2";
    assert_eq!(send(&app.client, Method::DELETE, path, Value::Null).await.0, 200);
    assert_eq!(send(&app.client, Method::DELETE, path, Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_link_without_item_or_trace_is_refused() {
    let app = TestApp::new().await.unwrap();
    post(&app, DATASETS, json!({ "name": "d" })).await;
    item(&app, "d", "a", json!("a")).await;
    for (body, expected) in [
        (json!({ "runName": "r", "datasetItemId": "a" }), 400),
        (json!({ "runName": "r", "datasetItemId": "none", "traceId": "t" }), 404),
        (json!({ "runName": "r", "datasetItemId": "a", "observationId": "none" }), 404),
        (json!({ "runName": "", "datasetItemId": "a", "traceId": "t" }), 400),
        (json!({ "runName": "r", "datasetItemId": "a", "traceId": "t", "createdAt": "x" }), 400),
    ] {
        let (status, answer) = send(&app.client, Method::POST, LINKS, body.clone()).await;
        assert_eq!(status, expected, "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_run_recorded_as_spans_and_as_links_is_one_experiment() {
    let app = TestApp::new().await.unwrap();
    let dataset = post(&app, DATASETS, json!({ "name": "d" })).await;
    let dataset_id = dataset["id"].as_str().unwrap();
    for id in ["a", "b", "c"] {
        item(&app, "d", id, json!(id)).await;
    }
    let link = |item: &str, n: u8| json!({ "runName": "run", "datasetItemId": item, "traceId": format!("{n:032x}") });
    let experiment =
        post(&app, LINKS, link("a", 1)).await["datasetRunId"].as_str().unwrap().to_owned();
    post(&app, LINKS, link("c", 9)).await;
    ingest(&app, &experiment_trace(1, &experiment, "a", Some(dataset_id))).await;
    ingest(&app, &experiment_trace(2, &experiment, "b", Some(dataset_id))).await;
    ingest(&app, &experiment_trace(3, "other", "x", None)).await;
    let found =
        get(&app, &format!("/api/public/experiments?{SINCE}&id={experiment}&fields=core,metadata"))
            .await;
    let one = &found["data"][0];
    assert_eq!((&one["itemCount"], &one["name"]), (&json!(3), &json!("run")));
    assert_eq!(
        (&one["metadata"], &one["datasetId"]),
        (&json!({ "model": "small" }), &dataset["id"])
    );
    let run = get(&app, "/api/public/datasets/d/runs/run").await;
    assert_eq!(run["datasetRunItems"].as_array().map(Vec::len), Some(3));
    let items = get(
        &app,
        &format!(
            "/api/public/experiment-items?{SINCE}&experimentId={experiment}&fields=core,io,scores"
        ),
    )
    .await;
    assert_eq!(count(&items), 3);
    let spans: Vec<&Value> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|i| i["environment"] == "sdk-experiment")
        .collect();
    assert_eq!(spans.len(), 2);
    assert_eq!(
        (&spans[0]["output"], &spans[0]["id"]),
        (&json!("Paris"), &json!(format!("{:016x}", 2)))
    );
    let deleted =
        send(&app.client, Method::DELETE, "/api/public/datasets/d/runs/run", Value::Null).await;
    assert_eq!(deleted.0, 200);
    assert_eq!(count(&get(&app, "/api/public/datasets/d/runs").await), 0);
    assert_eq!(ids(&get(&app, &format!("/api/public/experiments?{SINCE}")).await), "other");
}

#[tokio::test]
async fn lists_of_experiments_go_on_where_they_stopped() {
    let app = TestApp::new().await.unwrap();
    for n in 1..=7 {
        ingest(&app, &experiment_trace(n, &format!("e{}", n % 4), &format!("i{n}"), None)).await;
    }
    for (path, n_all) in [("/api/public/experiments", 4), ("/api/public/experiment-items", 7)] {
        let mut seen: Vec<String> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = get(&app, &format!("{path}?{SINCE}&limit=2{cursor}")).await;
            seen.extend(page["data"].as_array().unwrap().iter().map(|i| i["id"].to_string()));
            match page["meta"]["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let n_seen = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((n_seen, seen.len()), (n_all, n_all), "{path}: {seen:?}");
        let late = "fromStartTime=2030-01-01T00:00:00Z";
        assert_eq!(count(&get(&app, &format!("{path}?{late}")).await), 0);
        for query in [
            "limit=1",
            &format!("{SINCE}&limit=101"),
            &format!("{SINCE}&cursor=x"),
            &format!("{SINCE}&fields=x"),
        ] {
            let answer = app.client.get(&format!("{path}?{query}")).await.unwrap();
            assert_eq!(answer.status, 400, "{path}?{query}");
        }
    }
    let one = get(&app, &format!("/api/public/experiment-items?{SINCE}&experimentName=name%20of%20e1&fields=experimentMetadata,itemMetadata")).await;
    assert_eq!((count(&one), &one["data"][0]["experimentMetadata"]["model"]), (2, &json!("small")));
}
