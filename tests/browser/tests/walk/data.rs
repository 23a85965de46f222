//! What tests send to the server of their own: spans as OTLP has them in JSON.

use serde_json::{Value, json};

/// When the traces of tests began, in nanoseconds.
const BEGUN: u64 = 1_770_000_000_000_000_000;

/// The id of a trace of tests, from a number that no other test uses.
pub(crate) fn trace_id(number: u64) -> String {
    perpend_it::trace_id(number)
}

/// The id of its `n`-th span.
pub(crate) fn span_id(n: u64) -> String {
    format!("{n:016x}")
}

/// The `n`-th span of a trace; it begins `n` milliseconds after the trace.
pub(crate) fn span(
    trace: &str,
    n: u64,
    parent: Option<u64>,
    name: &str,
    attributes: &[(&str, &str)],
) -> Value {
    let attributes: Vec<Value> = attributes
        .iter()
        .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
        .collect();
    json!({
        "traceId": trace,
        "spanId": span_id(n),
        "parentSpanId": parent.map(span_id).unwrap_or_default(),
        "name": name,
        "startTimeUnixNano": (BEGUN + n * 1_000_000).to_string(),
        "endTimeUnixNano": (BEGUN + n * 1_000_000 + 900_000).to_string(),
        "attributes": attributes,
    })
}

/// Attributes of an observation with this input and output.
pub(crate) fn said<'a>(input: &'a str, output: &'a str) -> [(&'a str, &'a str); 2] {
    [
        ("perpend.observation.input", input),
        ("perpend.observation.output", output),
    ]
}

/// So many traces of one span each, with this name and user.
pub(crate) fn many(first: u64, n: u64, name: &str, user: &str) -> Vec<Value> {
    let one = |number: u64| {
        let mut span = span(&trace_id(number), 1, None, name, &[("user.id", user)]);
        let begun = BEGUN + number * 1_000_000_000;
        span["startTimeUnixNano"] = begun.to_string().into();
        span["endTimeUnixNano"] = (begun + 1_000_000 * (1 + number % 7)).to_string().into();
        span
    };
    (first..first + n).map(one).collect()
}
