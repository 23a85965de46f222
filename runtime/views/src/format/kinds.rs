//! Kinds and numbers as words.

use perpend_domain::observation::ObservationKind;

use crate::format::numbers::count;

/// As pages and filters call it.
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

/// `1 score`, `1,200 scores`
#[must_use]
pub fn plural(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}
