//! Media over HTTP: announcement, upload to a signed URL, download, and refusals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::{Answer, Client};
use serde_json::{Value, json};

const MEDIA: &str = "/api/public/media";
/// `printf picture | openssl dgst -sha256 -binary | base64`
const HASH: &str = "LOonTQvtw57Eq2up5Z7IiePtb7VqHPCIpk2bODN43Jc=";
const BYTES: &[u8] = b"picture";

fn announcement() -> Value {
    json!({
        "contentType": "image/png", "contentLength": BYTES.len(), "sha256Hash": HASH, "field": "input",
        "traceId": "trace", "observationId": null, "datasetId": null, "datasetItemId": null,
    })
}

async fn announce(client: &Client, body: &Value) -> (u16, Value) {
    let answer = client.json(Method::POST, MEDIA, body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

/// Path and query of a signed address.
fn path(app: &TestApp, url: &Value) -> String {
    url.as_str().unwrap().strip_prefix(&app.origin).unwrap().to_owned()
}

async fn put(app: &TestApp, path: &str, bytes: &'static [u8]) -> Answer {
    let headers = [("content-type", "image/png"), ("x-ms-blob-type", "BlockBlob")];
    app.anonymous().send(Method::PUT, path, &headers, bytes).await.unwrap()
}

#[tokio::test]
async fn a_medium_goes_there_and_back_without_a_key() {
    let app = TestApp::new().await.unwrap();
    let (status, announced) = announce(&app.client, &announcement()).await;
    let id = announced["mediaId"].as_str().unwrap();
    assert_eq!((status, id), (201, HASH.replace('+', "-").replace('/', "_").get(..22).unwrap()));
    let one = format!("{MEDIA}/{id}");
    assert_eq!(app.client.get(&one).await.unwrap().status, 404, "nothing is there yet");
    let sent = put(&app, &path(&app, &announced["uploadUrl"]), BYTES).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let report = json!({ "uploadedAt": "2026-03-01T10:00:00Z", "uploadHttpStatus": 200, "uploadHttpError": null });
    assert_eq!(app.client.json(Method::PATCH, &one, &report).await.unwrap().status, 204);
    let found = app.client.get(&one).await.unwrap().json();
    assert_eq!(
        (&found["contentType"], &found["contentLength"]),
        (&json!("image/png"), &json!(BYTES.len()))
    );
    let read = app.anonymous().get(&path(&app, &found["url"])).await.unwrap();
    assert_eq!((read.status.as_u16(), read.body.as_slice()), (200, BYTES));
    assert_eq!(read.headers["content-type"], "image/png");
    assert!(read.headers["content-security-policy"].to_str().unwrap().contains("sandbox"));
    let (_, again) = announce(&app.client, &announcement()).await;
    assert_eq!((&again["mediaId"], &again["uploadUrl"]), (&announced["mediaId"], &Value::Null));
    let other = app.other_project().await.unwrap();
    assert_eq!(other.get(&one).await.unwrap().status, 404);
    assert_eq!(other.json(Method::PATCH, &one, &report).await.unwrap().status, 404);
}

#[tokio::test]
async fn only_the_announced_bytes_are_taken_and_only_at_the_signed_address() {
    let app = TestApp::new().await.unwrap();
    let (_, announced) = announce(&app.client, &announcement()).await;
    let address = path(&app, &announced["uploadUrl"]);
    assert_eq!(put(&app, &address, b"pictura").await.status, 400, "another hash");
    assert_eq!(put(&app, &address, b"pic").await.status, 400, "too short");
    assert_eq!(put(&app, &address, b"picture and more").await.status, 413, "too long");
    for (from, to) in
        [("signature=", "signature=A"), ("until=", "until=9"), ("project=", "project=x")]
    {
        let forged = address.replace(from, to);
        assert_eq!(put(&app, &forged, BYTES).await.status, 401, "{to}");
    }
    let bare = address.split('?').next().unwrap();
    assert_eq!(put(&app, bare, BYTES).await.status, 401);
    let read = app.anonymous().get(&address).await.unwrap();
    assert_eq!(read.status, 401, "an address to write is none to read");
    app.clock.advance(Duration::from_secs(3_601));
    assert_eq!(put(&app, &address, BYTES).await.status, 401, "its time is over");
}

#[tokio::test]
async fn invalid_media_are_refused_with_the_field() {
    let app = TestApp::new().await.unwrap();
    for (field, value) in [
        ("contentType", json!("image/none")),
        ("contentLength", json!(0)),
        ("contentLength", json!(1_u64 << 40)),
        ("sha256Hash", json!("abc")),
        ("field", json!("other")),
        ("traceId", Value::Null),
        ("traceId", json!("")),
        ("datasetId", json!("d")),
    ] {
        let mut body = announcement();
        body[field] = value;
        let (status, refused) = announce(&app.client, &body).await;
        assert_eq!(status, 400, "{field}");
        let named = if field == "datasetId" { "traceId" } else { field };
        assert!(refused.to_string().contains(named), "{field}: {refused}");
    }
    let mut body = announcement();
    body["traceId"] = Value::Null;
    body["datasetId"] = json!("none");
    body["datasetItemId"] = json!("i");
    assert_eq!(announce(&app.client, &body).await.0, 404);
}

#[tokio::test]
async fn an_item_shows_the_media_it_refers_to() {
    let app = TestApp::new().await.unwrap();
    let post = async |path: &str, body: Value| {
        let answer = app.client.json(Method::POST, path, &body).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let dataset = post("/api/public/v2/datasets", json!({ "name": "d" })).await;
    let mut body = announcement();
    body["traceId"] = Value::Null;
    body["datasetId"] = dataset["id"].clone();
    body["datasetItemId"] = json!("i");
    let (_, announced) = announce(&app.client, &body).await;
    let id = announced["mediaId"].as_str().unwrap();
    let reference = format!("@@@langfuseMedia:type=image/png|id={id}|source=bytes@@@");
    let item = json!({ "datasetName": "d", "id": "i", "input": { "doc": [reference] }, "metadata": "@@@langfuseMedia:id=none@@@" });
    assert_eq!(post("/api/public/dataset-items", item.clone()).await["mediaReferences"], json!([]));
    put(&app, &path(&app, &announced["uploadUrl"]), BYTES).await;
    let list = app.client.get("/api/public/dataset-items?datasetName=d").await.unwrap().json();
    let shown = &list["data"][0]["mediaReferences"];
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(
        (&shown[0]["field"], &shown[0]["jsonPath"]),
        (&json!("input"), &json!("$['doc'][0]"))
    );
    let read = app.anonymous().get(&path(&app, &shown[0]["media"]["url"])).await.unwrap();
    assert_eq!(read.body, BYTES);
}

#[tokio::test]
async fn stalled_uploads_do_not_block_readers() {
    use std::io::Write as _;

    let app = TestApp::new().await.unwrap();
    let (_, announced) = announce(&app.client, &announcement()).await;
    let sent = put(&app, &path(&app, &announced["uploadUrl"]), BYTES).await;
    assert_eq!(sent.status, 200, "{}", sent.text());
    let one = format!("{MEDIA}/{}", announced["mediaId"].as_str().unwrap());
    let mut stalled = Vec::new();
    for n in 0..6 {
        let mut body = announcement();
        body["contentLength"] = json!(100 << 20);
        let distinct = ["A", "B", "C", "D", "E", "F"][n];
        body["sha256Hash"] = HASH.replacen('L', distinct, 1).into();
        let (status, announced) = announce(&app.client, &body).await;
        assert_eq!(status, 201, "{announced}");
        let path = path(&app, &announced["uploadUrl"]);
        let authority = app.origin.strip_prefix("http://").unwrap();
        let mut upload = std::net::TcpStream::connect(authority).unwrap();
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: {}\r\n\r\nx",
            100 << 20
        );
        upload.write_all(head.as_bytes()).unwrap();
        stalled.push(upload);
    }
    // Less than a stalled upload is waited for: that is 17 minutes.
    let limit = perpend_it::PATIENCE;
    for _ in 0..20 {
        let found = app.client.get(&one).await.unwrap().json();
        let address = path(&app, &found["url"]);
        let anonymous = app.anonymous();
        let read = tokio::time::timeout(limit, anonymous.get(&address)).await;
        let read = read.unwrap().unwrap();
        assert_eq!((read.status.as_u16(), read.body.as_slice()), (200, BYTES));
    }
}

#[tokio::test]
async fn an_id_that_cannot_be_is_refused_under_its_own_name() {
    let app = TestApp::new().await.unwrap();
    for field in ["traceId", "observationId", "datasetId", "datasetItemId"] {
        let mut body = announcement();
        body[field] = "x".repeat(801).into();
        let (status, refused) = announce(&app.client, &body).await;
        assert_eq!(status, 400, "{refused}");
        let text = refused.to_string();
        assert!(text.contains(&format!("{field}: ")), "{text}");
    }
}
