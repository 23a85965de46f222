//! OTLP/JSON, leniently (otlp.md 2.2): ids in hex or base64, numbers as text or numbers, enums by name,
//! unknown fields ignored, and shape errors that cost one span, not the request (6.1).

use std::borrow::Cow;

use crate::DecodeError;
use crate::decode_protobuf::double;
use crate::json::{Node, base64_of, from_base64, parse_body};
use crate::limits::MAX_DEPTH;
use crate::model::{
    Event, Id, Link, LogRecord, LogsRequest, Pairs, Request, ResourceLogs, ResourceSpans, Scope,
    ScopeSpans, Span, Value,
};

pub(crate) const NO_TRACES: &str = "this endpoint takes traces, but the body holds logs or metrics";
const SPANS_NOT_AN_ARRAY: &str = "spans is not an array";

pub(crate) fn traces(bytes: &[u8]) -> Result<Request<'_>, DecodeError> {
    let Some(mut body) = top_level(bytes)? else {
        return Ok(Request::default());
    };
    if (body.has("resourceLogs") || body.has("resourceMetrics")) && !body.has("resourceSpans") {
        return Err(DecodeError::Shape(NO_TRACES));
    }
    let mut request = Request {
        has_wrong_case: body.has("resource_spans") && !body.has("resourceSpans"),
        ..Request::default()
    };
    match body.list("resourceSpans") {
        Ok(resources) => request.resources = resources.into_iter().map(resource_spans).collect(),
        Err(NotAnArray) => return Err(DecodeError::Shape("resourceSpans is not an array")),
    }
    Ok(request)
}

pub(crate) fn logs(bytes: &[u8]) -> Result<LogsRequest<'_>, DecodeError> {
    let Some(mut body) = top_level(bytes)? else {
        return Ok(LogsRequest::default());
    };
    match body.list("resourceLogs") {
        Ok(resources) => Ok(LogsRequest {
            resources: resources.into_iter().map(resource_logs).collect(),
        }),
        Err(NotAnArray) => Err(DecodeError::Shape("resourceLogs is not an array")),
    }
}

pub(crate) fn check(bytes: &[u8]) -> Result<(), DecodeError> {
    top_level(bytes).map(|_| ())
}

/// The members of the body; none for an empty body, which is an empty request.
fn top_level(bytes: &[u8]) -> Result<Option<Members<'_>>, DecodeError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    match parse_body(bytes)? {
        Node::Object(members) => Ok(Some(Members(members))),
        _ => Err(DecodeError::Shape("the top level is not an object")),
    }
}

struct NotAnArray;

/// The members of an object, taken out one by one so that texts move instead of being copied.
struct Members<'a>(Vec<(Cow<'a, str>, Node<'a>)>);

impl<'a> Members<'a> {
    fn of(node: Node<'a>) -> Option<Self> {
        match node {
            Node::Object(members) => Some(Self(members)),
            _ => None,
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Takes the last member of that name; null counts as absent.
    fn take(&mut self, name: &str) -> Option<Node<'a>> {
        let at = self.0.iter().rposition(|(key, _)| key == name)?;
        let node = std::mem::replace(&mut self.0[at].1, Node::Null);
        (node != Node::Null).then_some(node)
    }

    fn object(&mut self, name: &str) -> Self {
        self.take(name)
            .and_then(Self::of)
            .unwrap_or(Self(Vec::new()))
    }

    fn list(&mut self, name: &str) -> Result<Vec<Node<'a>>, NotAnArray> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Node::Array(items)) => Ok(items),
            Some(_) => Err(NotAnArray),
        }
    }

    fn text(&mut self, name: &str) -> Cow<'a, str> {
        match self.take(name) {
            Some(Node::Text(text)) => text,
            Some(Node::Number(text)) => Cow::Borrowed(text),
            _ => Cow::Borrowed(""),
        }
    }

    fn unsigned(&mut self, name: &str) -> u64 {
        self.take(name).map_or(0, |node| unsigned(&node))
    }

    fn count(&mut self, name: &str) -> u32 {
        u32::try_from(self.unsigned(name)).unwrap_or(u32::MAX)
    }

    fn id<const N: usize>(&mut self, name: &str) -> Id<N> {
        match self.take(name) {
            None => Id::Absent,
            Some(Node::Text(text)) => id(&text),
            Some(_) => Id::Malformed,
        }
    }

    fn attributes(&mut self, name: &str) -> Result<Pairs<'a>, NotAnArray> {
        Ok(pairs(self.list(name)?, 0))
    }
}

/// Hex of any case, else base64 of the right length.
fn id<const N: usize>(text: &str) -> Id<N> {
    let text = text.trim();
    if text.is_empty() {
        return Id::Absent;
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    if text.len() == 2 * N {
        let bytes: Option<Vec<u8>> = text
            .as_bytes()
            .chunks_exact(2)
            .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
            .collect();
        if let Some(bytes) = bytes {
            return Id::from_bytes(&bytes);
        }
    }
    match from_base64(text) {
        Some(bytes) if bytes.len() == N => Id::from_bytes(&bytes),
        _ => Id::Malformed,
    }
}

/// Whole numbers as text or number; also with a fraction or exponent, cut.
fn unsigned(node: &Node<'_>) -> u64 {
    let text = match node {
        Node::Number(text) => text,
        Node::Text(text) => text.trim(),
        _ => return 0,
    };
    text.parse::<u64>()
        .or_else(|_| text.parse::<f64>().map(|value| value as u64))
        .unwrap_or(0)
}

fn signed(node: &Node<'_>) -> Option<i64> {
    let text = match node {
        Node::Number(text) => text,
        Node::Text(text) => text.trim(),
        _ => return None,
    };
    let whole = |value: f64| {
        let is_whole = value.is_finite() && value.fract() == 0.0 && value.abs() < 9.3e18;
        is_whole.then_some(value as i64)
    };
    text.parse::<i64>()
        .ok()
        .or_else(|| text.parse::<f64>().ok().and_then(whole))
}

fn resource_spans(node: Node<'_>) -> ResourceSpans<'_> {
    let mut result = ResourceSpans::default();
    let Some(mut members) = Members::of(node) else {
        return result;
    };
    let attributes = members.object("resource").attributes("attributes");
    let is_sound = attributes.is_ok();
    result.attributes = attributes.unwrap_or_default();
    match members.list("scopeSpans") {
        Ok(scopes) => {
            result.scopes = scopes
                .into_iter()
                .map(|scope| scope_spans(scope, is_sound))
                .collect();
        }
        Err(NotAnArray) => result
            .scopes
            .push(one_rejected(Scope::default(), "scopeSpans is not an array")),
    }
    result
}

/// Spans that cannot even be counted stand as one rejected span.
fn one_rejected<'a>(scope: Scope<'a>, reason: &'static str) -> ScopeSpans<'a> {
    ScopeSpans {
        scope,
        spans: vec![Err(reason)],
    }
}

fn scope_spans(node: Node<'_>, is_resource_sound: bool) -> ScopeSpans<'_> {
    let Some(mut members) = Members::of(node) else {
        return ScopeSpans::default();
    };
    let mut scope = members.object("scope");
    let attributes = scope.attributes("attributes");
    let is_scope_sound = attributes.is_ok();
    let scope = Scope {
        name: scope.text("name"),
        version: scope.text("version"),
        attributes: attributes.unwrap_or_default(),
    };
    let Ok(spans) = members.list("spans") else {
        return one_rejected(scope, SPANS_NOT_AN_ARRAY);
    };
    let spans = spans
        .into_iter()
        .map(|node| {
            if !is_resource_sound {
                Err("the resource's attributes are not an array")
            } else if !is_scope_sound {
                Err("the scope's attributes are not an array")
            } else {
                span(node)
            }
        })
        .collect();
    ScopeSpans { scope, spans }
}

fn span(node: Node<'_>) -> Result<Span<'_>, &'static str> {
    let mut members = Members::of(node).ok_or("the span is not an object")?;
    let mut status = members.object("status");
    let events = members
        .list("events")
        .map_err(|NotAnArray| "the span's events are not an array")?;
    let links = members
        .list("links")
        .map_err(|NotAnArray| "the span's links are not an array")?;
    Ok(Span {
        trace_id: members.id("traceId"),
        span_id: members.id("spanId"),
        parent_id: members.id("parentSpanId"),
        name: members.text("name"),
        start_nanos: members.unsigned("startTimeUnixNano"),
        end_nanos: members.unsigned("endTimeUnixNano"),
        attributes: members
            .attributes("attributes")
            .map_err(|NotAnArray| "the span's attributes are not an array")?,
        n_dropped_attributes: members.count("droppedAttributesCount"),
        events: events
            .into_iter()
            .filter_map(Members::of)
            .map(event)
            .collect::<Result<_, _>>()?,
        n_dropped_events: members.count("droppedEventsCount"),
        links: links
            .into_iter()
            .filter_map(Members::of)
            .map(link)
            .collect(),
        n_dropped_links: members.count("droppedLinksCount"),
        status_code: match status.take("code") {
            Some(Node::Text(name)) if name == "STATUS_CODE_ERROR" => 2,
            Some(Node::Text(name)) if name == "STATUS_CODE_OK" => 1,
            Some(node) => signed(&node).unwrap_or(0),
            None => 0,
        },
        status_message: status.text("message"),
    })
}

fn event(mut members: Members<'_>) -> Result<Event<'_>, &'static str> {
    Ok(Event {
        time_nanos: members.unsigned("timeUnixNano"),
        name: members.text("name"),
        attributes: members
            .attributes("attributes")
            .map_err(|NotAnArray| "an event's attributes are not an array")?,
    })
}

fn link(mut members: Members<'_>) -> Link<'_> {
    Link {
        trace_id: members.id("traceId"),
        span_id: members.id("spanId"),
        attributes: members.attributes("attributes").unwrap_or_default(),
    }
}

fn resource_logs(node: Node<'_>) -> ResourceLogs<'_> {
    let mut result = ResourceLogs::default();
    let Some(mut members) = Members::of(node) else {
        return result;
    };
    result.attributes = members
        .object("resource")
        .attributes("attributes")
        .unwrap_or_default();
    let scopes = members.list("scopeLogs").unwrap_or_default();
    for mut scope in scopes.into_iter().filter_map(Members::of) {
        let records = scope.list("logRecords").unwrap_or_default();
        result
            .records
            .extend(records.into_iter().filter_map(Members::of).map(log_record));
    }
    result
}

fn log_record(mut members: Members<'_>) -> LogRecord<'_> {
    LogRecord {
        trace_id: members.id("traceId"),
        span_id: members.id("spanId"),
        time_nanos: members.unsigned("timeUnixNano"),
        observed_nanos: members.unsigned("observedTimeUnixNano"),
        event_name: members.text("eventName"),
        body: members.take("body").map(|body| any_value(body, 0)),
        attributes: members.attributes("attributes").unwrap_or_default(),
    }
}

fn pairs(nodes: Vec<Node<'_>>, depth: usize) -> Pairs<'_> {
    nodes
        .into_iter()
        .filter_map(Members::of)
        .map(|mut pair| {
            let value = pair.take("value");
            (
                pair.text("key"),
                value.map_or(Value::Absent, |value| any_value(value, depth)),
            )
        })
        .collect()
}

fn any_value(node: Node<'_>, depth: usize) -> Value<'_> {
    let Some(mut members) = Members::of(node) else {
        return Value::Absent;
    };
    let kinds = [
        "stringValue",
        "boolValue",
        "intValue",
        "doubleValue",
        "arrayValue",
        "kvlistValue",
        "bytesValue",
    ];
    let found = kinds
        .into_iter()
        .find_map(|kind| Some((kind, members.take(kind)?)));
    match found {
        Some(("stringValue", Node::Text(text))) => Value::Text(text),
        Some(("boolValue", Node::Bool(value))) => Value::Bool(value),
        Some(("boolValue", Node::Text(text))) => match text.as_ref() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::Absent,
        },
        Some(("intValue", node)) => signed(&node).map_or(Value::Absent, Value::Int),
        Some(("doubleValue", Node::Number(text))) => text.parse().map_or(Value::Absent, double),
        Some(("doubleValue", Node::Text(text))) => {
            text.trim().parse().map_or(Value::Absent, double)
        }
        Some(("arrayValue" | "kvlistValue", _)) if depth >= MAX_DEPTH => Value::Absent,
        Some(("arrayValue", node)) => Value::Array(
            values_of(node)
                .into_iter()
                .map(|item| any_value(item, depth + 1))
                .collect(),
        ),
        Some(("kvlistValue", node)) => Value::Map(pairs(values_of(node), depth + 1)),
        Some(("bytesValue", Node::Text(text))) => match from_base64(&text) {
            Some(bytes) => Value::Text(Cow::Owned(base64_of(&bytes))),
            None => Value::Text(text),
        },
        _ => Value::Absent,
    }
}

fn values_of(node: Node<'_>) -> Vec<Node<'_>> {
    Members::of(node)
        .and_then(|mut members| members.list("values").ok())
        .unwrap_or_default()
}
