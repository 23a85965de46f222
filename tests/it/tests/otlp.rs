//! The OTLP paths by status, in both encodings (otlp.md 1).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, protobuf, trace_id};
use perpend_server::client::{Answer, Client};
use perpend_storage::testing::fill_disk;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";

async fn post(client: &Client, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    client.send(Method::POST, OTLP, headers, body.to_vec()).await.unwrap()
}

fn media_type(answer: &Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

fn good() -> Vec<u8> {
    protobuf(&[(&[7; 16], &[7; 8])])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn accepted_and_empty_requests_are_answered_in_their_own_encoding() {
    let app = TestApp::new().await.unwrap();
    let json = Trace::new(1, "root").to_json().to_string();
    for (media, body, expected) in [
        (JSON, json.as_bytes(), &b"{}"[..]),
        (JSON, b"{}", b"{}"),
        ("Application/JSON; charset=utf-8", b"{\"resourceSpans\":[]}", b"{}"),
        (PROTOBUF, &good(), b""),
        ("application/protobuf", b"", b""),
    ] {
        let answer = post(&app.client, &[("content-type", media)], body).await;
        assert_eq!(answer.status, 200, "{media}: {}", answer.text());
        assert_eq!(answer.body, expected);
        let own = media.split(';').next().unwrap().to_lowercase();
        assert_eq!(media_type(&answer), own);
    }
    let found = app.client.get(&format!("/api/public/traces/{}", trace_id(1))).await.unwrap();
    assert_eq!(found.json()["name"], "root", "a 200 can be read at once");
}

#[tokio::test]
async fn a_malformed_span_is_left_out_and_a_malformed_request_refused() {
    let app = TestApp::new().await.unwrap();
    let some = protobuf(&[(&[1; 16], &[1; 8]), (&[1; 15], &[1; 8])]);
    let answer = post(&app.client, &[("content-type", PROTOBUF)], &some).await;
    assert_eq!((answer.status.as_u16(), answer.body[0]), (200, 0x0a), "partial_success");

    let mut json = Trace::new(2, "root").generation("g", "x").to_json();
    json["resourceSpans"][0]["scopeSpans"][0]["spans"][1]["spanId"] = "".into();
    let answer = post(&app.client, &[("content-type", JSON)], json.to_string().as_bytes()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["partialSuccess"]["rejectedSpans"], "1");

    let none = protobuf(&[(b"", b"")]);
    let answer = post(&app.client, &[("content-type", PROTOBUF)], &none).await;
    assert_eq!((answer.status.as_u16(), &answer.body[..2]), (400, &[8, 3][..]), "Status, code 3");
    for (media, body) in
        [(PROTOBUF, &b"\xff\xff"[..]), (JSON, b"{\"resourceSpans\":"), (JSON, b"[]")]
    {
        let answer = post(&app.client, &[("content-type", media)], body).await;
        assert_eq!(answer.status, 400, "{media}");
        assert_eq!(media_type(&answer), media);
    }
    let version = [("content-type", JSON), ("x_langfuse_ingestion_version", "5")];
    let answer = post(&app.client, &version, b"{}").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (400, &3.into()));
}

#[tokio::test]
async fn credentials_are_needed_in_any_spelling_that_exporters_send() {
    let app = TestApp::new().await.unwrap();
    let anonymous = app.anonymous();
    for media in [JSON, PROTOBUF] {
        for wrong in ["Basic cGstdGVzdDp3cm9uZw==", "Basic !", "Bearer pk-none"] {
            let client = anonymous.clone().with_authorization(wrong);
            let answer = post(&client, &[("content-type", media)], b"").await;
            assert_eq!(answer.status, 401, "{wrong}");
            assert!(answer.headers.contains_key("www-authenticate"));
            assert_eq!(media_type(&answer), media);
        }
        let public = anonymous.clone().with_authorization("Bearer pk-test");
        assert_eq!(post(&public, &[("content-type", media)], b"").await.status, 403);
    }
    for right in ["basic cGstdGVzdDpzay10ZXN0", "Basic%20cGstdGVzdDpzay10ZXN0"] {
        let client = anonymous.clone().with_authorization(right);
        assert_eq!(
            post(&client, &[("content-type", PROTOBUF)], &good()).await.status,
            200,
            "{right}"
        );
    }
}

#[tokio::test]
async fn refusals_of_media_types_and_encodings_list_the_supported_ones() {
    let app = TestApp::new().await.unwrap();
    let grpc = post(&app.client, &[("content-type", "application/grpc")], b"").await;
    assert_eq!(grpc.status, 415);
    assert!(grpc.text().contains("http/protobuf"), "{}", grpc.text());
    for headers in [
        &[("content-type", "text/plain")][..],
        &[],
        &[("content-type", PROTOBUF), ("content-encoding", "br")],
        &[("content-type", PROTOBUF), ("content-encoding", "gzip, gzip")],
    ] {
        let answer = post(&app.client, headers, b"").await;
        assert_eq!(answer.status, 415, "{headers:?}");
        assert_eq!(media_type(&answer), JSON);
        assert!(answer.headers["accept-encoding"].to_str().unwrap().contains("zstd"));
    }
}

#[tokio::test]
async fn every_compression_is_read_and_a_broken_one_refused() {
    let app = TestApp::new().await.unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&good()).unwrap();
    for (name, body) in [
        ("gzip", gzip(&good())),
        ("X-GZIP", gzip(&good())),
        ("deflate", zlib.finish().unwrap()),
        ("zstd", zstd::encode_all(good().as_slice(), 3).unwrap()),
        ("identity", good()),
    ] {
        let headers = [("content-type", PROTOBUF), ("content-encoding", name)];
        assert_eq!(post(&app.client, &headers, &body).await.status, 200, "{name}");
    }
    let headers = [("content-type", JSON), ("content-encoding", "gzip")];
    assert_eq!(post(&app.client, &headers, b"no gzip").await.status, 400);
}

#[tokio::test]
async fn bodies_over_the_limit_and_bombs_are_refused() {
    let app = TestApp::with(&[("ingest.max_body_mib", "1")]).await.unwrap();
    let large = vec![b' '; 2 << 20];
    for media in [JSON, PROTOBUF] {
        let answer = post(&app.client, &[("content-type", media)], &large).await;
        assert_eq!((answer.status.as_u16(), media_type(&answer)), (413, media));
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 1 << 17);
        let headers = [("content-type", media), ("content-encoding", "gzip")];
        assert_eq!(post(&app.client, &headers, &bomb).await.status, 413);
    }
}

#[tokio::test]
async fn a_full_disk_delays_the_sender_and_loses_no_acknowledged_data() {
    let app = TestApp::new().await.unwrap();
    let first = Trace::new(1, "root");
    app.ingest(&first).await.unwrap();
    fill_disk(&app.app.store, true).await;

    // Writes that fit into the free pages of the file are acknowledged and kept; then the disk is full.
    let mut kept = vec![first.id.clone()];
    let refused = loop {
        assert!(kept.len() < 50, "the disk never became full");
        let number = kept.len() as u64 + 1;
        // Text that does not compress to nothing.
        let text: String = (0..20_000_u64).map(|n| (n * n + number).to_string()).collect();
        let trace = Trace::new(number, "root").generation("answer", &text);
        let body = trace.to_json().to_string();
        let answer = post(&app.client, &[("content-type", JSON)], body.as_bytes()).await;
        if answer.status != 200 {
            assert_eq!(media_type(&answer), JSON);
            assert_eq!(answer.json()["code"], 14, "{}", answer.text());
            break (trace, answer);
        }
        kept.push(trace.id);
    };
    let (refused, answer) = refused;
    assert_eq!(answer.status, 503);
    assert!(answer.headers.contains_key("retry-after"));
    let many: Vec<[u8; 8]> = (1..20_000_u64).map(u64::to_be_bytes).collect();
    let many: Vec<(&[u8], &[u8])> = many.iter().map(|id| (&[9; 16][..], &id[..])).collect();
    let binary = protobuf(&many);
    let answer = post(&app.client, &[("content-type", PROTOBUF)], &binary).await;
    assert_eq!(answer.status, 503);
    assert_eq!(media_type(&answer), PROTOBUF);
    assert_eq!(answer.body[..2], [8, 14], "Status, code 14");
    let path = |id: &str| format!("/api/public/traces/{id}");
    let found = app.client.get(&path(&refused.id)).await.unwrap();
    assert_eq!(found.status, 404, "nothing of a refused batch is kept");

    fill_disk(&app.app.store, false).await;
    app.ingest(&refused).await.unwrap();
    kept.push(refused.id);
    for id in kept {
        let found = app.client.get(&path(&id)).await.unwrap();
        assert_eq!(found.status, 200, "{id}: {}", found.text());
    }
    let answer = post(&app.client, &[("content-type", PROTOBUF)], &binary).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_connection_that_does_not_send_the_head_of_a_request_is_closed() {
    let app = TestApp::with(&[("ingest.read_timeout_seconds", "1")]).await.unwrap();
    let address = app.origin.strip_prefix("http://").unwrap();
    for head in ["", "PRI * HT", "POST /v1/traces HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(perpend_it::PATIENCE, slow.read_to_end(&mut answer));
        assert!(closed.await.is_ok(), "the server waits for ever");
        let answer = String::from_utf8_lossy(&answer);
        let is_refusal = answer.is_empty() || answer.starts_with("HTTP/1.1 408");
        assert!(is_refusal, "{answer}");
    }
    let answer = post(&app.client, &[("content-type", PROTOBUF)], &good()).await;
    assert_eq!(answer.status, 200, "others are served");
}

#[tokio::test]
async fn logs_metrics_aliases_and_other_methods_answer_as_specified() {
    let app = TestApp::new().await.unwrap();
    for path in [
        "/api/public/otel",
        "/api/public/otel/",
        "/api/public/otel/v1/traces/",
        "/api/public/otel/v1/logs",
        "/api/public/otel/v1/metrics",
        "/v1/traces",
        "/v1/logs",
        "/v1/metrics",
    ] {
        let headers = [("content-type", JSON)];
        let answer = app.client.send(Method::POST, path, &headers, "{}").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "{}"), "{path}");
        let answer = app.client.get(path).await.unwrap();
        assert_eq!(answer.status, 405, "{path}");
        assert_eq!(answer.headers["allow"], "POST, OPTIONS");
        let preflight =
            [("origin", "http://x"), ("access-control-request-headers", "authorization")];
        let answer = app.anonymous().send(Method::OPTIONS, path, &preflight, "").await.unwrap();
        assert_eq!(answer.status, 204);
        assert_eq!(answer.headers["access-control-allow-headers"], "authorization");
    }
}
