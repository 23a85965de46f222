//! HTTP behaviour of the whole API: other origins, conditional requests, the reference.

use std::collections::BTreeMap;

use axum::http::Method;
use perpend_it::{KEYS, TestApp};
use perpend_server::client::{Answer, Client};
use serde_json::{Value, json};

const PROMPTS: &str = "/api/public/v2/prompts";

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let value = answer.headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

#[tokio::test]
async fn preflight_requests_of_any_origin_and_path_need_no_key() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let headers = [
        ("origin", "https://page.example"),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "content-type, x-amz-checksum-sha256, x-ms-blob-type"),
    ];
    for path in [
        "/api/public/scores",
        "/api/public/media/abc/content?expires=1",
        "/api/public/v2/prompts/a%2Fb",
        "/api/public/nothing",
        "/api/v1/plugins",
    ] {
        let answer = app.anonymous().send(Method::OPTIONS, path, &headers, "").await?;
        assert_eq!(answer.status, 204, "{path}");
        assert!(answer.body.is_empty(), "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), headers[0].1);
        assert_eq!(header(&answer, "access-control-allow-headers"), headers[2].1);
        let methods = header(&answer, "access-control-allow-methods");
        for method in ["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE"] {
            assert!(methods.contains(method), "{path}: {methods}");
        }
        // A response to one origin must not be cached for another one.
        assert!(header(&answer, "vary").contains("origin"), "{path}");
        // There is no credentials mode: cookies of this server open nothing to others.
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
    }
    app.stop().await
}

#[tokio::test]
async fn responses_are_readable_for_other_origins_whatever_their_status() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let browser = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let origin = [("origin", "https://page.example")];
    for (path, status) in [
        ("/api/public/health", 200),
        ("/api/public/traces", 403),
        ("/api/public/nothing", 404),
        ("/api/openapi.json", 200),
    ] {
        let answer = browser.send(Method::GET, path, &origin, "").await?;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(header(&answer, "access-control-allow-origin"), origin[0].1);
        assert!(header(&answer, "access-control-expose-headers").contains("x-request-id"));
    }
    let page = browser.send(Method::GET, "/login", &origin, "").await?;
    assert!(!page.headers.contains_key("access-control-allow-origin"), "pages are for people");
    app.stop().await
}

#[tokio::test]
async fn a_prompt_is_sent_again_only_when_it_is_another_one() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let make = async |text: &str| -> anyhow::Result<()> {
        let body = json!({ "name": "greet/all", "prompt": text, "labels": ["production"] });
        let made = app.client.json(Method::POST, PROMPTS, &body).await?;
        anyhow::ensure!(made.status == 201, "{}", made.text());
        Ok(())
    };
    let get = async |tags: &[&str]| {
        let headers: Vec<_> = tags.iter().map(|tag| ("if-none-match", *tag)).collect();
        let path = format!("{PROMPTS}/greet%2Fall");
        app.client.send(Method::GET, &path, &headers, "").await
    };
    make("hello").await?;
    let first = get(&[]).await?;
    let tag = header(&first, "etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() > 20, "{tag}");
    // Cached by the client only, and revalidated each time.
    assert_eq!(header(&first, "cache-control"), "private, no-cache");
    let weak = format!("W/{tag}");
    for tags in [&[tag.as_str()][..], &[weak.as_str()], &["*"], &["\"other\"", tag.as_str()]] {
        let again = get(tags).await?;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0), "{tags:?}");
        assert_eq!(header(&again, "etag"), tag);
    }
    assert_eq!(get(&["\"other\""]).await?.status, 200);
    let path = format!("{PROMPTS}/greet%2Fall");
    let head = app.client.send(Method::HEAD, &path, &[], "");
    let head = head.await?;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(header(&head, "etag"), tag);
    make("good evening").await?;
    let changed = get(&[&tag]).await?;
    assert_eq!((changed.status.as_u16(), &changed.json()["prompt"]), (200, &json!("good evening")));
    assert_ne!(header(&changed, "etag"), tag);
    app.stop().await
}

#[tokio::test]
async fn the_reference_shows_every_operation_of_the_document_and_loads_nothing_from_elsewhere()
-> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let page = app.anonymous().get("/api/reference").await?;
    assert_eq!(page.status, 200);
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
    let policy = header(&page, "content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let html = page.text();
    assert!(!html.contains("http://") && !html.contains("https://"), "all of it is ours");
    let document = app.anonymous().get("/api/openapi.json").await?.json();
    let mut groups = BTreeMap::new();
    let mut n_operations = 0;
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let shown = format!("<b>{}</b> {path}</code>", method.to_uppercase());
            assert!(html.contains(&shown), "{shown}");
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            if !groups.contains_key(tag) {
                let address = format!("/api/reference/{tag}");
                let group = app.anonymous().get(&address).await?;
                assert_eq!(group.status, 200, "{address}");
                groups.insert(tag.to_owned(), group.text());
            }
            let html = &groups[tag];
            assert!(html.contains(&shown), "{shown}");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter_map(|one| one["name"].as_str()) {
                assert!(html.contains(&format!("<code>{parameter}</code>")), "{parameter}");
            }
            assert!(!matches!(tag, "v1" | "v2" | "v3" | "unstable"), "{path}: {tag}");
            n_operations += 1;
        }
    }
    assert!(n_operations > 100, "{n_operations}");
    let schemas = document["components"]["schemas"].as_object();
    for name in schemas.into_iter().flatten().map(|(name, _)| name) {
        let shown = format!("id=\"type-{name}\"");
        assert!(groups.values().any(|html| html.contains(&shown)), "{name}");
    }
    app.stop().await
}

#[tokio::test]
async fn invalid_feedback_is_refused_permanently_with_its_reason() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let path = "/api/public/feedback";
    let good =
        json!({ "targetType": "mcp-tool", "target": "search", "feedback": "slow", "goal": null });
    for (body, status, code) in [
        (good, 409, "conflict"),
        (json!({ "targetType": "mcp-tool", "target": "search" }), 400, "invalid_body"),
        (json!({ "targetType": "people", "target": "a", "feedback": "b" }), 400, "invalid_body"),
    ] {
        let answer = app.client.json(Method::POST, path, &body).await?;
        let found: Value = answer.json();
        assert_eq!((answer.status.as_u16(), &found["code"]), (status, &json!(code)), "{body}");
    }
    app.stop().await
}
