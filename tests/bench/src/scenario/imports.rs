//! Import of a file of 100,000 items, and its export.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::report::{Bar, Figure};
use crate::server::Server;

const N_ITEMS: u64 = 100_000;
/// Interval of requests for the progress.
const POLL: Duration = Duration::from_millis(100);
/// Longest duration of an import.
const PATIENCE: Duration = Duration::from_secs(600);
const MAX_SECONDS: f64 = 60.0;

/// A table of 100,000 rows.
///
/// # Errors
/// When the server refuses a request, or the import does not end.
pub(crate) async fn measure() -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&[]).await?;
    let mut connection = server.connect().await?;
    let dataset = json!({
        "name": "questions",
        "inputSchema": { "type": "object", "required": ["question"] },
    });
    connection.json("POST", "/api/public/v2/datasets", Some(&dataset)).await?;
    let mut file = String::from("id,input,expected_output,metadata\r\n");
    for n in 0..N_ITEMS {
        let text = "Which number follows? ".repeat(5);
        writeln!(
            file,
            "q-{n},\"{{\"\"question\"\":\"\"{text}{n}\"\"}}\",\"\"\"{n}\"\"\",\"{{\"\"n\"\":{n}}}\""
        )?;
    }
    let mapping = json!({ "mapping": [
        { "column": "id", "target": "id" },
        { "column": "input", "target": "input", "type": "json" },
        { "column": "expected_output", "target": "expectedOutput", "type": "json" },
        { "column": "metadata", "target": "metadata", "type": "json" },
    ] });
    let upload = "/api/v1/datasets/questions/import?fileName=questions.csv";
    let started_at = Instant::now();
    let (status, answer) = connection.send("POST", upload, "text/csv", file.into()).await?;
    ensure!(status == 201, "{status} {}", String::from_utf8_lossy(&answer));
    let uploaded: Value = serde_json::from_slice(&answer)?;
    let id = uploaded["id"].as_str().context("the import has an id")?;
    let path = format!("/api/v1/datasets/questions/imports/{id}");
    connection.json("PATCH", &path, Some(&mapping)).await?;
    connection.json("POST", &format!("{path}/start"), None).await?;
    let mut peak_bytes = 0;
    loop {
        peak_bytes = peak_bytes.max(server.resident_bytes());
        let import = connection.json("GET", &path, None).await?;
        if import["state"] == "completed" {
            ensure!(import["progress"]["created"] == N_ITEMS, "{import}");
            break;
        }
        let is_running = import["state"] == "importing" && started_at.elapsed() < PATIENCE;
        ensure!(is_running, "{import}");
        tokio::time::sleep(POLL).await;
    }
    let seconds = started_at.elapsed().as_secs_f64();
    server.stop().await?;
    let figure = |what: &str, value: f64, unit, bar| Figure {
        scenario: "import",
        what: what.to_owned(),
        value,
        unit,
        bar,
    };
    let memory = peak_bytes as f64 / f64::from(1 << 20);
    let what = format!("{N_ITEMS} items from CSV, with a schema");
    Ok(vec![
        figure(&what, seconds, "s", Bar::AtMost(MAX_SECONDS)),
        figure("peak resident memory, workers included", memory, "MiB", Bar::None),
    ])
}
