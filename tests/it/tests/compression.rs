//! Compression of responses for clients that accept it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read as _;

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::Answer;
use serde_json::json;

const DOCUMENT: &str = "/api/openapi.json";
const PROMPTS: &str = "/api/public/v2/prompts";
const BROWSER: &str = "gzip, deflate, br, zstd";

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name)?.to_str().ok()
}

fn varies(answer: &Answer) -> bool {
    let mut values = answer.headers.get_all("vary").iter();
    values.any(|value| value.to_str().unwrap_or_default().contains("accept-encoding"))
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let body: &[u8] = &answer.body;
    let mut decoder: Box<dyn std::io::Read> = match header(answer, "content-encoding") {
        Some("gzip") => Box::new(flate2::read::GzDecoder::new(body)),
        Some("br") => Box::new(brotli::Decompressor::new(body, 4_096)),
        Some("zstd") => Box::new(zstd::stream::read::Decoder::new(body).unwrap()),
        other => {
            assert_eq!(other, None);
            Box::new(body)
        }
    };
    let mut plain = Vec::new();
    decoder.read_to_end(&mut plain).unwrap();
    plain
}

#[tokio::test]
async fn an_answer_is_compressed_as_its_reader_prefers_and_is_the_same_answer() -> anyhow::Result<()>
{
    let app = TestApp::new().await?;
    let plain = app.client.get(DOCUMENT).await?;
    assert_eq!(header(&plain, "content-encoding"), None);
    assert!(varies(&plain), "a cache has to know");
    for (accepted, coding) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        (BROWSER, Some("zstd")),
        ("gzip, deflate", Some("gzip")),
        ("br;q=0.2, gzip;q=0.9, zstd;q=0.5", Some("gzip")),
        ("GZIP;Q=1.0", Some("gzip")),
        ("*", Some("zstd")),
        ("*, zstd;q=0", Some("br")),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=0", None),
        ("deflate, compress", None),
        ("", None),
        ("gzip;q=much", None),
        // Nothing is acceptable: then the plain answer is the least surprise.
        ("identity;q=0", None),
        ("*;q=0", None),
    ] {
        let headers = [("accept-encoding", accepted)];
        let answer = app.client.send(Method::GET, DOCUMENT, &headers, "").await?;
        assert_eq!(answer.status, 200, "{accepted}");
        assert_eq!(header(&answer, "content-encoding"), coding, "{accepted}");
        assert!(varies(&answer), "{accepted}");
        assert!(decoded(&answer) == plain.body, "{accepted}");
        if coding.is_some() {
            assert!(answer.body.len() * 5 < plain.body.len(), "{accepted}");
        }
        let head = app.client.send(Method::HEAD, DOCUMENT, &headers, "").await?;
        assert!(head.body.is_empty());
        assert_eq!(header(&head, "content-encoding"), coding, "{accepted}");
    }
    app.stop().await
}

#[tokio::test]
async fn pages_and_their_files_are_compressed_and_short_answers_and_files_of_users_are_not()
-> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let ask = async |path: &str| {
        let headers = [("accept-encoding", BROWSER)];
        app.client.send(Method::GET, path, &headers, "").await
    };
    let page = ask("/api/reference").await?;
    assert_eq!(header(&page, "content-encoding"), Some("zstd"));
    let page = String::from_utf8(decoded(&page))?;
    let style = page
        .split("href=\"")
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.ends_with("-app.css"));
    let style = style.unwrap_or_default();
    assert_eq!(ask(style).await?.status, 200, "{style}");
    let projects = ask("/api/public/projects").await?;
    assert_eq!(projects.status, 200);
    assert_eq!(header(&projects, "content-encoding"), None, "too short");
    let plugins = ask("/api/v1/plugins").await?;
    let plugins: serde_json::Value = serde_json::from_slice(&decoded(&plugins))?;
    let digest = plugins["data"][0]["digest"].as_str().unwrap_or_default();
    let component = ask(&format!("/api/v1/plugins/{digest}/component")).await?;
    assert_eq!(component.status, 200, "{digest}");
    assert!(component.body.len() > 10_000);
    assert_eq!(header(&component, "content-encoding"), None);
    assert!(component.body.starts_with(b"\0asm"));
    app.stop().await
}

#[tokio::test]
async fn embedded_files_are_stored_compressed_smaller_than_an_answer_is_on_its_way()
-> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let page = app.client.get("/api/reference").await?.text();
    let files = page.split('"').filter(|part| part.starts_with("/assets/"));
    let files: std::collections::BTreeSet<&str> = files.collect();
    assert!(files.len() > 1, "{page}");
    for file in files {
        let ask = async |method: Method, accepted: &str| {
            let headers = [("accept-encoding", accepted)];
            let answer = app.client.send(method, file, &headers, "").await?;
            assert_eq!(answer.status, 200, "{file}");
            assert!(varies(&answer), "{file}");
            anyhow::Ok(answer)
        };
        let plain = ask(Method::GET, "identity").await?;
        assert_eq!(header(&plain, "content-encoding"), None);
        let small = ask(Method::GET, BROWSER).await?;
        assert_eq!(header(&small, "content-encoding"), Some("br"), "{file}");
        assert!(decoded(&small) == plain.body, "{file}");
        let gzip = ask(Method::GET, "gzip").await?;
        let n_bytes = small.body.len();
        // Short responses are not compressed, except for the stored form.
        assert!(n_bytes < gzip.body.len(), "{file}: {n_bytes}");
        let again = ask(Method::GET, "br").await?;
        let head = ask(Method::HEAD, "br").await?;
        assert!(again.body == small.body && head.body.is_empty(), "{file}");
        let length = n_bytes.to_string();
        for answer in [&small, &again, &head] {
            assert_eq!(header(answer, "content-encoding"), Some("br"), "{file}");
            assert_eq!(header(answer, "content-length"), Some(&*length), "{file}");
            assert_eq!(header(answer, "content-type"), header(&plain, "content-type"));
        }
    }
    app.stop().await
}

#[tokio::test]
async fn responses_with_secrets_are_neither_compressed_nor_cached() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let project = app.app.home_project.as_str().to_owned();
    let keys = format!("/api/public/projects/{project}/apiKeys");
    let headers = [("accept-encoding", BROWSER)];
    // Long enough to be compressed, were it not for the secret.
    let note = "x".repeat(500);
    let body = json!({ "name": note }).to_string();
    let json = [headers[0], ("content-type", "application/json")];
    let organizer = app.organizer();
    let made = organizer.send(Method::POST, &keys, &json, body.clone()).await?;
    assert_eq!(made.status, 200, "{}", made.text());
    assert!(made.json()["secretKey"].is_string() && made.body.len() > 1_024);
    let list = organizer.send(Method::GET, &keys, &headers, "").await?;
    let people = organizer.send(Method::GET, "/api/public/scim/Schemas", &headers, "").await?;
    let login = app.anonymous().send(Method::GET, "/login", &headers, "").await?;
    let medium = json!({
        "traceId": "t", "field": "input", "contentType": "image/png", "contentLength": 4,
        "sha256Hash": "A6xnQhbz4Vx2HuGl4lXwZ5U2I8iziLRFnhP5eNfIRvQ=",
    });
    let medium = medium.to_string();
    let announced = app.client.send(Method::POST, "/api/public/media", &json, medium).await?;
    assert_eq!(announced.status, 201, "{}", announced.text());
    for (what, answer) in [
        ("made", &made),
        ("list", &list),
        ("people", &people),
        ("login", &login),
        ("announced", &announced),
    ] {
        assert!(answer.status.is_success(), "{what}: {}", answer.text());
        assert_eq!(header(answer, "content-encoding"), None, "{what}");
        assert_eq!(header(answer, "cache-control"), Some("no-store"), "{what}");
    }
    assert!(list.body.len() > 1_024 && people.body.len() > 1_024 && login.body.len() > 1_024);
    app.stop().await
}

#[tokio::test]
async fn a_compressed_answer_has_a_weak_tag_that_works_as_the_plain_one_does() -> anyhow::Result<()>
{
    let app = TestApp::new().await?;
    let body = json!({ "name": "long", "prompt": "word ".repeat(1_000), "labels": ["production"] });
    let made = app.client.json(Method::POST, PROMPTS, &body).await?;
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("{PROMPTS}/long");
    let accept = ("accept-encoding", "gzip");
    let plain = app.client.get(&path).await?;
    let tag = header(&plain, "etag").unwrap_or_default().to_owned();
    let packed = app.client.send(Method::GET, &path, &[accept], "").await?;
    assert_eq!(header(&packed, "content-encoding"), Some("gzip"));
    let weak = header(&packed, "etag").unwrap_or_default().to_owned();
    assert_eq!(weak, format!("W/{tag}"), "other bytes, the same prompt");
    for (known, headers) in [(&weak, &[accept][..]), (&weak, &[]), (&tag, &[accept])] {
        let headers = [&[("if-none-match", known.as_str())], headers].concat();
        let again = app.client.send(Method::GET, &path, &headers, "").await?;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
        assert_eq!(header(&again, "content-encoding"), None);
        assert!(varies(&again));
    }
    let rename = json!({ "newLabels": ["checked"] }).to_string();
    let change = async |tag: &str| {
        let headers = [("if-match", tag), ("content-type", "application/json"), accept];
        let path = format!("{path}/versions/1");
        app.client.send(Method::PATCH, &path, &headers, rename.clone()).await
    };
    let refused = change("W/\"another\"").await?;
    assert_eq!(refused.status, 412, "{}", refused.text());
    let changed = change(&weak).await?;
    assert_eq!(changed.status, 200, "{}", changed.text());
    app.stop().await
}

#[tokio::test]
async fn a_write_reports_its_result_even_if_no_encoding_is_accepted() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let body = json!({ "name": "p", "prompt": "text" }).to_string();
    let headers = [("accept-encoding", "*;q=0"), ("content-type", "application/json")];
    let made = app.client.send(Method::POST, PROMPTS, &headers, body).await?;
    assert_eq!(made.status, 201, "{}", made.text());
    app.stop().await
}
