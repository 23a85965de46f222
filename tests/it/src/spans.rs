//! Traces for tests, as OTLP/JSON and as protobuf.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use serde_json::{Value, json};

/// 32 hex digits from a number.
#[must_use]
pub fn trace_id(number: u64) -> String {
    format!("{:032x}", u128::from(number) + 1)
}

/// A trace: a root span and its descendants.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Id.
    pub id: String,
    spans: Vec<Value>,
}

impl Trace {
    /// A trace with a root span.
    #[must_use]
    pub fn new(number: u64, name: &str) -> Self {
        Self::of_id(trace_id(number), name)
    }

    /// A trace of this id with a root span.
    #[must_use]
    pub fn of_id(id: String, name: &str) -> Self {
        let trace = Self { id, spans: Vec::new() };
        trace.span(1, None, name, &[])
    }

    /// The id of its `n`-th span, from 1.
    #[must_use]
    pub fn span_id(n: u64) -> String {
        format!("{n:016x}")
    }

    fn span(
        mut self,
        n: u64,
        parent: Option<u64>,
        name: &str,
        attributes: &[(&str, &str)],
    ) -> Self {
        let attributes: Vec<Value> = attributes
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }))
            .collect();
        self.spans.push(json!({
            "traceId": self.id,
            "spanId": Self::span_id(n),
            "parentSpanId": parent.map(Self::span_id).unwrap_or_default(),
            "name": name,
            "startTimeUnixNano": (1_770_000_000_000_000_000_u64 + n * 1_000_000).to_string(),
            "endTimeUnixNano": (1_770_000_000_000_000_000_u64 + n * 9_000_000).to_string(),
            "attributes": attributes,
        }));
        self
    }

    /// With a generation below the root.
    #[must_use]
    pub fn generation(self, name: &str, output: &str) -> Self {
        let n = self.spans.len() as u64 + 1;
        let attributes = [
            ("perpend.observation.type", "generation"),
            ("perpend.observation.input", "question"),
            ("perpend.observation.output", output),
        ];
        self.span(n, Some(1), name, &attributes)
    }

    /// With an attribute on the root.
    #[must_use]
    pub fn attribute(mut self, key: &str, text: &str) -> Self {
        let attribute = json!({ "key": key, "value": { "stringValue": text } });
        if let Some(Value::Array(attributes)) = self.spans.first_mut().map(|s| &mut s["attributes"])
        {
            attributes.push(attribute);
        }
        self
    }

    /// The export request.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "resourceSpans": [{ "scopeSpans": [{ "scope": { "name": "test" }, "spans": self.spans }] }] })
    }
}

/// An export request in protobuf with one span per pair of trace id and span id, as raw bytes: ids of a
/// wrong length make malformed spans.
#[must_use]
pub fn protobuf(ids: &[(&[u8], &[u8])]) -> Vec<u8> {
    let spans = ids.iter().map(|(trace, span)| Span {
        trace_id: trace.to_vec(),
        span_id: span.to_vec(),
        name: "step".to_owned(),
        ..Span::default()
    });
    let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}
