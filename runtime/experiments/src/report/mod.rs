//! Comparisons and gates as text, Markdown and JUnit XML.

mod junit;
mod markdown;
mod table;
mod text;

use perpend_domain::ids::TraceId;

use crate::comparison::{ConfidenceInterval, Difference, MetricComparison, MetricKind};
use crate::number::{number, signed};

pub use junit::gate_junit;
pub use markdown::{MARKER, gate_markdown};
pub use table::Table;
pub use text::{comparison_text, gate_text};

/// The addresses of pages of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    /// The address of the project without a slash at the end, such as `https://perpend.example.com/project/p`.
    pub project: String,
}

impl Links {
    /// The page of a trace.
    #[must_use]
    pub fn trace(&self, id: &TraceId) -> String {
        format!("{}/traces/{}", self.project, encoded(id.as_str()))
    }
}

/// Percent-encodes all but letters, digits, `-`, `.`, `_` and `~`.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// `-0.05 [-0.09, -0.01]`.
fn change(difference: &Difference) -> String {
    let Some(mean) = difference.mean else { return "–".to_owned() };
    match difference.interval {
        Some(interval) => format!("{} {}", signed(mean), ends(interval)),
        None => signed(mean),
    }
}

fn ends(interval: ConfidenceInterval) -> String {
    format!("[{}, {}]", signed(interval.lower), signed(interval.upper))
}

/// The name of a metric with its unit.
fn title(metric: &MetricComparison) -> String {
    match metric.kind {
        MetricKind::Score | MetricKind::Tokens => metric.name.clone(),
        MetricKind::Errors => "errors (share)".to_owned(),
        MetricKind::Latency => "latency (ms)".to_owned(),
        MetricKind::Cost => "cost (USD)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_slash_stays_within_its_part_of_the_address() {
        let links = Links { project: "http://h/project/p".to_owned() };
        let id = TraceId::new("a/b ü").unwrap();
        assert_eq!(links.trace(&id), "http://h/project/p/traces/a%2Fb%20%C3%BC");
    }
}
