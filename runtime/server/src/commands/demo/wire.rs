//! OTLP messages of the demo.

pub(super) use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub(super) use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
pub(super) use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A string attribute.
pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// An integer attribute.
pub(super) fn int(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}
