//! The one form that both encodings are decoded into. It borrows from the body where it can.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use crate::consumed::is_consumed;
use crate::json;
use crate::limits::{Limits, MAX_CONTENT_EVENTS};

/// An attribute value, with what JSON cannot hold already repaired (otlp.md 2.2): not-a-number and the
/// infinities are text, bytes are base64.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// No value, or one of an unknown kind.
    Absent,
    Text(Cow<'a, str>),
    /// Text that is not read as JSON: a tree of it would be too large.
    Plain(Cow<'a, str>),
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
            Self::Text(text) | Self::Plain(text) => !text.is_empty(),
            Self::Array(items) => !items.is_empty(),
            Self::Map(members) => !members.is_empty(),
            Self::Bool(_) | Self::Int(_) | Self::Double(_) => true,
        }
    }

    /// The text, when it is text.
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Plain(text) => Some(text),
            _ => None,
        }
    }

    /// The same as plain JSON, nothing parsed.
    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Absent => Json::Null,
            Self::Text(text) | Self::Plain(text) => Json::String(text.as_ref().to_owned()),
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

/// The remaining values of a span: see [`crate::Limits::max_values`].
#[derive(Debug)]
pub(crate) struct ValueBudget {
    n_left: usize,
    is_over: bool,
    n_grown: usize,
}

impl ValueBudget {
    pub(crate) const fn new(n_values: usize) -> Self {
        Self { n_left: n_values, is_over: false, n_grown: 0 }
    }

    /// Takes values from the budget; if it returns `false`, the data being read must be dropped.
    pub(crate) fn take(&mut self, n_values: usize) -> bool {
        match self.n_left.checked_sub(n_values) {
            Some(n_left) => self.n_left = n_left,
            None => self.is_over = true,
        }
        !self.is_over
    }

    /// Reads a value as a whole; `None`, and nothing taken, if the budget is too small.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn whole<T, E>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let n_left = self.n_left;
        let found = read(self)?;
        if self.is_over {
            (self.n_left, self.is_over) = (n_left, false);
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// The number of values used of `n_values`.
    pub(crate) const fn n_taken(&self, n_values: usize) -> usize {
        n_values.saturating_sub(self.n_left)
    }

    /// Bytes by which the texts that were read become longer than they were sent, when they are written as JSON.
    pub(crate) const fn n_grown(&self) -> usize {
        self.n_grown
    }

    /// Text as a value. JSON in it is charged as the tree that rules may build of it; if the budget is too small for the tree,
    /// it is plain text.
    pub(crate) fn text<'a>(&mut self, text: Cow<'a, str>) -> Value<'a> {
        self.n_grown += crate::wire::n_grown(&text);
        if !json::looks_structured(&text) {
            return Value::Text(text);
        }
        match self.n_left.checked_sub(json::n_values(&text)) {
            Some(n_left) => {
                self.n_left = n_left;
                Value::Text(text)
            }
            None => Value::Plain(text),
        }
    }
}

/// Attributes within the limits, and how many more were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributed<'a> {
    pub(crate) pairs: Pairs<'a>,
    pub(crate) n_over: u32,
}

impl<'a> Attributed<'a> {
    /// Reads one more, whole or not at all.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn add<E>(
        &mut self,
        budget: &mut ValueBudget,
        limits: &Limits,
        read: impl FnOnce(&mut ValueBudget) -> Result<(Cow<'a, str>, Value<'a>), E>,
    ) -> Result<(), E> {
        if self.pairs.len() < limits.max_attributes {
            let pair = budget.whole(|budget| {
                let pair = read(budget)?;
                // Flattened keys become a level of a tree with each dot, larger than a value.
                budget.take(1 + 2 * pair.0.bytes().filter(|byte| *byte == b'.').count());
                Ok(pair)
            })?;
            if let Some(pair) = pair {
                self.pairs.push(pair);
                return Ok(());
            }
        }
        self.n_over = self.n_over.saturating_add(1);
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scope<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) version: Cow<'a, str>,
    pub(crate) attributes: Attributed<'a>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Span<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) parent_id: Id<8>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) start_nanos: u64,
    pub(crate) end_nanos: u64,
    pub(crate) attributes: Attributed<'a>,
    pub(crate) n_dropped_attributes: u32,
    pub(crate) events: Vec<Event<'a>>,
    pub(crate) n_content_events: usize,
    pub(crate) n_plain_events: usize,
    /// Events beyond the limit.
    pub(crate) n_over_events: u32,
    pub(crate) n_dropped_events: u32,
    pub(crate) links: Vec<Link<'a>>,
    /// Links beyond the limit.
    pub(crate) n_over_links: u32,
    pub(crate) n_dropped_links: u32,
    pub(crate) status_code: i64,
    pub(crate) status_message: Cow<'a, str>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event<'a> {
    pub(crate) time_nanos: u64,
    pub(crate) name: Cow<'a, str>,
    pub(crate) attributes: Attributed<'a>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Link<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) attributes: Attributed<'a>,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct LogRecord<'a> {
    pub(crate) trace_id: Id<16>,
    pub(crate) span_id: Id<8>,
    pub(crate) time_nanos: u64,
    pub(crate) observed_nanos: u64,
    pub(crate) event_name: Cow<'a, str>,
    pub(crate) body: Option<Value<'a>>,
    pub(crate) attributes: Attributed<'a>,
}

impl<'a> Span<'a> {
    /// Reads another event if it is within the limits.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn add_event<E>(
        &mut self,
        name: &str,
        limits: &Limits,
        read: impl FnOnce() -> Result<Event<'a>, E>,
    ) -> Result<(), E> {
        let (n_alike, max_events) = match is_consumed(name) {
            true => (&mut self.n_content_events, MAX_CONTENT_EVENTS),
            false => (&mut self.n_plain_events, limits.max_events),
        };
        if *n_alike < max_events {
            *n_alike += 1;
            self.events.push(read()?);
        } else {
            self.n_over_events = self.n_over_events.saturating_add(1);
        }
        Ok(())
    }

    /// Reads another link if it is within the limits.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn add_link<E>(
        &mut self,
        limits: &Limits,
        read: impl FnOnce() -> Result<Link<'a>, E>,
    ) -> Result<(), E> {
        if self.links.len() < limits.max_links {
            self.links.push(read()?);
        } else {
            self.n_over_links = self.n_over_links.saturating_add(1);
        }
        Ok(())
    }
}

/// An id as it was sent: absent, right, or of the wrong length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Id<const N: usize> {
    #[default]
    Absent,
    Bytes([u8; N]),
    Malformed,
}

/// Whether a span with these ids can be stored (otlp.md 6.1). Nothing else of one that cannot is read.
///
/// # Errors
/// Validates the ids of a span; the error states the reason.
pub(crate) fn check_ids(trace: Id<16>, span: Id<8>, parent: Id<8>) -> Result<(), &'static str> {
    if parent == Id::Malformed {
        return Err("the parent span id is not 8 bytes");
    }
    if !matches!(trace, Id::Bytes(_)) {
        return Err("the trace id is missing, zero or not 16 bytes");
    }
    match span {
        Id::Bytes(_) => Ok(()),
        _ => Err("the span id is missing, zero or not 8 bytes"),
    }
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
