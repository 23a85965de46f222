//! Binary OTLP: `ExportTraceServiceRequest` and `ExportLogsServiceRequest`.
//!
//! Field numbers are those of `opentelemetry/proto/{trace,logs,common,resource}/v1`. A message is walked
//! once for what describes its members and once for these, because fields may come in any order; only one
//! span or record is held decoded.

use std::borrow::Cow;

use crate::DecodeError;
use crate::json::base64_of;
use crate::limits::{Limits, MAX_DEPTH};
use crate::logs::LogMapper;
use crate::mapping::{Resource, SpanMapper};
use crate::model::{
    Attributed, Event, Id, Link, LogRecord, Pairs, Scope, Span, Value, ValueBudget, check_ids,
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

pub(crate) fn traces(bytes: &[u8], mapper: &mut SpanMapper<'_>) -> Result<()> {
    fields!(bytes,
        1 => resource_spans(field.bytes(), mapper)? => |field|,
    );
    Ok(())
}

fn resource_spans(bytes: &[u8], mapper: &mut SpanMapper<'_>) -> Result<()> {
    mapper.ledger.begin_resource()?;
    let limits = mapper.limits();
    let mut attributes = Attributed::default();
    let mut budget = ValueBudget::new(limits.max_values);
    fields!(bytes,
        1 => {
            mapper.ledger.describe_resource(field.bytes().len())?;
            fields!(field.bytes(),
                1 => attributes.add(&mut budget, limits, |budget| key_value(field, 0, budget))? => |field|,
            );
        } => |field|,
    );
    let mut resource = Resource::new(&attributes.pairs, limits);
    fields!(bytes,
        2 => scope_spans(field.bytes(), &mut resource, mapper)? => |field|,
    );
    Ok(())
}

fn scope_spans(
    bytes: &[u8],
    resource: &mut Resource<'_>,
    mapper: &mut SpanMapper<'_>,
) -> Result<()> {
    mapper.ledger.begin_scope()?;
    let mut found = Scope::default();
    let mut budget = ValueBudget::new(mapper.limits().max_values);
    fields!(bytes,
        1 => {
            mapper.ledger.describe_scope(field.bytes().len())?;
            scope(field.bytes(), &mut found, &mut budget, mapper.limits())?;
        } => |field|,
    );
    resource.enter(&found, mapper.limits());
    fields!(bytes,
        2 => mapper.span(resource, &found, field.bytes().len(), |budget, limits| {
            span(field.bytes(), budget, limits)
        })? => |field|,
    );
    Ok(())
}

fn scope<'a>(
    bytes: &'a [u8],
    scope: &mut Scope<'a>,
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Result<()> {
    fields!(bytes,
        1 => scope.name = field.text() => |field|,
        2 => scope.version = field.text() => |field|,
        3 => scope.attributes.add(budget, limits, |budget| key_value(field, 0, budget))? => |field|,
    );
    Ok(())
}

/// A span, or the reason of its rejection; nothing of a rejected span is kept.
fn span<'a>(
    bytes: &'a [u8],
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Result<std::result::Result<Span<'a>, &'static str>> {
    let mut span = Span::default();
    fields!(bytes,
        1 => span.trace_id = Id::from_bytes(field.bytes()) => |field|,
        2 => span.span_id = Id::from_bytes(field.bytes()) => |field|,
        4 => span.parent_id = Id::from_bytes(field.bytes()) => |field|,
    );
    if let Err(reason) = check_ids(span.trace_id, span.span_id, span.parent_id) {
        return Ok(Err(reason));
    }
    fields!(bytes,
        5 => span.name = field.text() => |field|,
        7 => span.start_nanos = field.number() => |field|,
        8 => span.end_nanos = field.number() => |field|,
        9 => span.attributes.add(budget, limits, |budget| key_value(field, 0, budget))? => |field|,
        10 => span.n_dropped_attributes = field.count() => |field|,
        11 => {
            let name = name_of_event(field.bytes())?;
            span.add_event(&name, limits, || event(field.bytes(), budget, limits))?;
        } => |field|,
        12 => span.n_dropped_events = field.count() => |field|,
        13 => span.add_link(limits, || link(field.bytes(), budget, limits))? => |field|,
        14 => span.n_dropped_links = field.count() => |field|,
        15 => status(field.bytes(), &mut span)? => |field|,
    );
    Ok(Ok(span))
}

fn status<'a>(bytes: &'a [u8], span: &mut Span<'a>) -> Result<()> {
    fields!(bytes,
        2 => span.status_message = field.text() => |field|,
        3 => span.status_code = i64::from(field.count()) => |field|,
    );
    Ok(())
}

fn name_of_event(bytes: &[u8]) -> Result<Cow<'_, str>> {
    let mut name = Cow::Borrowed("");
    fields!(bytes,
        2 => name = field.text() => |field|,
    );
    Ok(name)
}

fn event<'a>(bytes: &'a [u8], budget: &mut ValueBudget, limits: &Limits) -> Result<Event<'a>> {
    let mut event = Event::default();
    fields!(bytes,
        1 => event.time_nanos = field.number() => |field|,
        2 => event.name = field.text() => |field|,
        3 => event.attributes.add(budget, limits, |budget| key_value(field, 0, budget))? => |field|,
    );
    Ok(event)
}

fn link<'a>(bytes: &'a [u8], budget: &mut ValueBudget, limits: &Limits) -> Result<Link<'a>> {
    let mut link = Link::default();
    fields!(bytes,
        1 => link.trace_id = Id::from_bytes(field.bytes()) => |field|,
        2 => link.span_id = Id::from_bytes(field.bytes()) => |field|,
        4 => link.attributes.add(budget, limits, |budget| key_value(field, 0, budget))? => |field|,
    );
    Ok(link)
}

pub(crate) fn logs(bytes: &[u8], mapper: &mut LogMapper<'_>) -> Result<()> {
    fields!(bytes,
        1 => resource_logs(field.bytes(), mapper)? => |field|,
    );
    Ok(())
}

fn resource_logs(bytes: &[u8], mapper: &mut LogMapper<'_>) -> Result<()> {
    mapper.ledger.begin_resource()?;
    let limits = mapper.limits();
    let mut attributes = Attributed::default();
    let mut budget = ValueBudget::new(limits.max_values);
    fields!(bytes,
        1 => {
            mapper.ledger.describe_resource(field.bytes().len())?;
            fields!(field.bytes(),
                1 => attributes.add(&mut budget, limits, |budget| key_value(field, 0, budget))? => |field|,
            );
        } => |field|,
    );
    let resource = Resource::new(&attributes.pairs, limits);
    fields!(bytes,
        2 => {
            mapper.ledger.begin_scope()?;
            fields!(field.bytes(),
                2 => mapper.record(&resource, field.bytes().len(), |budget, limits| {
                    log_record(field.bytes(), budget, limits)
                })? => |field|,
            );
        } => |field|,
    );
    Ok(())
}

/// A record; `None` without a span id.
fn log_record<'a>(
    bytes: &'a [u8],
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Result<Option<LogRecord<'a>>> {
    let mut record = LogRecord::default();
    fields!(bytes,
        9 => record.trace_id = Id::from_bytes(field.bytes()) => |field|,
        10 => record.span_id = Id::from_bytes(field.bytes()) => |field|,
    );
    if check_ids(record.trace_id, record.span_id, Id::Absent).is_err() {
        return Ok(None);
    }
    fields!(bytes,
        1 => record.time_nanos = field.number() => |field|,
        5 => record.body = budget.whole(|budget| any_value(field.bytes(), 0, budget))? => |field|,
        6 => record.attributes.add(budget, limits, |budget| key_value(field, 0, budget))? => |field|,
        11 => record.observed_nanos = field.number() => |field|,
        12 => record.event_name = field.text() => |field|,
    );
    Ok(Some(record))
}

fn key_value<'a>(
    field: Field<'a>,
    depth: usize,
    budget: &mut ValueBudget,
) -> Result<(Cow<'a, str>, Value<'a>)> {
    let mut key = Cow::Borrowed("");
    let mut value = Value::Absent;
    fields!(field.bytes(),
        1 => key = field.text() => |field|,
        2 => value = any_value(field.bytes(), depth, budget)? => |field|,
    );
    Ok((key, value))
}

fn any_value<'a>(bytes: &'a [u8], depth: usize, budget: &mut ValueBudget) -> Result<Value<'a>> {
    let mut value = Value::Absent;
    fields!(bytes,
        1 => value = budget.text(field.text()) => |field|,
        2 => value = Value::Bool(field.number() != 0) => |field|,
        3 => value = Value::Int(field.number().cast_signed()) => |field|,
        4 => value = double(f64::from_bits(field.number())) => |field|,
        5 | 6 if depth >= MAX_DEPTH => value = Value::Absent => |_field|,
        5 => value = Value::Array(array(field.bytes(), depth + 1, budget)?) => |field|,
        6 => value = Value::Map(pairs(field.bytes(), depth + 1, budget)?) => |field|,
        7 => value = Value::Text(Cow::Owned(base64_of(field.bytes()))) => |field|,
    );
    Ok(value)
}

fn array<'a>(bytes: &'a [u8], depth: usize, budget: &mut ValueBudget) -> Result<Vec<Value<'a>>> {
    let mut items = Vec::new();
    fields!(bytes,
        1 if budget.take(1) => items.push(any_value(field.bytes(), depth, budget)?) => |field|,
    );
    Ok(items)
}

fn pairs<'a>(bytes: &'a [u8], depth: usize, budget: &mut ValueBudget) -> Result<Pairs<'a>> {
    let mut pairs = Pairs::new();
    fields!(bytes,
        1 if budget.take(1) => pairs.push(key_value(field, depth, budget)?) => |field|,
    );
    Ok(pairs)
}

/// A finite number, or the usual text for infinities and NaN.
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
