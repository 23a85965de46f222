//! The one form that both encodings are decoded into. It borrows from the body where it can.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

/// An attribute value, with what JSON cannot hold already repaired (otlp.md 2.2): not-a-number and the
/// infinities are text, bytes are base64.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// No value, or one of an unknown kind.
    Absent,
    Text(Cow<'a, str>),
    Bool(bool),
    Int(i64),
    /// Always finite.
    Double(f64),
    Array(Vec<Value<'a>>),
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// Whether a rule may take it: not absent, not empty.
    pub(crate) fn is_present(&self) -> bool {
        match self {
            Self::Absent => false,
            Self::Text(text) => !text.is_empty(),
            Self::Array(items) => !items.is_empty(),
            Self::Map(members) => !members.is_empty(),
            Self::Bool(_) | Self::Int(_) | Self::Double(_) => true,
        }
    }

    /// The text, when it is text.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same as plain JSON, nothing parsed.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Absent => Json::Null,
            Self::Text(text) => Json::String(text.as_ref().to_owned()),
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Double(value) => Json::from(*value),
            Self::Array(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Map(members) => Json::Object(to_object(members)),
        }
    }
}

/// Key-value pairs as a JSON object; absent values are left out, the last of equal keys wins.
pub(crate) fn to_object(members: &[(Cow<'_, str>, Value<'_>)]) -> Map<String, Json> {
    members
        .iter()
        .filter(|(_, value)| *value != Value::Absent)
        .map(|(key, value)| (key.as_ref().to_owned(), value.to_json()))
        .collect()
}

/// Attributes as they were sent.
pub(crate) type Pairs<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// A decoded trace request.
#[derive(Debug, Default, PartialEq)]
pub struct Request<'a> {
    pub(crate) resources: Vec<ResourceSpans<'a>>,
    /// The body holds `resource_spans` where OTLP/JSON wants `resourceSpans`.
    pub(crate) has_wrong_case: bool,
}

impl Request<'_> {
    /// Spans in the request, malformed ones included.
    #[must_use]
    pub fn n_spans(&self) -> usize {
        let scopes = self.resources.iter().flat_map(|resource| &resource.scopes);
        scopes.map(|scope| scope.spans.len()).sum()
    }

    /// A hint to the sender of an accepted request that holds nothing.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.has_wrong_case.then_some(
            "The field resource_spans was ignored: OTLP/JSON spells its fields in lowerCamelCase, resourceSpans.",
        )
    }
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct ResourceSpans<'a> {
    pub(crate) attributes: Pairs<'a>,
    pub(crate) scopes: Vec<ScopeSpans<'a>>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct ScopeSpans<'a> {
    pub(crate) scope: Scope<'a>,
    /// A span, or why it is rejected.
    pub(crate) spans: Vec<Result<Span<'a>, &'static str>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scope<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    pub(crate) attributes: Pairs<'a>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Span<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) parent_id: Id<8>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) start_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) attributes: Pairs<'a>,
    pub(crate) n_dropped_attributes: u32,
    pub(crate) events: Vec<Event<'a>>,
    pub(crate) n_dropped_events: u32,
    pub(crate) links: Vec<Link<'a>>,
    pub(crate) n_dropped_links: u32,
    pub(crate) status_code: i64,
    pub(crate) status_message: Cow<'a, str>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event<'a> {
    pub(crate) time_nanos: u64,
    pub(crate) name: Cow<'a, str>,
    pub(crate) attributes: Pairs<'a>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Link<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) attributes: Pairs<'a>,
}

/// A decoded log request.
#[derive(Debug, Default, PartialEq)]
pub struct LogsRequest<'a> {
    pub(crate) resources: Vec<ResourceLogs<'a>>,
}

impl LogsRequest<'_> {
    pub(crate) fn has_records(&self) -> bool {
        self.resources
            .iter()
            .any(|resource| !resource.records.is_empty())
    }
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct ResourceLogs<'a> {
    pub(crate) attributes: Pairs<'a>,
    pub(crate) records: Vec<LogRecord<'a>>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct LogRecord<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) time_nanos: u64,
    pub(crate) observed_nanos: u64,
    pub(crate) event_name: Cow<'a, str>,
    pub(crate) body: Option<Value<'a>>,
    pub(crate) attributes: Pairs<'a>,
}

/// An id as it was sent: absent, right, or of the wrong length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Id<const N: usize> {
    #[default]
    Absent,
    Bytes([u8; N]),
    Malformed,
}

impl<const N: usize> Id<N> {
    /// From raw bytes; all zero means absent.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        match <[u8; N]>::try_from(bytes) {
            Ok(id) if id == [0; N] => Self::Absent,
            Ok(id) => Self::Bytes(id),
            Err(_) if bytes.is_empty() => Self::Absent,
            Err(_) => Self::Malformed,
        }
    }

    /// Lower-case hex; none unless the id is right.
    pub(crate) fn to_hex(self) -> Option<String> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let Self::Bytes(bytes) = self else {
            return None;
        };
        let mut hex = String::with_capacity(2 * N);
        for byte in bytes {
            hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
            hex.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        Some(hex)
    }
}
