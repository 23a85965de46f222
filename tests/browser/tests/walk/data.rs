//! Spans that tests send to the shared server: OTLP as JSON.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// When the traces of tests began, in nanoseconds.
const START_NS: u64 = 1_770_000_000_000_000_000;

/// Tests run in parallel on one server: each trace has a unique number.
static N_TRACES: AtomicU64 = AtomicU64::new(0);

/// The id of a new trace, unique among all tests.
pub(crate) fn new_trace() -> String {
    perpend_it::trace_id(N_TRACES.fetch_add(1, Ordering::Relaxed))
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
        "startTimeUnixNano": (START_NS + n * 1_000_000).to_string(),
        "endTimeUnixNano": (START_NS + n * 1_000_000 + 900_000).to_string(),
        "attributes": attributes,
    })
}

/// Attributes of an observation with this input and output.
pub(crate) fn input_and_output<'a>(input: &'a str, output: &'a str) -> [(&'a str, &'a str); 2] {
    [("perpend.observation.input", input), ("perpend.observation.output", output)]
}

/// New traces of one span each, with this name and user; each starts after the previous ones.
pub(crate) fn many(n: u64, name: &str, user: &str) -> Vec<Value> {
    let first = N_TRACES.fetch_add(n, Ordering::Relaxed);
    let one = |number: u64| {
        let id = perpend_it::trace_id(number);
        let mut span = span(&id, 1, None, name, &[("user.id", user)]);
        let started = START_NS + number * 1_000_000_000;
        span["startTimeUnixNano"] = started.to_string().into();
        span["endTimeUnixNano"] = (started + 1_000_000 * (1 + number % 7)).to_string().into();
        span
    };
    (first..first + n).map(one).collect()
}
