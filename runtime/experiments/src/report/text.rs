//! Reports for a terminal.

use crate::comparison::Comparison;
use crate::gate::GateReport;
use crate::gate_status::CheckStatus;
use crate::number::number;

use super::table::one_line;
use super::{Table, change, optional, title};

/// A comparison: the runs, the metrics with verdicts, segments, and warnings.
#[must_use]
pub fn comparison_text(comparison: &Comparison) -> String {
    let mut runs = Table::new(["run", "id", "items", "failed", "missing", "matched"]);
    for run in &comparison.runs {
        let name = if run.is_base { format!("{} (baseline)", run.name) } else { run.name.clone() };
        runs.push([
            name,
            run.id.clone(),
            run.n_items.to_string(),
            run.n_failed_items.to_string(),
            run.n_missing_items.map_or_else(|| "–".to_owned(), |n| n.to_string()),
            run.n_matched_items.to_string(),
        ]);
    }
    let mut text = runs.text();
    text.push('\n');
    text.push_str(&metrics(comparison).text());
    for segment in &comparison.segments {
        let value = segment.value.as_deref().unwrap_or("(none)");
        text.push('\n');
        push_line(&mut text, &format!("{} = {value} ({} items)", segment.key, segment.n_items));
        let part = Comparison { metrics: segment.metrics.clone(), ..comparison.clone() };
        text.push_str(&metrics(&part).text());
    }
    text.push('\n');
    if !comparison.noise_runs.is_empty() {
        let runs = comparison.noise_runs.join(", ");
        let line = format!("noise is measured with further runs of the baseline: {runs}");
        push_line(&mut text, &line);
    }
    for reason in reasons(comparison) {
        push_line(&mut text, &reason);
    }
    for warning in &comparison.warnings {
        push_line(&mut text, &format!("warning: {}", warning.message));
    }
    text
}

/// Names come from clients and may have line ends and sequences that control a terminal.
fn push_line(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

fn metrics(comparison: &Comparison) -> Table {
    let mut table = Table::new([
        "metric",
        "run",
        "mean",
        "difference",
        "p",
        "wins",
        "ties",
        "losses",
        "noise",
        "verdict",
    ]);
    for metric in &comparison.metrics {
        for (run, about) in metric.runs.iter().zip(&comparison.runs) {
            let mean = optional(run.summary.mean);
            let noise = metric.noise.as_ref().map(|noise| noise.floor);
            let name = about.name.clone();
            match &run.difference {
                None => table.push([
                    title(metric),
                    name,
                    mean,
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    "baseline".to_owned(),
                ]),
                Some(difference) => table.push([
                    title(metric),
                    name,
                    mean,
                    change(difference),
                    optional(difference.p_adjusted.or(difference.p)),
                    difference.wins.to_string(),
                    difference.ties.to_string(),
                    difference.losses.to_string(),
                    optional(noise),
                    difference.verdict.as_str().to_owned(),
                ]),
            }
        }
    }
    table
}

fn reasons(comparison: &Comparison) -> Vec<String> {
    let mut reasons = Vec::new();
    for metric in &comparison.metrics {
        for (run, about) in metric.runs.iter().zip(&comparison.runs) {
            let difference = run.difference.as_ref();
            if let Some(reason) = difference.and_then(|difference| difference.reason.as_ref()) {
                reasons.push(format!("{} of {}: {reason}", title(metric), about.name));
            }
        }
    }
    reasons
}

/// A gate: its outcome, the requirements, the metrics, warnings, and the worst items.
#[must_use]
pub fn gate_text(report: &GateReport) -> String {
    let mut text = String::new();
    push_line(&mut text, &format!("{}: {}", report.run.name, outcome(report)));
    let baseline = report.baseline.as_ref().map_or("none", |baseline| baseline.name.as_str());
    push_line(&mut text, &format!("baseline: {baseline}"));
    let mut checks = Table::new(["", "metric", "requirement", "result"]);
    for check in &report.checks {
        let mark = match check.status {
            CheckStatus::Passed => "ok",
            CheckStatus::Failed => "FAILED",
            CheckStatus::Undecided => "UNDECIDED",
            CheckStatus::OverBudget => "OVER BUDGET",
        };
        checks.push([
            mark.to_owned(),
            check.metric.clone().unwrap_or_default(),
            check.rule.clone(),
            check.message.clone(),
        ]);
    }
    text.push('\n');
    text.push_str(&checks.text());
    if !report.worst_items.is_empty() {
        let mut items = Table::new(["item", "change"]);
        for item in &report.worst_items {
            items.push([item.item_id.clone(), number(item.change)]);
        }
        text.push('\n');
        text.push_str(&items.text());
    }
    for warning in &report.warnings {
        push_line(&mut text, &format!("warning: {warning}"));
    }
    text
}

/// The outcome in words.
pub(super) fn outcome(report: &GateReport) -> &'static str {
    use crate::gate::GateOutcome;
    match report.outcome {
        GateOutcome::Passed => "passed",
        GateOutcome::Failed => "failed",
        GateOutcome::Undecided => "undecided",
        GateOutcome::OverBudget => "over budget",
    }
}
