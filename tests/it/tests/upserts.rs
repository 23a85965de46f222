//! Writers of one thing at the same time: each is answered, none is turned away.

use axum::http::Method;
use futures_util::future::join_all;
use perpend_db::DatabaseUrl;
use perpend_it::TestApp;
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

/// Writers of each thing.
const N_WRITERS: usize = 24;

/// A write of the same resource by each writer, with different values.
fn writes(n: usize) -> Vec<(Method, &'static str, Value)> {
    let event = |kind: &str, body: Value| json!({ "batch": [{ "id": format!("{kind}-{n}"), "type": kind, "timestamp": "2026-03-01T10:00:00Z", "body": body }] });
    let span = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060708", "name": format!("step {n}"),
        "startTimeUnixNano": "1800000000000000000", "endTimeUnixNano": (1_800_000_000_000_000_000_u64 + n as u64).to_string(),
        "attributes": [{ "key": "session.id", "value": { "stringValue": "shared" } }],
    }] }] }] });
    vec![
        (
            Method::POST,
            "/api/public/v2/datasets",
            json!({ "name": "set", "description": n.to_string() }),
        ),
        (
            Method::POST,
            "/api/public/dataset-items",
            json!({ "datasetName": "set", "id": "item", "input": n }),
        ),
        (
            Method::POST,
            "/api/public/dataset-run-items",
            json!({ "runName": "run", "datasetItemId": "item", "traceId": format!("{n:032x}"), "metadata": { "n": n } }),
        ),
        (
            Method::POST,
            "/api/public/v2/prompts",
            json!({ "name": "prompt", "prompt": n.to_string(), "labels": ["production"], "tags": ["a", "b"] }),
        ),
        (
            Method::PATCH,
            "/api/public/v2/prompts/prompt/versions/1",
            json!({ "newLabels": [format!("l{}", n % 3), "shared"] }),
        ),
        (
            Method::POST,
            "/api/public/scores",
            json!({ "id": "score", "traceId": "t", "name": "quality", "value": n }),
        ),
        (
            Method::POST,
            "/api/public/ingestion",
            event(
                "score-create",
                json!({ "id": "score", "traceId": "t", "name": "quality", "value": n }),
            ),
        ),
        (
            Method::POST,
            "/api/public/ingestion",
            event(
                "trace-create",
                json!({ "id": "t", "sessionId": "shared", "userId": "u", "tags": [n.to_string()] }),
            ),
        ),
        (
            Method::POST,
            "/api/public/ingestion",
            event("generation-create", json!({ "id": "o", "traceId": "t", "name": n.to_string() })),
        ),
        (Method::POST, "/api/public/otel/v1/traces", span),
        (
            Method::POST,
            "/api/public/models",
            json!({ "modelName": "m", "matchPattern": "^m$", "unit": "TOKENS", "inputPrice": 1, "startDate": format!("20{:02}-01-01T00:00:00Z", n + 10) }),
        ),
        (
            Method::POST,
            "/api/public/score-configs",
            json!({ "name": "quality", "dataType": "NUMERIC" }),
        ),
    ]
}

#[tokio::test]
async fn writers_of_the_same_thing_are_never_turned_away() -> anyhow::Result<()> {
    for database in TempDatabase::each().await {
        let settings = match database.url() {
            DatabaseUrl::Postgres(url) => vec![("database.url", url.as_str())],
            DatabaseUrl::Sqlite(_) => Vec::new(),
        };
        let app = TestApp::with(&settings).await?;
        let n_things = writes(0).len();
        for thing in 0..n_things {
            // The first one creates the resource that the others change.
            let requests = (0..N_WRITERS).map(|n| {
                let (method, path, body) = writes(n).swap_remove(thing);
                let client = app.client.clone();
                async move {
                    let answer = client.json(method, path, &body).await.unwrap();
                    (path, answer.status.as_u16(), answer.text())
                }
            });
            for (path, status, text) in join_all(requests).await {
                assert!(matches!(status, 200 | 201 | 207), "{path}: {status} {text}");
            }
        }
        app.stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_label_is_taken_from_a_version_and_an_empty_change_is_refused() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let prompts = "/api/public/v2/prompts";
    for labels in [json!(["production"]), json!(["candidate"])] {
        let body = json!({ "name": "p", "prompt": "text", "labels": labels });
        let made = app.client.json(Method::POST, prompts, &body).await?;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let path = format!("{prompts}/p/versions/2");
    let change = |body: Value| {
        let (client, path) = (app.client.clone(), path.clone());
        async move { client.json(Method::PATCH, &path, &body).await.unwrap() }
    };
    assert_eq!(change(json!({ "newLabels": [] })).await.status, 400);
    let latest = json!({ "newLabels": [], "removeLabels": ["latest"] });
    assert_eq!(change(latest).await.status, 400);
    let listed = app.client.get(&format!("{prompts}?label=candidate")).await?.json();
    assert_eq!(listed["data"][0]["versions"], json!([2]));
    let removed = change(json!({ "newLabels": [], "removeLabels": ["candidate"] })).await;
    assert_eq!(
        (removed.status.as_u16(), removed.json()["labels"].clone()),
        (200, json!(["latest"]))
    );
    let gone = app.client.get(&format!("{prompts}/p?label=candidate")).await?;
    assert_eq!(gone.status, 404);
    app.stop().await
}
