//! Binary OTLP: `ExportTraceServiceRequest` and `ExportLogsServiceRequest`.
//!
//! Field numbers are those of `opentelemetry/proto/{trace,logs,common,resource}/v1`.

use std::borrow::Cow;

use crate::DecodeError;
use crate::json::base64_of;
use crate::limits::MAX_DEPTH;
use crate::model::{
    Event, Id, Link, LogRecord, LogsRequest, Pairs, Request, ResourceLogs, ResourceSpans, Scope,
    ScopeSpans, Span, Value,
};
use crate::wire::{Field, Fields};

type Result<T> = std::result::Result<T, DecodeError>;

/// Reads the fields of a message with `$body` per field; `?` works inside.
macro_rules! fields {
    ($bytes:expr, $($number:pat $(if $guard:expr)? => $body:expr => |$field:ident|,)*) => {{
        let mut fields = Fields::new($bytes);
        for (number, field) in fields.by_ref() {
            match number {
                $($number $(if $guard)? => { let $field = field; $body })*
                _ => {}
            }
        }
        fields.finish()?;
    }};
}

pub(crate) fn traces(bytes: &[u8]) -> Result<Request<'_>> {
    let mut request = Request::default();
    fields!(bytes,
        1 => request.resources.push(resource_spans(field.bytes())?) => |field|,
    );
    Ok(request)
}

fn resource_spans(bytes: &[u8]) -> Result<ResourceSpans<'_>> {
    let mut resource = ResourceSpans::default();
    fields!(bytes,
        1 => resource.attributes.extend(attributes_of(field, 1)?) => |field|,
        2 => resource.scopes.push(scope_spans(field.bytes())?) => |field|,
    );
    Ok(resource)
}

/// The key-value pairs with the given field number of a message that holds nothing else of use.
fn attributes_of(message: Field<'_>, number: u32) -> Result<Pairs<'_>> {
    let mut pairs = Pairs::new();
    let mut fields = Fields::new(message.bytes());
    for (found, field) in fields.by_ref() {
        if found == number {
            pairs.push(key_value(field, 0)?);
        }
    }
    fields.finish()?;
    Ok(pairs)
}

fn scope_spans(bytes: &[u8]) -> Result<ScopeSpans<'_>> {
    let mut scope_spans = ScopeSpans::default();
    fields!(bytes,
        1 => scope(field.bytes(), &mut scope_spans.scope)? => |field|,
        2 => scope_spans.spans.push(Ok(span(field.bytes())?)) => |field|,
    );
    Ok(scope_spans)
}

fn scope<'a>(bytes: &'a [u8], scope: &mut Scope<'a>) -> Result<()> {
    fields!(bytes,
        1 => scope.name = field.text() => |field|,
        2 => scope.version = field.text() => |field|,
        3 => scope.attributes.push(key_value(field, 0)?) => |field|,
    );
    Ok(())
}

fn span(bytes: &[u8]) -> Result<Span<'_>> {
    let mut span = Span {
        attributes: Vec::with_capacity(24),
        ..Span::default()
    };
    fields!(bytes,
        1 => span.trace_id = Id::from_bytes(field.bytes()) => |field|,
        2 => span.span_id = Id::from_bytes(field.bytes()) => |field|,
        4 => span.parent_id = Id::from_bytes(field.bytes()) => |field|,
        5 => span.name = field.text() => |field|,
        7 => span.start_nanos = field.number() => |field|,
        8 => span.end_nanos = field.number() => |field|,
        9 => span.attributes.push(key_value(field, 0)?) => |field|,
        10 => span.n_dropped_attributes = field.count() => |field|,
        11 => span.events.push(event(field.bytes())?) => |field|,
        12 => span.n_dropped_events = field.count() => |field|,
        13 => span.links.push(link(field.bytes())?) => |field|,
        14 => span.n_dropped_links = field.count() => |field|,
        15 => status(field.bytes(), &mut span)? => |field|,
    );
    Ok(span)
}

fn status<'a>(bytes: &'a [u8], span: &mut Span<'a>) -> Result<()> {
    fields!(bytes,
        2 => span.status_message = field.text() => |field|,
        3 => span.status_code = i64::from(field.count()) => |field|,
    );
    Ok(())
}

fn event(bytes: &[u8]) -> Result<Event<'_>> {
    let mut event = Event::default();
    fields!(bytes,
        1 => event.time_nanos = field.number() => |field|,
        2 => event.name = field.text() => |field|,
        3 => event.attributes.push(key_value(field, 0)?) => |field|,
    );
    Ok(event)
}

fn link(bytes: &[u8]) -> Result<Link<'_>> {
    let mut link = Link::default();
    fields!(bytes,
        1 => link.trace_id = Id::from_bytes(field.bytes()) => |field|,
        2 => link.span_id = Id::from_bytes(field.bytes()) => |field|,
        4 => link.attributes.push(key_value(field, 0)?) => |field|,
    );
    Ok(link)
}

pub(crate) fn logs(bytes: &[u8]) -> Result<LogsRequest<'_>> {
    let mut request = LogsRequest::default();
    fields!(bytes,
        1 => request.resources.push(resource_logs(field.bytes())?) => |field|,
    );
    Ok(request)
}

fn resource_logs(bytes: &[u8]) -> Result<ResourceLogs<'_>> {
    let mut resource = ResourceLogs::default();
    fields!(bytes,
        1 => resource.attributes.extend(attributes_of(field, 1)?) => |field|,
        2 => fields!(field.bytes(),
            2 => resource.records.push(log_record(field.bytes())?) => |field|,
        ) => |field|,
    );
    Ok(resource)
}

fn log_record(bytes: &[u8]) -> Result<LogRecord<'_>> {
    let mut record = LogRecord::default();
    fields!(bytes,
        1 => record.time_nanos = field.number() => |field|,
        5 => record.body = Some(any_value(field.bytes(), 0)?) => |field|,
        6 => record.attributes.push(key_value(field, 0)?) => |field|,
        9 => record.trace_id = Id::from_bytes(field.bytes()) => |field|,
        10 => record.span_id = Id::from_bytes(field.bytes()) => |field|,
        11 => record.observed_nanos = field.number() => |field|,
        12 => record.event_name = field.text() => |field|,
    );
    Ok(record)
}

fn key_value(field: Field<'_>, depth: usize) -> Result<(Cow<'_, str>, Value<'_>)> {
    let mut key = Cow::Borrowed("");
    let mut value = Value::Absent;
    fields!(field.bytes(),
        1 => key = field.text() => |field|,
        2 => value = any_value(field.bytes(), depth)? => |field|,
    );
    Ok((key, value))
}

fn any_value(bytes: &[u8], depth: usize) -> Result<Value<'_>> {
    let mut value = Value::Absent;
    fields!(bytes,
        1 => value = Value::Text(field.text()) => |field|,
        2 => value = Value::Bool(field.number() != 0) => |field|,
        3 => value = Value::Int(field.number().cast_signed()) => |field|,
        4 => value = double(f64::from_bits(field.number())) => |field|,
        5 | 6 if depth >= MAX_DEPTH => value = Value::Absent => |_field|,
        5 => value = Value::Array(array(field.bytes(), depth + 1)?) => |field|,
        6 => value = Value::Map(pairs(field.bytes(), depth + 1)?) => |field|,
        7 => value = Value::Text(Cow::Owned(base64_of(field.bytes()))) => |field|,
    );
    Ok(value)
}

fn array(bytes: &[u8], depth: usize) -> Result<Vec<Value<'_>>> {
    let mut items = Vec::new();
    fields!(bytes,
        1 => items.push(any_value(field.bytes(), depth)?) => |field|,
    );
    Ok(items)
}

fn pairs(bytes: &[u8], depth: usize) -> Result<Pairs<'_>> {
    let mut pairs = Pairs::new();
    fields!(bytes,
        1 => pairs.push(key_value(field, depth)?) => |field|,
    );
    Ok(pairs)
}

/// A finite number, or the text JSON writers use for what is none.
pub(crate) fn double<'a>(value: f64) -> Value<'a> {
    if value.is_finite() {
        Value::Double(value)
    } else if value.is_nan() {
        Value::Text(Cow::Borrowed("NaN"))
    } else if value > 0.0 {
        Value::Text(Cow::Borrowed("Infinity"))
    } else {
        Value::Text(Cow::Borrowed("-Infinity"))
    }
}
