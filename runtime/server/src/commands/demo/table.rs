//! The scores of the demo as a table.

use std::collections::HashMap;

use serde_json::Value;

use crate::client::Client;

const HEAD: [&str; 6] = ["ticket", "score name", "value", "evaluator", "fingerprint", "execution"];

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// One row per score, sorted by ticket and score name.
pub(super) async fn render(client: &Client, scores: &[Value]) -> anyhow::Result<String> {
    let evaluators = client.get("/api/public/v2/evaluators?limit=100").await?.json();
    let mut makers: HashMap<String, String> = HashMap::new();
    for evaluator in evaluators["data"].as_array().into_iter().flatten() {
        let maker = format!(
            "{}@{} {} v{}",
            text(evaluator, "/plugin/name"),
            text(evaluator, "/plugin/version"),
            text(evaluator, "/evaluator"),
            evaluator["version"]
        );
        makers.insert(text(evaluator, "/id").to_owned(), maker);
    }
    let traces = client.get("/api/public/traces?fields=core,io&limit=100").await?.json();
    let mut tickets: HashMap<String, String> = HashMap::new();
    for trace in traces["data"].as_array().into_iter().flatten() {
        tickets.insert(text(trace, "/id").to_owned(), text(trace, "/input").to_owned());
    }
    let mut rows: Vec<[String; 6]> = scores
        .iter()
        .map(|score| {
            let subject = &score["subject"];
            let trace = subject.get("traceId").unwrap_or(&subject["id"]);
            let ticket = tickets.get(trace.as_str().unwrap_or("")).cloned().unwrap_or_default();
            let maker = makers.get(text(score, "/origin/evaluatorId")).cloned().unwrap_or_default();
            [
                ticket.chars().take(44).collect(),
                text(score, "/name").to_owned(),
                score["value"].to_string(),
                maker,
                text(score, "/origin/fingerprint").chars().take(12).collect(),
                text(score, "/origin/executionId").to_owned(),
            ]
        })
        .collect();
    rows.sort();
    Ok(aligned(&rows))
}

fn aligned(rows: &[[String; 6]]) -> String {
    let mut widths = HEAD.map(|head| head.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<&str>| -> String {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(HEAD.to_vec())];
    let rules = widths.map(|width| "-".repeat(width));
    lines.push(line(rules.iter().map(String::as_str).collect()));
    let mut last = "";
    for row in rows {
        // The ticket is shown only in its first row.
        let ticket = if row[0] == last { "" } else { row[0].as_str() };
        last = &row[0];
        let rest = row[1..].iter().map(String::as_str);
        lines.push(line(std::iter::once(ticket).chain(rest).collect()));
    }
    lines.join("\n")
}
