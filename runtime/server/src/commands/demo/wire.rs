//! OTLP messages of the demo.

use axum::http::Method;
pub(super) use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub(super) use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
pub(super) use opentelemetry_proto::tonic::resource::v1::Resource;
pub(super) use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;

use crate::client::Client;

pub(super) const OTLP_PATH: &str = "/api/public/otel/v1/traces";

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

/// Sends the requests sequentially.
pub(super) async fn send(
    client: &Client,
    requests: impl IntoIterator<Item = ExportTraceServiceRequest>,
) -> anyhow::Result<()> {
    for request in requests {
        let headers = [("content-type", "application/x-protobuf")];
        let answer =
            client.send(Method::POST, OTLP_PATH, &headers, request.encode_to_vec()).await?;
        anyhow::ensure!(answer.status.is_success(), "OTLP: {} {}", answer.status, answer.text());
    }
    Ok(())
}
