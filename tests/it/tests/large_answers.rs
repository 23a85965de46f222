//! Responses with rows of the largest size: a page ends early or is sent in chunks, and the server buffers little of it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use axum::http::Method;
use perpend_it::raw::PAIR;
use perpend_it::{Child, OTLP, TestApp, Trace};
use perpend_server::client::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;
/// Traces of a session, with an output each.
const N_TRACES: u64 = 20;
const OUTPUT: usize = 9 * MIB;
/// Items, scores and prompts, each nearly as large as a body may be.
const N_ROWS: usize = 16;
/// The size limit of a page of a list with a cursor.
const MAX_PAGE: usize = 24 * MIB;
/// The memory limit of the server.
const MAX_MEMORY: usize = 450 * MIB;

/// The status, and how long the answer is, which is not kept.
async fn read(origin: &str, path: &str) -> anyhow::Result<(u16, usize)> {
    let address = origin.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {PAIR}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut piece = vec![0; 256 << 10];
    let (mut beginning, mut n_bytes) = (Vec::new(), 0);
    loop {
        let n = stream.read(&mut piece).await?;
        if n == 0 {
            break;
        }
        n_bytes += n;
        if beginning.len() < 16 {
            beginning.extend_from_slice(&piece[..n.min(16)]);
        }
    }
    let status = String::from_utf8_lossy(&beginning);
    let status = status.split(' ').nth(1).unwrap_or_default();
    Ok((status.parse()?, n_bytes))
}

async fn post(client: &Client, path: &str, body: &Value) {
    let answer = client.json(Method::POST, path, body).await.unwrap();
    assert!((200..300).contains(&answer.status.as_u16()), "{path}: {}", answer.text());
}

async fn fill(client: &Client) {
    let output = "o".repeat(OUTPUT);
    for n in 0..N_TRACES {
        let trace = Trace::new(n + 1, "large").attribute("session.id", "s");
        let trace = trace.generation("answer", &output).to_json();
        post(client, OTLP, &trace).await;
    }
    post(client, "/api/public/v2/datasets", &json!({ "name": "d" })).await;
    // Dense: parsed it takes many times as much as its text.
    let dense = vec![0; 400_000];
    let text = "t".repeat(4 * MIB);
    for n in 0..N_ROWS {
        let item = json!({ "datasetName": "d", "id": format!("i{n}"), "input": dense });
        post(client, "/api/public/dataset-items", &item).await;
        let score = json!({ "name": "n", "value": 1, "sessionId": "s", "metadata": { "m": text } });
        post(client, "/api/public/scores", &score).await;
        let prompt =
            json!({ "name": format!("p{n}"), "prompt": text, "config": { "c": dense[..9] } });
        post(client, "/api/public/v2/prompts", &prompt).await;
    }
}

/// The address of an operation that reads, with its largest answer.
fn address(path: &str, operation: &Value) -> String {
    let known =
        [("{sessionId}", "s"), ("{datasetName}", "d"), ("{promptName}", "p1"), ("{id}", "i1")];
    let path = known.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    let path = path.replace(['{', '}'], "");
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let text = parameter["description"].as_str().unwrap_or_default();
        match parameter["name"].as_str().unwrap_or_default() {
            "limit" => {
                let (_, max) = text.split_once(" 1 to ").unwrap();
                let max = max.split(|c: char| !c.is_ascii_digit()).next().unwrap();
                query.push(format!("limit={max}"));
            }
            "fields" if path.ends_with("observations") => {
                query.push("fields=core,io,metadata".to_owned());
            }
            "fromStartTime" if parameter["required"] == true => {
                query.push("fromStartTime=2000-01-01T00:00:00Z".to_owned());
            }
            "datasetName" if parameter["in"] == "query" => query.push("datasetName=d".to_owned()),
            _ => {}
        }
    }
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    }
}

fn has_cursor(operation: &Value) -> bool {
    let mut parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.any(|parameter| parameter["name"] == "cursor")
}

#[tokio::test]
async fn every_read_operation_returns_the_largest_rows_within_little_memory() -> anyhow::Result<()>
{
    let folder = tempfile::tempdir()?;
    let server = Child::start(&folder.path().join("data")).await?;
    fill(&server.client).await;
    let origin = server.client.origin();
    let document = server.client.get("/api/openapi.json").await?.json();
    let paths = document["paths"].as_object().unwrap();
    let mut n_large = 0;
    for (path, operations) in paths {
        let operation = &operations["get"];
        if operation.is_null() {
            continue;
        }
        server.reset_peak_memory()?;
        let path = address(path, operation);
        let (status, n_bytes) = read(origin, &path).await?;
        let peak = usize::try_from(server.peak_memory()?)?;
        assert!(status < 500, "{path}: {status}");
        assert!(peak < MAX_MEMORY, "{path}: {} MiB", peak / MIB);
        if has_cursor(operation) {
            assert!(n_bytes < MAX_PAGE, "{path}: {} MiB", n_bytes / MIB);
        }
        n_large += usize::from(4 * MIB < n_bytes);
    }
    assert!(2 < n_large, "{n_large} answers were large");
    server.reset_peak_memory()?;
    let greedy = "/api/public/v2/observations?limit=1000&fields=core,io";
    let all = (0..8).map(|_| read(origin, greedy));
    for answer in futures_util::future::join_all(all).await {
        let (status, _) = answer?;
        assert!([200, 503].contains(&status), "{status}");
    }
    let peak = usize::try_from(server.peak_memory()?)?;
    assert!(peak < 700 * MIB, "eight at once: {} MiB", peak / MIB);
    Ok(())
}

#[tokio::test]
async fn a_list_of_large_rows_is_complete_by_cursor_and_by_page() {
    const N: u64 = 12;
    let app = TestApp::new().await.unwrap();
    let output = "o".repeat(2 * MIB);
    let mut ids = BTreeSet::new();
    for n in 0..N {
        let trace = Trace::new(n + 1, "root").attribute("session.id", "s");
        app.ingest(&trace.generation("answer", &output)).await.unwrap();
    }
    let (mut cursor, mut n_pages) = (String::new(), 0);
    loop {
        let path = format!("/api/public/v2/observations?limit=1000&fields=core,io{cursor}");
        let page = app.client.get(&path).await.unwrap().json();
        n_pages += 1;
        for row in page["data"].as_array().unwrap() {
            assert!(ids.insert(row["traceId"].to_string() + &row["id"].to_string()));
        }
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(ids.len() as u64, 2 * N);
    assert!(1 < n_pages);
    for (path, n_wanted) in [
        ("/api/public/observations?limit=100", 2 * N),
        ("/api/public/traces?limit=100", N),
        ("/api/public/sessions/s", N),
    ] {
        let answer = app.client.get(path).await.unwrap().json();
        let rows = answer["data"].as_array().or(answer["traces"].as_array());
        let ids: BTreeSet<String> = rows
            .unwrap()
            .iter()
            .map(|row| row["id"].to_string() + &row["traceId"].to_string())
            .collect();
        assert_eq!(ids.len() as u64, n_wanted, "{path}");
        if !answer["meta"].is_null() {
            assert_eq!(answer["meta"]["totalItems"], n_wanted, "{path}");
        }
    }
    assert_eq!(app.app.web.answer_bytes(), 0, "all memory is returned");
}

#[tokio::test]
async fn a_connection_that_takes_an_answer_too_slowly_is_closed_and_its_memory_is_returned() {
    let settings = [("answers.pause_seconds", "1"), ("answers.min_kib_per_second", "1024")];
    let app = TestApp::with(&settings).await.unwrap();
    let output = "o".repeat(OUTPUT);
    for n in 0..4 {
        let trace = Trace::new(n + 1, "root").attribute("session.id", "s");
        app.ingest(&trace.generation("answer", &output)).await.unwrap();
    }
    let path = "/api/public/observations?limit=100";
    let (_, whole) = read(&app.origin, path).await.unwrap();
    let address = app.origin.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: {PAIR}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut trickle = [0; 512];
    let (mut n_taken, mut n_free) = (0, 0);
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        match stream.read(&mut trickle).await {
            Ok(0) | Err(_) => break,
            Ok(n) => n_taken += n,
        }
        n_free = match app.app.web.answer_bytes() {
            0 => n_free + 1,
            _ => 0,
        };
        // Closed by the server: the rest in the local buffers is read at once.
        if 10 < n_free {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            n_taken += rest.len();
            break;
        }
    }
    assert!(n_taken < whole, "{n_taken} of {whole}");
    assert_eq!(app.app.web.answer_bytes(), 0);
}
