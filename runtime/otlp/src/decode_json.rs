//! OTLP/JSON, leniently (otlp.md 2.2): ids in hex or base64, numbers as text or numbers, enums by name,
//! unknown fields ignored, and shape errors that cost one span, not the request (6.1).
//!
//! The body is checked once and then walked in place: only one span or record is held decoded.

use std::borrow::Cow;

use crate::DecodeError;
use crate::decode_protobuf::double;
use crate::json::{Body, Elements, Raw, Reader, base64_of, from_base64};
use crate::limits::{Limits, MAX_DEPTH};
use crate::logs::LogMapper;
use crate::mapping::{Resource, SpanMapper};
use crate::model::{
    Attributed, Event, Id, Link, LogRecord, Pairs, Scope, Span, Value, ValueBudget, check_ids,
};

const NO_TRACES: &str = "this endpoint accepts traces, but the body contains logs or metrics";

pub(crate) fn traces(bytes: &[u8], mapper: &mut SpanMapper<'_>) -> Result<(), DecodeError> {
    let Some(body) = top_level(bytes)? else {
        return Ok(());
    };
    mapper.ledger.index(body.index_memory())?;
    let [spans, logs, metrics, wrong_case] = members(
        Some(body.root()),
        ["resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans"],
    );
    if (logs.is_some() || metrics.is_some()) && spans.is_none() {
        return Err(DecodeError::Shape(NO_TRACES));
    }
    if wrong_case.is_some() && spans.is_none() {
        mapper.hint_at_wrong_case();
    }
    let resources =
        list(spans).map_err(|NotAnArray| DecodeError::Shape("resourceSpans is not an array"))?;
    for resource in resources {
        resource_spans(resource, mapper)?;
    }
    Ok(())
}

pub(crate) fn logs(bytes: &[u8], mapper: &mut LogMapper<'_>) -> Result<(), DecodeError> {
    let Some(body) = top_level(bytes)? else {
        return Ok(());
    };
    mapper.ledger.index(body.index_memory())?;
    let [resources] = members(Some(body.root()), ["resourceLogs"]);
    let resources =
        list(resources).map_err(|NotAnArray| DecodeError::Shape("resourceLogs is not an array"))?;
    for resource in resources {
        resource_logs(resource, mapper)?;
    }
    Ok(())
}

pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    top_level(bytes).map(|_| ())
}

/// The body; none when it is empty, which is an empty request.
fn top_level(bytes: &[u8]) -> Result<Option<Body<'_>>, DecodeError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let body = Body::check(bytes)?;
    match body.root().is_object() {
        true => Ok(Some(body)),
        false => Err(DecodeError::Shape("the top level is not an object")),
    }
}

struct NotAnArray;

/// The members of these names; all `None` without an object.
fn members<'a, const N: usize>(object: Option<Raw<'a>>, names: [&str; N]) -> [Option<Raw<'a>>; N] {
    object.and_then(|object| object.object(names)).unwrap_or([None; N])
}

/// Null counts as absent.
fn present(value: Option<Raw<'_>>) -> Option<Raw<'_>> {
    value.filter(|value| !value.is_null())
}

fn list(value: Option<Raw<'_>>) -> Result<Elements<'_>, NotAnArray> {
    match present(value) {
        None => Ok(Elements::NONE),
        Some(value) => value.elements().ok_or(NotAnArray),
    }
}

fn text(value: Option<Raw<'_>>) -> Cow<'_, str> {
    let text = value.and_then(|value| value.text().or_else(|| value.number().map(Cow::Borrowed)));
    text.unwrap_or_default()
}

/// A number, also one that was sent as text.
fn digits(value: Raw<'_>) -> Option<Cow<'_, str>> {
    value.number().map(Cow::Borrowed).or_else(|| value.text())
}

/// Whole numbers as text or number; also with a fraction or exponent, cut.
fn unsigned(value: Option<Raw<'_>>) -> u64 {
    let Some(text) = value.and_then(digits) else {
        return 0;
    };
    let text = text.trim();
    text.parse::<u64>().or_else(|_| text.parse::<f64>().map(|value| value as u64)).unwrap_or(0)
}

fn signed(value: Raw<'_>) -> Option<i64> {
    let text = digits(value)?;
    let text = text.trim();
    let whole = |value: f64| {
        let is_whole = value.is_finite() && value.fract() == 0.0 && value.abs() < 9.3e18;
        is_whole.then_some(value as i64)
    };
    text.parse::<i64>().ok().or_else(|| text.parse::<f64>().ok().and_then(whole))
}

fn count(value: Option<Raw<'_>>) -> u32 {
    u32::try_from(unsigned(value)).unwrap_or(u32::MAX)
}

/// Hex of any case, else base64 of the right length.
fn id<const N: usize>(value: Option<Raw<'_>>) -> Id<N> {
    let Some(value) = present(value) else {
        return Id::Absent;
    };
    let Some(text) = value.text() else {
        return Id::Malformed;
    };
    let text = text.trim();
    if text.is_empty() {
        return Id::Absent;
    }
    if let Some(bytes) = from_hex(text) {
        return Id::from_bytes(&bytes as &[u8; N]);
    }
    // Padded or not, base64 of an id is shorter than its hex.
    let bytes = (text.len() <= 2 * N).then(|| from_base64(text)).flatten();
    match bytes {
        Some(bytes) if bytes.len() == N => Id::from_bytes(&bytes),
        _ => Id::Malformed,
    }
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn attributes<'a>(
    value: Option<Raw<'a>>,
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Result<Attributed<'a>, NotAnArray> {
    let mut attributes = Attributed::default();
    for pair in list(value)? {
        if pair.is_object() {
            let read = |budget: &mut ValueBudget| Ok::<_, NotAnArray>(key_value(pair, budget));
            attributes.add(budget, limits, read)?;
        }
    }
    Ok(attributes)
}

fn resource_spans(value: Raw<'_>, mapper: &mut SpanMapper<'_>) -> Result<(), DecodeError> {
    mapper.ledger.begin_resource()?;
    let [resource, scopes] = members(Some(value), ["resource", "scopeSpans"]);
    mapper.ledger.describe_resource(resource.map_or(0, Raw::len))?;
    let [found] = members(resource, ["attributes"]);
    let mut budget = ValueBudget::new(mapper.limits().max_values);
    let found = attributes(found, &mut budget, mapper.limits());
    let is_sound = found.is_ok();
    let found = found.unwrap_or_default();
    let mut resource = Resource::new(&found.pairs, mapper.limits());
    let Ok(scopes) = list(scopes) else {
        return mapper.rejected(&Scope::default(), "scopeSpans is not an array");
    };
    for scope in scopes {
        scope_spans(scope, &mut resource, is_sound, mapper)?;
    }
    Ok(())
}

fn scope_spans(
    value: Raw<'_>,
    resource: &mut Resource<'_>,
    is_resource_sound: bool,
    mapper: &mut SpanMapper<'_>,
) -> Result<(), DecodeError> {
    mapper.ledger.begin_scope()?;
    let [scope, spans] = members(Some(value), ["scope", "spans"]);
    mapper.ledger.describe_scope(scope.map_or(0, Raw::len))?;
    let [name, version, found] = members(scope, ["name", "version", "attributes"]);
    let mut budget = ValueBudget::new(mapper.limits().max_values);
    let found = attributes(found, &mut budget, mapper.limits());
    let unsound = match (is_resource_sound, found.is_ok()) {
        (false, _) => Some("the resource's attributes are not an array"),
        (_, false) => Some("the scope's attributes are not an array"),
        _ => None,
    };
    let scope =
        Scope { name: text(name), version: text(version), attributes: found.unwrap_or_default() };
    // Spans that cannot even be counted are one rejected span.
    let Ok(spans) = list(spans) else {
        return mapper.rejected(&scope, "spans is not an array");
    };
    resource.enter(&scope, mapper.limits());
    for value in spans {
        match unsound {
            Some(reason) => mapper.rejected(&scope, reason)?,
            None => mapper.span(resource, &scope, value.len(), |budget, limits| {
                Ok(span(value, budget, limits))
            })?,
        }
    }
    Ok(())
}

/// A span, or the reason of its rejection; nothing of a rejected span is kept.
fn span<'a>(
    value: Raw<'a>,
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Result<Span<'a>, &'static str> {
    let found = value.object([
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "droppedAttributesCount",
        "events",
        "droppedEventsCount",
        "links",
        "droppedLinksCount",
        "status",
    ]);
    let [
        trace_id,
        span_id,
        parent_id,
        name,
        start,
        end,
        found,
        n_dropped_attributes,
        events,
        n_dropped_events,
        links,
        n_dropped_links,
        status,
    ] = found.ok_or("the span is not an object")?;
    let (trace_id, span_id, parent_id) = (id(trace_id), id(span_id), id(parent_id));
    let events = list(events).map_err(|NotAnArray| "the span's events are not an array")?;
    let links = list(links).map_err(|NotAnArray| "the span's links are not an array")?;
    list(found).map_err(|NotAnArray| "the span's attributes are not an array")?;
    check_ids(trace_id, span_id, parent_id)?;
    let [code, message] = members(status, ["code", "message"]);
    let mut span = Span {
        trace_id,
        span_id,
        parent_id,
        name: text(name),
        start_nanos: unsigned(start),
        end_nanos: unsigned(end),
        attributes: attributes(found, budget, limits).unwrap_or_default(),
        n_dropped_attributes: count(n_dropped_attributes),
        n_dropped_events: count(n_dropped_events),
        n_dropped_links: count(n_dropped_links),
        status_code: present(code).map_or(0, status_code),
        status_message: text(message),
        ..Span::default()
    };
    for value in events {
        if let Some([time, name, found]) = value.object(["timeUnixNano", "name", "attributes"]) {
            span.add_event(&text(name), limits, || {
                event(time, name, attributes(found, budget, limits))
            })?;
        }
    }
    for value in links {
        if let Some([trace_id, span_id, found]) = value.object(["traceId", "spanId", "attributes"])
        {
            let read = || {
                Ok::<_, &'static str>(Link {
                    trace_id: id(trace_id),
                    span_id: id(span_id),
                    attributes: attributes(found, budget, limits).unwrap_or_default(),
                })
            };
            span.add_link(limits, read)?;
        }
    }
    Ok(span)
}

fn status_code(code: Raw<'_>) -> i64 {
    match code.text().as_deref() {
        Some("STATUS_CODE_ERROR") => 2,
        Some("STATUS_CODE_OK") => 1,
        _ => signed(code).unwrap_or(0),
    }
}

fn event<'a>(
    time: Option<Raw<'a>>,
    name: Option<Raw<'a>>,
    attributes: Result<Attributed<'a>, NotAnArray>,
) -> Result<Event<'a>, &'static str> {
    Ok(Event {
        time_nanos: unsigned(time),
        name: text(name),
        attributes: attributes.map_err(|NotAnArray| "an event's attributes are not an array")?,
    })
}

fn resource_logs(value: Raw<'_>, mapper: &mut LogMapper<'_>) -> Result<(), DecodeError> {
    mapper.ledger.begin_resource()?;
    let [resource, scopes] = members(Some(value), ["resource", "scopeLogs"]);
    mapper.ledger.describe_resource(resource.map_or(0, Raw::len))?;
    let [found] = members(resource, ["attributes"]);
    let mut budget = ValueBudget::new(mapper.limits().max_values);
    let found = attributes(found, &mut budget, mapper.limits()).unwrap_or_default();
    let resource = Resource::new(&found.pairs, mapper.limits());
    for scope in list(scopes).unwrap_or(Elements::NONE) {
        mapper.ledger.begin_scope()?;
        let [records] = members(Some(scope), ["logRecords"]);
        for value in list(records).unwrap_or(Elements::NONE) {
            mapper.record(&resource, value.len(), |budget, limits| {
                Ok(log_record(value, budget, limits))
            })?;
        }
    }
    Ok(())
}

/// A record; `None` without a span id.
fn log_record<'a>(
    value: Raw<'a>,
    budget: &mut ValueBudget,
    limits: &Limits,
) -> Option<LogRecord<'a>> {
    let [trace_id, span_id, time, observed, event_name, body, found] = value.object([
        "traceId",
        "spanId",
        "timeUnixNano",
        "observedTimeUnixNano",
        "eventName",
        "body",
        "attributes",
    ])?;
    let mut record =
        LogRecord { trace_id: id(trace_id), span_id: id(span_id), ..LogRecord::default() };
    check_ids(record.trace_id, record.span_id, Id::Absent).ok()?;
    record.time_nanos = unsigned(time);
    record.observed_nanos = unsigned(observed);
    record.event_name = text(event_name);
    record.body = present(body).and_then(|body| {
        let read = |budget: &mut ValueBudget| Ok::<_, NotAnArray>(any_value(body, budget));
        budget.whole(read).ok().flatten()
    });
    record.attributes = attributes(found, budget, limits).unwrap_or_default();
    Some(record)
}

fn key_value<'a>(pair: Raw<'a>, budget: &mut ValueBudget) -> (Cow<'a, str>, Value<'a>) {
    let [key, value] = members(Some(pair), ["key", "value"]);
    (text(key), value.map_or(Value::Absent, |value| any_value(value, budget)))
}

fn any_value<'a>(value: Raw<'a>, budget: &mut ValueBudget) -> Value<'a> {
    // The body was validated before, so an error cannot occur.
    value_of(&mut value.reader(), 0, budget).unwrap_or(Value::Absent)
}

/// The members of an `AnyValue`. Where several are present the first in this order counts.
const KINDS: [&str; 7] = [
    "stringValue",
    "boolValue",
    "intValue",
    "doubleValue",
    "arrayValue",
    "kvlistValue",
    "bytesValue",
];

/// Reads an `AnyValue` in one walk, however deep it is.
fn value_of<'a>(
    reader: &mut Reader<'a>,
    depth: usize,
    budget: &mut ValueBudget,
) -> Result<Value<'a>, DecodeError> {
    let mut best = (KINDS.len(), Value::Absent);
    reader.each_member(|reader, key| {
        let kind = KINDS.iter().position(|kind| *kind == key);
        let Some(kind) = kind.filter(|kind| *kind <= best.0 && !reader.is_at_null()) else {
            return reader.raw().map(|_| ());
        };
        let value = match KINDS[kind] {
            "arrayValue" if depth < MAX_DEPTH => Value::Array(items(reader, depth + 1, budget)?),
            "kvlistValue" if depth < MAX_DEPTH => Value::Map(pairs(reader, depth + 1, budget)?),
            name => scalar(name, reader.raw()?, budget).unwrap_or(Value::Absent),
        };
        best = (kind, value);
        Ok(())
    })?;
    Ok(best.1)
}

fn scalar<'a>(kind: &str, value: Raw<'a>, budget: &mut ValueBudget) -> Option<Value<'a>> {
    match kind {
        "stringValue" => Some(budget.text(value.text()?)),
        "boolValue" => truth(value).map(Value::Bool),
        "intValue" => signed(value).map(Value::Int),
        "doubleValue" => digits(value)?.trim().parse().ok().map(double),
        "bytesValue" => {
            let text = value.text()?;
            let bytes = from_base64(&text);
            Some(Value::Text(bytes.map_or(text, |bytes| base64_of(&bytes).into())))
        }
        _ => None,
    }
}

fn truth(value: Raw<'_>) -> Option<bool> {
    value.truth().or_else(|| match value.text()?.as_ref() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    })
}

/// Walks over the elements of the member `values`.
fn each_value<'a>(
    reader: &mut Reader<'a>,
    mut one: impl FnMut(&mut Reader<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    reader.each_member(|reader, key| match key.as_ref() {
        "values" => reader.each_element(&mut one),
        _ => reader.raw().map(|_| ()),
    })
}

fn items<'a>(
    reader: &mut Reader<'a>,
    depth: usize,
    budget: &mut ValueBudget,
) -> Result<Vec<Value<'a>>, DecodeError> {
    let mut items = Vec::new();
    each_value(reader, |reader| {
        match budget.take(1) {
            true => items.push(value_of(reader, depth, budget)?),
            false => drop(reader.raw()?),
        }
        Ok(())
    })?;
    Ok(items)
}

fn pairs<'a>(
    reader: &mut Reader<'a>,
    depth: usize,
    budget: &mut ValueBudget,
) -> Result<Pairs<'a>, DecodeError> {
    let mut pairs = Pairs::new();
    each_value(reader, |reader| {
        if !reader.is_at_object() || !budget.take(1) {
            return reader.raw().map(|_| ());
        }
        let (mut name, mut value) = (Cow::Borrowed(""), Value::Absent);
        reader.each_member(|reader, key| {
            match key.as_ref() {
                "key" => name = text(Some(reader.raw()?)),
                "value" => value = value_of(reader, depth, budget)?,
                _ => drop(reader.raw()?),
            }
            Ok(())
        })?;
        pairs.push((name, value));
        Ok(())
    })?;
    Ok(pairs)
}
