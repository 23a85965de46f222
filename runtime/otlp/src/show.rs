//! The tree a payload becomes, for people and for programs.

use assay_domain::observation::Observation;
use assay_domain::trace::Trace;
use serde_json::Value;

/// Renders the observations of the traces as trees, aligned, with ANSI colours on request.
#[must_use]
pub fn tree(observations: &[Observation], traces: &[Trace], colour: bool) -> String {
    let _ = (observations, traces, colour);
    String::new()
}

/// The same as a value with the field names of the mapping fixtures.
#[must_use]
pub fn json(observations: &[Observation], traces: &[Trace]) -> Value {
    let _ = (observations, traces);
    Value::Null
}
