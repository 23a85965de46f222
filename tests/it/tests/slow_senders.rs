//! Slow and large bodies: a slow sender does not delay others.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_it::raw::{ORGANIZATION_PAIR, OTHER_PAIR, PAIR, RawRequest};
use perpend_it::{OTLP, PATIENCE, TestApp, Trace};
use perpend_server::client::{Answer, Client};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;
const PROTOBUF: &str = "application/x-protobuf";
/// Memory for 64 MiB: 32 for each key, of which 28 for its large requests; 56 for all large requests.
const ROOM: [(&str, &str); 2] = [("ingest.max_in_flight_mib", "64"), ("ingest.max_body_mib", "30")];
/// The size of a large body of the tests.
const HELD: usize = 27 * MIB;

/// Waits until the bodies under way hold so many bytes.
async fn hold(app: &TestApp, is_enough: impl Fn(usize) -> bool) {
    let waited = async {
        while !is_enough(app.app.web.in_flight_bytes()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waited).await.unwrap();
}

/// A sender that announces a large body, sends most of it, and then nothing.
async fn stuck(app: &TestApp, pair: &str) -> RawRequest {
    let length = (30 * MIB).to_string();
    let headers =
        [("authorization", pair), ("content-type", PROTOBUF), ("content-length", length.as_str())];
    let line = format!("POST {OTLP}");
    let mut request = RawRequest::open(&app.origin, &line, &headers).await.unwrap();
    let before = app.app.web.in_flight_bytes();
    request.send(&vec![b' '; HELD]).await.unwrap();
    hold(app, |held| before + HELD <= held).await;
    request
}

/// Sends a body that would be refused as no protobuf if it were read.
async fn large(client: &Client) -> Answer {
    let headers = [("content-type", PROTOBUF)];
    let body = vec![0xff; 6 * MIB];
    let sent = client.send(Method::POST, OTLP, &headers, body).await;
    sent.unwrap()
}

#[tokio::test]
async fn four_senders_that_trickle_large_bodies_do_not_stop_ingestion() {
    let app = TestApp::new().await.unwrap();
    let length = (64 * MIB).to_string();
    let headers =
        [("authorization", PAIR), ("content-type", PROTOBUF), ("content-length", length.as_str())];
    let line = format!("POST {OTLP}");
    let mut senders = Vec::new();
    for _ in 0..4 {
        let mut sender = RawRequest::open(&app.origin, &line, &headers).await.unwrap();
        sender.send(b"\n").await.unwrap();
        senders.push(sender);
    }
    hold(&app, |held| held == 4).await;
    for n in 1..=20 {
        app.ingest(&Trace::new(n, "root")).await.unwrap();
        for sender in &mut senders {
            sender.send(b"\n").await.unwrap();
        }
    }
    assert_eq!(large(&app.client).await.status, 400, "read to its end and refused");
}

#[tokio::test]
async fn a_key_at_its_share_is_rate_limited_while_another_is_served() {
    let app = TestApp::with(&ROOM).await.unwrap();
    let other = app.other_project().await.unwrap();
    let sender = stuck(&app, PAIR).await;
    let refused = large(&app.client).await;
    assert_eq!(refused.status, 503);
    assert!(refused.headers.contains_key("retry-after"));
    assert!(refused.text().contains("of this key"), "{}", refused.text());
    assert_eq!(large(&other).await.status, 400, "read to its end");
    drop(sender);
    hold(&app, |held| held == 0).await;
    assert_eq!(large(&app.client).await.status, 400, "the room is back");
}

#[tokio::test]
async fn small_requests_of_every_key_are_answered_while_large_ones_fill_the_memory() {
    let app = TestApp::with(&ROOM).await.unwrap();
    let other = app.other_project().await.unwrap();
    let _senders = (stuck(&app, PAIR).await, stuck(&app, OTHER_PAIR).await);
    let public = Client::new(&app.origin).with_authorization("Bearer pk-test");
    let name = "x".repeat(3 * MIB);
    let body = json!({ "batch": [], "metadata": name });
    let large = public.json(Method::POST, "/api/public/ingestion", &body).await;
    let large = large.unwrap();
    assert_eq!(large.status, 503, "{}", large.text());
    assert!(large.headers.contains_key("retry-after"));
    let score = json!({ "name": "n", "value": 1, "traceId": "t" });
    for client in [&app.client, &other, &public] {
        let answer = client.json(Method::POST, "/api/public/scores", &score).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    app.ingest(&Trace::new(1, "root")).await.unwrap();
}

#[tokio::test]
async fn a_body_below_the_minimum_rate_ends_with_an_answer_that_names_it() {
    let settings =
        [("ingest.read_timeout_seconds", "1"), ("ingest.min_body_kib_per_second", "1024")];
    let app = TestApp::with(&settings).await.unwrap();
    for (line, pair, media_type, status, parts) in [
        // OTLP clients would drop a batch that is answered with 408.
        ("POST /v1/traces", PAIR, PROTOBUF, "503", ["retry-after", ""]),
        (
            "POST /api/public/scores",
            PAIR,
            "application/json",
            "408",
            ["body_too_slow", "ingest.min_body_kib_per_second"],
        ),
        (
            "POST /api/public/ingestion",
            "Bearer pk-test",
            "application/json",
            "408",
            ["body_too_slow", "retry-after"],
        ),
        (
            "POST /api/v1/plugins",
            PAIR,
            "application/wasm",
            "408",
            ["body_too_slow", "problem+json"],
        ),
        ("POST /login", "none", "application/x-www-form-urlencoded", "408", ["", ""]),
    ] {
        let headers = [
            ("authorization", pair),
            ("content-type", media_type),
            ("content-length", "16000"),
            ("sec-fetch-site", "same-origin"),
        ];
        let request = RawRequest::open(&app.origin, line, &headers).await.unwrap();
        let answer = request.trickle(b" ", Duration::from_millis(5)).await;
        let answer = answer.unwrap();
        let start = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&start), "{line}: {answer}");
        for part in parts.into_iter().chain(["1024 KiB per second"]) {
            assert!(answer.contains(part), "{line}: {part}: {answer}");
        }
    }
    hold(&app, |held| held == 0).await;
}

#[tokio::test]
async fn a_body_that_keeps_the_rate_and_misses_the_deadline_ends_with_an_answer_that_names_it() {
    let settings = [("ingest.body_deadline_seconds", "1"), ("ingest.min_body_kib_per_second", "1")];
    let app = TestApp::with(&settings).await.unwrap();
    let headers = [("authorization", PAIR), ("transfer-encoding", "chunked")];
    let request = RawRequest::open(&app.origin, "POST /api/public/scores", &headers).await.unwrap();
    let piece = format!("400\r\n{}\r\n", " ".repeat(0x400));
    let answer = request.trickle(piece.as_bytes(), Duration::from_millis(10)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("longer than 1 s"), "{answer}");
}

#[tokio::test]
async fn a_request_that_could_never_be_held_is_too_large() {
    let settings = [("ingest.max_body_mib", "8"), ("ingest.max_in_flight_mib", "1")];
    let app = TestApp::with(&settings).await.unwrap();
    let refused = large(&app.client).await;
    assert_eq!(refused.status, 413);
    assert!(refused.text().contains("ingest.max_in_flight_mib"), "{}", refused.text());
    app.ingest(&Trace::new(1, "root")).await.unwrap();
}

#[tokio::test]
async fn a_length_that_is_too_large_is_refused_at_once_by_every_operation_with_a_body() {
    let app = TestApp::new().await.unwrap();
    let document = app.client.get("/api/openapi.json").await.unwrap().json();
    let mut n_operations = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_upload = path.ends_with("/plugins") && method == "post";
            if operation["requestBody"].is_null() && !is_upload {
                continue;
            }
            n_operations += 1;
            let schemes = operation["security"].as_array();
            let takes = |scheme: &str| {
                let mut all = schemes.into_iter().flatten();
                all.any(|each: &Value| each.get(scheme).is_some())
            };
            let pair = match takes("organization") && !takes("basic") {
                true => ORGANIZATION_PAIR,
                false => PAIR,
            };
            let media_type = match is_upload {
                true => "application/wasm",
                false => "application/json",
            };
            let line = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            let headers = [
                ("authorization", pair),
                ("content-type", media_type),
                ("content-length", "99999999999"),
            ];
            // The body never arrives: a server that reads it before it responds waits for ever.
            let request = RawRequest::open(&app.origin, &line, &headers).await;
            let answer = request.unwrap().answer().await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 413"), "{line}: {answer}");
        }
    }
    assert!(50 < n_operations, "{n_operations}");
    let headers = [("content-length", "99999999999"), ("sec-fetch-site", "same-origin")];
    let form = RawRequest::open(&app.origin, "POST /login", &headers).await;
    let answer = form.unwrap().answer().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn the_refusal_of_a_body_reaches_a_sender_that_is_still_sending() {
    const N_PIECES: usize = 32;
    let app = TestApp::new().await.unwrap();
    let length = (1024 * MIB).to_string();
    let headers =
        [("authorization", PAIR), ("content-type", PROTOBUF), ("content-length", length.as_str())];
    let line = format!("POST {OTLP}");
    let mut sender = RawRequest::open(&app.origin, &line, &headers).await.unwrap();
    sender.begins().await.unwrap();
    // More than the systems of both sides keep on the way.
    let piece = vec![b' '; MIB];
    for _ in 0..N_PIECES {
        sender.send(&piece).await.unwrap();
    }
    let answer = sender.answer().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}
