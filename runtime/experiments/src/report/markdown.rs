//! Reports for pull requests.

use crate::comparison::{ItemRun, MetricComparison, MetricKind};
use crate::gate::GateReport;
use crate::gate_status::CheckStatus;

use super::text::outcome;
use super::{Links, Table, change, optional, title};

/// The first line of the text: a comment by which a later report finds and replaces this one.
pub const MARKER: &str = "<!-- perpend-gate -->";

/// A gate: the outcome, metrics against the baseline, failures, and the items that became worse by most. With `links`,
/// items link to the traces of both runs.
#[must_use]
pub fn gate_markdown(report: &GateReport, links: Option<&Links>) -> String {
    let mut text = format!("{MARKER}\n## {}: {}\n\n", escaped(&report.run.name), outcome(report));
    match &report.baseline {
        Some(baseline) => text.push_str(&format!("Baseline: {}\n\n", escaped(&baseline.name))),
        None => text.push_str("No baseline.\n\n"),
    }
    text.push_str(&metrics(report).markdown());
    let failures = report.failures.iter();
    let failures: Vec<String> = failures
        .map(|check| {
            let mark = match check.status {
                CheckStatus::Passed => "passed",
                CheckStatus::Failed => "failed",
                CheckStatus::Undecided => "undecided",
                CheckStatus::OverBudget => "over budget",
            };
            let metric = check.metric.as_deref().unwrap_or("run");
            let message = escaped(&check.message);
            format!("- **{mark}** {} `{}`: {message}\n", escaped(metric), check.rule)
        })
        .collect();
    if !failures.is_empty() {
        text.push_str(&format!("\n### Requirements that do not hold\n\n{}", failures.concat()));
    }
    if !report.worst_items.is_empty() {
        text.push_str("\n### Largest regressions\n\n");
        text.push_str(&items(report, links).markdown());
    }
    if !report.warnings.is_empty() {
        text.push_str("\n### Warnings\n\n");
        for warning in &report.warnings {
            text.push_str(&format!("- {}\n", escaped(warning)));
        }
    }
    text
}

fn metrics(report: &GateReport) -> Table {
    let mut table = Table::new(["metric", "baseline", "this", "Δ with interval", "verdict"]);
    for metric in &report.metrics {
        let Some(run) = metric.runs.last() else { continue };
        let base = metric.runs.first().filter(|_| report.baseline.is_some());
        let difference = run.difference.as_ref();
        table.push([
            escaped(&title(metric)),
            optional(base.and_then(|base| base.summary.mean)),
            optional(run.summary.mean),
            difference.map_or_else(|| "–".to_owned(), change),
            difference.map_or("–", |difference| difference.verdict.as_str()).to_owned(),
        ]);
    }
    table
}

fn items(report: &GateReport, links: Option<&Links>) -> Table {
    let mut table = Table::new(["item", "change", "baseline", "this"]);
    for item in &report.worst_items {
        let cell = |run: Option<&Option<ItemRun>>| {
            run.and_then(Option::as_ref).map_or_else(
                || "–".to_owned(),
                |run| {
                    let values = values(&report.metrics, run);
                    match links {
                        Some(links) => format!("[{values}]({})", links.trace(&run.trace_id)),
                        None => values,
                    }
                },
            )
        };
        table.push([
            escaped(&item.item_id),
            changes(&report.metrics, &item.runs),
            cell(item.runs.first()),
            cell(item.runs.last()),
        ]);
    }
    table
}

/// The values of the metrics of a result: `accuracy 0.5, tone good`.
fn values(metrics: &[MetricComparison], run: &ItemRun) -> String {
    let cells = metrics.iter().zip(&run.values).zip(&run.labels);
    let cells = cells.filter_map(|((metric, value), label)| {
        let value = label.clone().or_else(|| value.map(crate::number::number))?;
        Some(format!("{} {}", escaped(&metric.name), escaped(&value)))
    });
    let cells: Vec<String> = cells.collect();
    if cells.is_empty() { "no values".to_owned() } else { cells.join(", ") }
}

fn changes(metrics: &[MetricComparison], runs: &[Option<ItemRun>]) -> String {
    let (Some(Some(before)), Some(Some(after))) = (runs.first(), runs.last()) else {
        return "–".to_owned();
    };
    // Latency, cost and tokens differ always.
    let is_shown =
        |metric: &MetricComparison| matches!(metric.kind, MetricKind::Score | MetricKind::Errors);
    let cells = metrics.iter().zip(before.values.iter().zip(&after.values));
    let cells = cells.filter(|(metric, _)| is_shown(metric));
    let cells = cells.filter_map(|(metric, (before, after))| {
        let difference = (*after)? - (*before)?;
        let is_changed = difference != 0.0;
        let name = escaped(&metric.name);
        is_changed.then(|| format!("{name} {}", crate::number::signed(difference)))
    });
    cells.collect::<Vec<_>>().join(", ")
}

/// Text that Markdown and HTML take as text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '@' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
