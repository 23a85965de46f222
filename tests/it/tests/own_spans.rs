//! Export of the spans of the server itself to a collector.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use perpend_it::{Child, KEYS, OTLP, PATIENCE, Trace, trace_id};
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Returns the URL of a collector that answers with `status`, and the requests that it receives.
async fn collector(status: StatusCode) -> (String, UnboundedReceiver<(HeaderMap, Bytes)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (sender, received) = unbounded_channel();
    let router = axum::Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
        let _ = sender.send((headers, body));
        std::future::ready(status)
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

async fn start(data: &std::path::Path, endpoint: &str) -> Child {
    let header = "authorization=Bearer%20of-the-collector";
    let settings = ["--tracing-otlp-endpoint", endpoint, "--tracing-otlp-headers", header];
    Child::with(data, &settings).await.unwrap()
}

fn spans(body: Bytes) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

fn attribute(span: &Span, key: &str) -> Option<Value> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key)?;
    attribute.value.clone()?.value
}

#[tokio::test]
async fn a_collector_receives_the_spans_of_requests_and_batches_before_the_process_ends() {
    let (url, mut received) = collector(StatusCode::OK).await;
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(&dir.path().join("data"), &url).await;
    let trace = Trace::new(1, "ticket").generation("answer", "text-of-the-reply");
    let stored = server.client.json(axum::http::Method::POST, OTLP, &trace.to_json()).await;
    assert_eq!(stored.unwrap().status, 200);
    let path = format!("/api/public/traces/{}?secret=text-of-the-query", trace_id(77));
    assert_eq!(server.client.get(&path).await.unwrap().status, 404);
    assert!(server.terminate().await.unwrap().success());

    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    while let Ok((headers, body)) = received.try_recv() {
        assert_eq!(headers["authorization"], "Bearer of-the-collector");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        bytes.extend_from_slice(&body);
        all.extend(spans(body));
    }
    let span = |name: &str| all.iter().find(|span| span.name == name).unwrap();
    let request = span("GET /api/public/traces/{traceId}");
    assert_eq!(request.kind, SpanKind::Server as i32);
    assert_eq!(attribute(request, "http.response.status_code"), Some(Value::IntValue(404)));
    let ingest = span("ingest");
    assert_eq!(attribute(ingest, "perpend.ingest.observations"), Some(Value::IntValue(2)));
    let parent = all.iter().find(|span| span.span_id == ingest.parent_span_id).unwrap();
    assert_eq!(parent.name, format!("POST {OTLP}"));
    let text = String::from_utf8_lossy(&bytes);
    let id = trace_id(77);
    for content in [id.as_str(), "text-of-the-query", "text-of-the-reply", KEYS.0, KEYS.1] {
        assert!(!text.contains(content), "{content} is in {text}");
    }
}

#[tokio::test]
async fn a_collector_that_fails_stops_neither_requests_nor_the_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let (refusing, _received) = collector(StatusCode::INTERNAL_SERVER_ERROR).await;
    // Accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}/v1/traces", silent.local_addr().unwrap());
    for (name, url) in [("refusing", refusing), ("silent", silent)] {
        let mut server = start(&dir.path().join(name), &url).await;
        let health = server.client.get("/api/public/health").await.unwrap();
        assert_eq!(health.status, 200, "{name}");
        let ended = tokio::time::timeout(PATIENCE, server.terminate()).await.unwrap();
        assert!(ended.unwrap().success(), "{name}");
    }
}
