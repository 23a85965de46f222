//! A small request uses little memory: the decoded size of a body is bounded, however small its values are. The memory is
//! that of a server process, as reported by the system.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use axum::http::Method;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use perpend_it::{Child, KEYS};
use perpend_server::client::{Answer, Client};
use serde_json::json;

const MIB: usize = 1 << 20;
/// Bytes of the largest body, decoded.
const MAX_BODY: usize = 64 * MIB;
/// The memory limit of the server.
const MAX_MEMORY: usize = 400 * MIB;
const MAX_ANSWER: usize = 1_000_000;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// An excessive body: its description, path, encoding and expected status.
struct Sent {
    what: &'static str,
    path: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
    status: u16,
}

fn sent(
    what: &'static str,
    signal: &'static str,
    media_type: &'static str,
    body: Vec<u8>,
    status: u16,
) -> Sent {
    Sent { what, path: signal, media_type, body, status }
}

const TRACES: &str = "/api/public/otel/v1/traces";
const LOGS: &str = "/api/public/otel/v1/logs";
const METRICS: &str = "/api/public/otel/v1/metrics";

/// A protobuf field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut rest = bytes.len();
    while 0x80 <= rest {
        out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
    out.extend_from_slice(bytes);
    out
}

/// A request with a resource and one scope that holds these spans or records.
fn request(resource: &[u8], members: &[u8]) -> Vec<u8> {
    let scope = field(2, members);
    field(1, &[field(1, resource), scope].concat())
}

/// A span that can be stored, with these further fields.
fn span(number: u64, fields: &[u8]) -> Vec<u8> {
    let id = (number + 1).to_be_bytes();
    let trace = field(1, &[id, id].concat());
    field(2, &[trace, field(2, &id), fields.to_vec()].concat())
}

fn attribute(key: &str, text: &str) -> Vec<u8> {
    let value = field(1, text.as_bytes());
    [field(1, key.as_bytes()), field(2, &value)].concat()
}

/// The output of a span.
fn value(text: &[u8]) -> Vec<u8> {
    let value = field(2, &field(1, text));
    field(9, &[field(1, b"output.value"), value].concat())
}

/// 20 MiB, in base64.
fn image() -> String {
    format!("data:image/png;base64,{}", "AAAA".repeat(20 * MIB / 3))
}

fn spans(n_spans: u64, fields: &[u8]) -> Vec<u8> {
    (0..n_spans).flat_map(|number| span(number, fields)).collect()
}

/// A list of as many of these as fit.
fn full(start: &str, one: &str, end: &str) -> Vec<u8> {
    let n = (MAX_BODY - start.len() - end.len()) / one.len() - 1;
    format!("{start}{}{end}", one.repeat(n)).into_bytes()
}

fn bombs() -> Vec<Sent> {
    let rejected = b"\x12\x02\x4a\x00".repeat(4_000_000);
    let empty = b"\x12\x00".repeat(31_000_000);
    let dense = format!("[{}0]", "0,".repeat(40_000));
    let dense = field(9, &attribute("notes", &dense));
    let many = field(9, b"").repeat(1_000_000);
    let list = field(5, &b"\x0a\x00".repeat(10_000_000));
    let list = field(9, &[field(1, b"list"), field(2, &list)].concat());
    let resource = field(1, &attribute("about", &"r".repeat(60_000)));
    let resource: Vec<u8> = (0..16).flat_map(|_| resource.clone()).collect();
    let record = [field(9, &[7; 16]), field(10, &[7; 8]), field(12, b"gen_ai.choice")];
    let record = field(2, &record.concat());
    vec![
        sent("spans without ids", TRACES, PROTOBUF, request(b"", &rejected), 413),
        sent("empty spans", TRACES, PROTOBUF, request(b"", &empty), 413),
        sent("empty resources", TRACES, PROTOBUF, b"\x0a\x00".repeat(31_000_000), 413),
        sent("empty scopes", TRACES, PROTOBUF, field(1, &empty), 413),
        sent("distinct spans", TRACES, PROTOBUF, request(b"", &spans(2_000_000, b"")), 413),
        sent("a span with many attributes", TRACES, PROTOBUF, request(b"", &span(1, &many)), 200),
        sent("a span with a long list", TRACES, PROTOBUF, request(b"", &span(1, &list)), 200),
        sent("dense JSON in texts", TRACES, PROTOBUF, request(b"", &spans(60, &dense)), 200),
        sent("a large resource", TRACES, PROTOBUF, request(&resource, &spans(30_000, b"")), 413),
        sent(
            "spans in JSON",
            TRACES,
            JSON,
            full(r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, "{},", "{}]}]}]}"),
            413,
        ),
        sent("resources in JSON", TRACES, JSON, full(r#"{"resourceSpans":["#, "{},", "{}]}"), 413),
        sent("nested JSON", TRACES, JSON, full(r#"{"resourceSpans":"#, "[", ""), 400),
        sent("empty records", LOGS, PROTOBUF, request(b"", &empty), 413),
        sent("empty resources of records", LOGS, PROTOBUF, b"\x0a\x00".repeat(31_000_000), 413),
        sent("records of spans", LOGS, PROTOBUF, request(b"", &record.repeat(500_000)), 413),
        sent(
            "records in JSON",
            LOGS,
            JSON,
            full(r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":["#, "{},", "{}]}]}]}"),
            413,
        ),
        sent(
            "a text that is no text",
            TRACES,
            PROTOBUF,
            request(b"", &span(1, &value(&vec![0xff; 55 * MIB]))),
            413,
        ),
        sent(
            "a text that takes six times its bytes in JSON",
            TRACES,
            PROTOBUF,
            request(b"", &span(1, &value(&vec![1; 55 * MIB]))),
            413,
        ),
        sent(
            "a name that is no name",
            TRACES,
            JSON,
            [b"{\"\\n", vec![0xff; 60 * MIB].as_slice(), b"\":1}"].concat(),
            200,
        ),
        sent(
            "an image as large as may be",
            TRACES,
            PROTOBUF,
            request(b"", &span(1, &value(image().as_bytes()))),
            200,
        ),
        sent("metrics", METRICS, PROTOBUF, b"\x0a\x00".repeat(31_000_000), 200),
        sent("metrics in JSON", METRICS, JSON, full("{\"a\":[", "0,", "0]}"), 200),
    ]
}

fn compressed(body: &[u8], at: usize) -> (&'static str, Vec<u8>) {
    match at % 4 {
        0 => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(body).unwrap();
            ("gzip", gzip.finish().unwrap())
        }
        1 => ("zstd", zstd::encode_all(body, 1).unwrap()),
        2 => {
            let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
            zlib.write_all(body).unwrap();
            ("deflate", zlib.finish().unwrap())
        }
        _ => ("identity", body.to_vec()),
    }
}

async fn is_well(server: &Child, what: &str, answer: &Answer, status: u16) -> anyhow::Result<()> {
    let peak = usize::try_from(server.peak_memory()?)?;
    let shown: String = answer.text().chars().take(300).collect();
    anyhow::ensure!(answer.status == status, "{what}: {} {shown}", answer.status);
    anyhow::ensure!(answer.body.len() < MAX_ANSWER, "{what}: a long answer");
    anyhow::ensure!(peak < MAX_MEMORY, "{what}: {} MiB", peak / MIB);
    let health = server.client.get("/api/public/health").await?;
    anyhow::ensure!(health.status == 200, "{what}: {}", health.text());
    Ok(())
}

#[tokio::test]
async fn telemetry_of_tiny_parts_is_refused_or_cut_within_little_memory() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Child::start(&folder.path().join("data")).await?;
    for (at, bomb) in bombs().into_iter().enumerate() {
        // In addition to the client, which has to notice that the server closed an idle connection.
        let packing = tokio::task::spawn_blocking(move || compressed(&bomb.body, at));
        let (encoding, body) = packing.await?;
        let headers = [("content-type", bomb.media_type), ("content-encoding", encoding)];
        let answer = server.client.send(Method::POST, bomb.path, &headers, body).await?;
        is_well(&server, bomb.what, &answer, bomb.status).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_public_key_alone_moves_little_memory_with_events_of_any_number() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Child::start(&folder.path().join("data")).await?;
    let origin = server.client.origin();
    let browser = Client::new(origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let ones = |n_ones: usize| format!("{{\"batch\":[{}1]}}", "1,".repeat(n_ones - 1));
    for (n_ones, status) in [(2_200_000, 413), (499_000, 413), (10_000, 207)] {
        let headers = [("content-type", JSON)];
        let path = "/api/public/ingestion";
        let answer = browser.send(Method::POST, path, &headers, ones(n_ones)).await?;
        is_well(&server, "a batch", &answer, status).await?;
        if status == 207 {
            let body = answer.json();
            assert_eq!(body["errors"].as_array().map(Vec::len), Some(100));
            assert_eq!(body["errorsOmitted"], json!(n_ones - 100));
            assert_eq!(body["successes"], json!([]));
        }
    }
    Ok(())
}
