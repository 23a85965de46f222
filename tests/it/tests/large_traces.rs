//! Traces that are too large to be held whole: read in parts, and never taken for whole when they are not.

#![cfg(target_os = "linux")]

use axum::http::Method;
use perpend_it::raw::{PAIR, RawRequest};
use perpend_it::{Child, OTLP, TestApp, Trace, trace_id};
use perpend_server::client::Client;
use serde_json::json;

const MIB: usize = 1 << 20;
const N_STEPS: u64 = 40;
/// Content of each step, unpacked. It is stored in some hundred bytes.
const STEP: usize = 4 * MIB;

/// A trace of 160 MiB, step by step.
async fn write(client: &Client) -> anyhow::Result<()> {
    for number in 1..=N_STEPS {
        let output = json!({ "stringValue": "word ".repeat(STEP / 5) });
        let step = json!({
            "traceId": trace_id(0),
            "spanId": Trace::span_id(number),
            "name": "step",
            "startTimeUnixNano": "1770000000000000000",
            "endTimeUnixNano": "1770000001000000000",
            "attributes": [{ "key": "output.value", "value": output }],
        });
        let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [step] }] }] });
        let answer = client.json(Method::POST, OTLP, &request).await?;
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
    }
    Ok(())
}

fn path() -> String {
    format!("/api/public/traces/{}", trace_id(0))
}

#[tokio::test]
async fn a_trace_is_read_and_searched_in_the_memory_of_a_part_of_it() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Child::start(&folder.path().join("data")).await?;
    write(&server.client).await?;
    server.reset_peak_memory()?;
    let before = usize::try_from(server.peak_memory()?)?;
    let line = format!("GET {}", path());
    let head = [("authorization", PAIR)];
    let request = RawRequest::open(server.client.origin(), &line, &head).await?;
    let answer = request.answer().await?;
    anyhow::ensure!(answer.ends_with("\r\n0\r\n\r\n"));
    let whole = usize::try_from(N_STEPS)? * STEP;
    anyhow::ensure!(whole < answer.len(), "{}", answer.len());
    let after = usize::try_from(server.peak_memory()?)?;
    let taken = after.saturating_sub(before);
    anyhow::ensure!(taken < whole / 2, "{} MiB more", taken / MIB);

    server.reset_peak_memory()?;
    let before = usize::try_from(server.peak_memory()?)?;
    search(&server.client).await?;
    let after = usize::try_from(server.peak_memory()?)?;
    let taken = after.saturating_sub(before);
    anyhow::ensure!(taken < whole / 2, "{} MiB more", taken / MIB);
    Ok(())
}

/// Searches all of it for a text that it does not contain.
async fn search(client: &Client) -> anyhow::Result<()> {
    let find = format!("/api/v1/traces/{}/find?text=sentence", trace_id(0));
    let mut address = find.clone();
    loop {
        let answer = client.get(&address).await?;
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
        let part = answer.json();
        anyhow::ensure!(part["data"] == json!([]), "{part}");
        let Some(after) = part["meta"]["after"].as_str() else {
            anyhow::ensure!(part["meta"]["searched"] == N_STEPS, "{part}");
            return Ok(());
        };
        address = format!("{find}&after={after}");
    }
}

#[tokio::test]
async fn an_answer_that_cannot_go_on_breaks_off_and_does_not_end() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    write(&app.client).await?;
    let line = format!("GET {}", path());
    let head = [("authorization", PAIR)];
    let whole = RawRequest::open(&app.origin, &line, &head).await?;
    anyhow::ensure!(whole.answer().await?.ends_with("\r\n0\r\n\r\n"));

    // The unread rest does not fit into the network buffers.
    let half = RawRequest::open(&app.origin, &line, &head).await?;
    half.begins().await?;
    app.app.store.close().await;
    let answer = half.answer().await?;
    anyhow::ensure!(answer.starts_with("HTTP/1.1 200"));
    anyhow::ensure!(!answer.ends_with("\r\n0\r\n\r\n"));
    anyhow::ensure!(answer.len() < usize::try_from(N_STEPS)? * STEP);
    Ok(())
}
