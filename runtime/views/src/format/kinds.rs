//! Labels of observation kinds, and counts with nouns.

use perpend_domain::observation::ObservationKind;

use crate::format::numbers::count;

/// The label of an observation kind in pages and filters.
#[must_use]
pub const fn kind_label(kind: ObservationKind) -> &'static str {
    match kind {
        ObservationKind::Span => "span",
        ObservationKind::Generation => "generation",
        ObservationKind::Event => "event",
        ObservationKind::Agent => "agent",
        ObservationKind::Tool => "tool",
        ObservationKind::Chain => "chain",
        ObservationKind::Retriever => "retriever",
        ObservationKind::Evaluator => "evaluator",
        ObservationKind::Embedding => "embedding",
        ObservationKind::Guardrail => "guardrail",
    }
}

/// A count with a noun, such as `1 score` or `1,200 scores`. `noun` is singular.
#[must_use]
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}
