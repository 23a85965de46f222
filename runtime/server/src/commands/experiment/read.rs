//! `perpend experiment list`, `show` and `compare`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use perpend_domain::experiment::escaped_run_id;
use perpend_experiments::Comparison;
use perpend_experiments::names;
use perpend_experiments::number;
use perpend_experiments::report::{Table, comparison_text, encoded};
use perpend_experiments::run_file::{RunFile, RunFileItem, RunFileValue};
use serde_json::Value;

use super::super::common::printable;
use super::super::experiments_remote::{get, run_id};
use super::super::plugin_remote::{Access, ServerRemote, TIMEOUT};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only runs over this dataset
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Maximum number of runs, 1 to 100
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Id or name of the run
    run: String,
    /// Print the results of the items; with --json in the format that `perpend gate --result` reads
    #[arg(long)]
    items: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    perpend experiment compare \"main 2026-03-01\" \"new prompt\" --segment-by language")]
pub(super) struct CompareArgs {
    /// Ids or names of 2 to 6 runs, the first is the baseline; or of one run that was started with a baseline
    #[arg(required = true, num_args = 1..=6, value_name = "RUN")]
    runs: Vec<String>,
    /// Probability of a false verdict [default: 0.05]
    #[arg(long)]
    alpha: Option<f64>,
    /// Smallest difference that counts [default: 0.02, and 0 for scores outside 0 to 1]
    #[arg(long)]
    margin: Option<f64>,
    /// `holm`, `bh` or `bonferroni`
    #[arg(long)]
    correction: Option<String>,
    /// Reduction of repetitions: `mean`, `median`, `mode`, `max`, `at_least:K`, `pass_at:K` or `pass_k:K`
    #[arg(long)]
    reducer: Option<String>,
    /// Metrics to compare [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Direction of a score, instead of the stored one: `NAME:higher_is_better` or `NAME:lower_is_better`; repeatable
    #[arg(long, value_name = "NAME:DIRECTION")]
    direction: Vec<String>,
    /// Metadata key of items that are also compared separately
    #[arg(long, value_name = "KEY")]
    segment_by: Option<String>,
    /// Metadata key of items that depend on one another
    #[arg(long, value_name = "KEY")]
    cluster_by: Option<String>,
    /// Further run of the baseline, which measures noise; repeatable
    #[arg(long, value_name = "RUN")]
    noise_run: Vec<String>,
    /// Number of printed items, largest regression first
    #[arg(long, default_value_t = 10)]
    limit: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(super) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let limit = args.limit;
    let mut path = format!(
        "/api/public/experiments?fromStartTime=1970-01-01T00:00:00Z&fields=core&limit={limit}"
    );
    if let Some(name) = &args.dataset {
        let dataset = get(&remote, &format!("/api/public/v2/datasets/{}", encoded(name)))?;
        let id = dataset["id"].as_str().unwrap_or_default();
        path.push_str(&format!("&datasetId={}", encoded(id)));
    }
    let answer = get(&remote, &path)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", answer["data"])?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["run", "id", "items", "started"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for run in answer["data"].as_array().into_iter().flatten() {
        let n_items = run["itemCount"].as_u64().unwrap_or_default();
        let started = text(&run["startTime"]);
        table.push([text(&run["name"]), text(&run["id"]), n_items.to_string(), started]);
    }
    write!(out, "{}", table.text())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let id = run_id(&remote, &args.run)?;
    let mut out = std::io::stdout().lock();
    if args.items {
        let answer = get(&remote, &format!("/api/v1/experiments/{}/results", encoded(&id)))?;
        match args.json {
            true => writeln!(out, "{answer:#}")?,
            false => write!(out, "{}", items(&serde_json::from_value(answer)?).text())?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let path = format!("/api/v1/experiments/{}", encoded(&escaped_run_id(&id)));
    let run = get(&remote, &path)?;
    match args.json {
        true => writeln!(out, "{run:#}")?,
        false => write!(out, "{}", printable(&summary(&run)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Name, counts of items, and means with their standard errors.
fn summary(run: &Value) -> String {
    let name = run["name"].as_str().unwrap_or_default();
    let mut text = format!("{name} ({})\n", run["id"].as_str().unwrap_or_default());
    if let Some(dataset) = run["datasetName"].as_str() {
        text.push_str(&format!("dataset: {dataset}\n"));
    }
    let counts = [
        ("nExpected", "expected items"),
        ("nSeen", "items with a result"),
        ("nFailed", "failed items"),
        ("nMissing", "missing items"),
    ];
    for (member, label) in counts {
        if let Some(count) = run["account"][member].as_u64() {
            text.push_str(&format!("{label}: {count}\n"));
        }
    }
    let mut table = Table::new(["metric", "items", "mean", "standard error", "p95"]);
    let mut push = |name: &str, values: &Value| {
        let cell = |member: &str| values[member].as_f64().map_or_else(|| "–".to_owned(), number);
        let n = values["n"].as_u64().unwrap_or_default();
        table.push([name.to_owned(), n.to_string(), cell("mean"), cell("stderr"), cell("p95")]);
    };
    for score in run["scores"].as_array().into_iter().flatten() {
        let name = score["name"].as_str().unwrap_or_default();
        push(&names::metric_of_score(name), &score["values"]);
    }
    let members = ["errors", "latencyMs", "costUsd", "tokens"];
    for (measure, member) in names::MEASURES.into_iter().zip(members) {
        push(measure, &run["figures"][member]);
    }
    text.push('\n');
    text.push_str(&table.text());
    text
}

fn items(file: &RunFile) -> Table {
    let mut table = Table::new(["item", "trace", "scores", "latency (ms)", "error"]);
    for item in &file.items {
        let latency = item.latency_ms.map_or_else(|| "–".to_owned(), number);
        let error = if item.is_error { "error" } else { "" };
        let trace = item.trace_id.clone().unwrap_or_default();
        table.push([item.item_id.clone(), trace, scores(item), latency, error.to_owned()]);
    }
    table
}

fn scores(item: &RunFileItem) -> String {
    let scores = item.scores.iter().map(|score| {
        let value = match &score.value {
            RunFileValue::Boolean(value) => value.to_string(),
            RunFileValue::Number(value) => number(*value),
            RunFileValue::Text(text) => text.chars().take(50).collect(),
        };
        format!("{} {value}", score.name)
    });
    scores.collect::<Vec<_>>().join(", ")
}

pub(super) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let mut path = format!("/api/v1/experiments/compare?limit={}", args.limit);
    let mut push = |name: &str, value: &str| {
        path.push_str(&format!("&{name}={}", encoded(value)));
    };
    for run in &args.runs {
        push("runs", &run_id(&remote, run)?);
    }
    let noise: anyhow::Result<Vec<String>> =
        args.noise_run.iter().map(|run| run_id(&remote, run)).collect();
    for direction in &args.direction {
        push("direction", direction);
    }
    let numbers = [("alpha", args.alpha), ("margin", args.margin)];
    for (name, value) in numbers.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        push(name, &value.to_string());
    }
    let texts = [
        ("correction", args.correction.clone()),
        ("reducer", args.reducer.clone()),
        ("segmentBy", args.segment_by.clone()),
        ("clusterBy", args.cluster_by.clone()),
        ("metrics", Some(args.metrics.join(","))),
        ("noiseRuns", Some(noise?.join(","))),
    ];
    for (name, value) in texts {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            push(name, &value);
        }
    }
    let answer = get(&remote, &path)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{answer:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let comparison: Comparison = serde_json::from_value(answer)?;
    write!(out, "{}", comparison_text(&comparison))?;
    let regressed: Vec<_> = comparison.items.iter().filter(|item| item.is_regressed).collect();
    if !regressed.is_empty() {
        let mut table = Table::new(["item", "change"]);
        for item in regressed {
            table.push([item.item_id.clone(), number(item.change)]);
        }
        write!(out, "\n{}", table.text())?;
    }
    Ok(ExitCode::SUCCESS)
}
