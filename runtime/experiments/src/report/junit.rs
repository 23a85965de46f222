//! Reports for CI servers.

use crate::gate::{GateCheck, GateReport};
use crate::gate_items::GateItemCheck;
use crate::gate_status::CheckStatus;

/// A gate as JUnit XML: one suite for the run, one case for each requirement and for each listed item and metric. Items
/// without a value are skipped cases.
#[must_use]
pub fn gate_junit(report: &GateReport) -> String {
    let count = |status| report.checks.iter().filter(|check| check.status == status).count();
    let items = |status| report.items.iter().filter(|check| check.status == status).count();
    let n_failed = count(CheckStatus::Failed) + count(CheckStatus::OverBudget);
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    text.push_str(&format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        escaped(&report.run.name),
        report.checks.len() + report.items.len(),
        n_failed + items(CheckStatus::Failed),
        count(CheckStatus::Undecided),
        items(CheckStatus::Undecided)
    ));
    text.push_str("    <properties>\n");
    property(&mut text, "outcome", report.outcome.as_str());
    property(&mut text, "run", &report.run.id);
    if let Some(baseline) = &report.baseline {
        property(&mut text, "baseline", &baseline.id);
    }
    for metric in &report.metrics {
        let Some(run) = metric.runs.last() else { continue };
        if let Some(mean) = run.summary.mean {
            property(&mut text, &format!("{}.mean", metric.name), &mean.to_string());
        }
        let Some(difference) = &run.difference else { continue };
        property(&mut text, &format!("{}.verdict", metric.name), difference.verdict.as_str());
        if let Some(mean) = difference.mean {
            property(&mut text, &format!("{}.difference", metric.name), &mean.to_string());
        }
        if let Some(p) = difference.p_adjusted {
            property(&mut text, &format!("{}.p", metric.name), &p.to_string());
        }
    }
    text.push_str("    </properties>\n");
    for check in &report.checks {
        case(&mut text, check);
    }
    for item in &report.items {
        item_case(&mut text, item);
    }
    text.push_str("  </testsuite>\n</testsuites>\n");
    text
}

fn property(text: &mut String, name: &str, value: &str) {
    let (name, value) = (escaped(name), escaped(value));
    text.push_str(&format!("      <property name=\"{name}\" value=\"{value}\"/>\n"));
}

fn case(text: &mut String, check: &GateCheck) {
    let class = escaped(check.metric.as_deref().unwrap_or("run"));
    let rule = escaped(&check.rule);
    let message = escaped(&check.message);
    text.push_str(&format!("    <testcase classname=\"{class}\" name=\"{rule}\">"));
    match check.status {
        CheckStatus::Passed => text.push_str(&format!("<system-out>{message}</system-out>")),
        CheckStatus::Failed | CheckStatus::OverBudget => {
            text.push_str(&format!("<failure message=\"{message}\"/>"));
        }
        CheckStatus::Undecided => text.push_str(&format!("<error message=\"{message}\"/>")),
    }
    text.push_str("</testcase>\n");
}

/// An item: the class is the metric.
fn item_case(text: &mut String, item: &GateItemCheck) {
    let (class, name) = (escaped(&item.metric), escaped(&item.item_id));
    let message = escaped(&item.message);
    text.push_str(&format!("    <testcase classname=\"{class}\" name=\"{name}\">"));
    text.push_str(&match item.status {
        CheckStatus::Passed => format!("<system-out>{message}</system-out>"),
        CheckStatus::Undecided => format!("<skipped message=\"{message}\"/>"),
        CheckStatus::Failed | CheckStatus::OverBudget => {
            format!("<failure message=\"{message}\"/>")
        }
    });
    text.push_str("</testcase>\n");
}

/// Text of an element or an attribute; characters that XML does not allow become U+FFFD.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' | '\r' => escaped.push(' '),
            c if c.is_control() || c == '\u{FFFE}' || c == '\u{FFFF}' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}
