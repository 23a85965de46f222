//! The context of a request and the report of its mapping.

use std::borrow::Cow;

use perpend_domain::time::Timestamp;

use crate::limits::{Limits, cut_bytes};
use crate::notes::Notes;
use crate::sink::MemoryExhausted;

/// The encoding of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Binary protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

/// The body is not a valid request, or exceeds a limit: nothing is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not protobuf of any message.
    #[error("the body is not a protobuf message: {0}")]
    Protobuf(&'static str),
    /// Not JSON.
    #[error("the body is not JSON: {reason} at byte {at}")]
    Json {
        /// The problem.
        reason: &'static str,
        /// The byte offset.
        at: usize,
    },
    /// JSON of another shape.
    #[error("{0}")]
    Shape(&'static str),
    /// More of something than one request may hold.
    #[error("more than {max} {what} in one request")]
    TooMany {
        /// The limited quantity.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The [`crate::Sink`] has no memory for it.
    #[error("the request needs more memory than is available")]
    Full,
}

impl From<MemoryExhausted> for DecodeError {
    fn from(MemoryExhausted: MemoryExhausted) -> Self {
        Self::Full
    }
}

/// The context of the mapping.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Arrival of the request: the time of spans without a time.
    pub arrived_at: Timestamp,
    /// `x-langfuse-sdk-name` or `x-perpend-sdk-name`.
    pub sdk_name: Option<String>,
    /// `x-langfuse-sdk-version` or `x-perpend-sdk-version`.
    pub sdk_version: Option<String>,
    /// Limits of otlp.md 6.3.
    pub limits: Limits,
    /// The request is the server's own telemetry: the reserved environment prefix stays.
    pub is_own_telemetry: bool,
}

/// The reason of a rejection or a change of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A short text with the field.
    pub text: Cow<'static, str>,
    /// Start of the name of the instrumentation scope.
    pub scope: String,
}

/// The counts of spans of a request; the spans themselves are in its [`crate::Sink`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MappingReport {
    /// Accepted spans, including those dropped as noise.
    pub n_accepted: usize,
    /// Rejected spans.
    pub n_rejected: usize,
    /// The first distinct reasons of rejections.
    pub rejections: Vec<Reason>,
    /// Spans stored with changes.
    pub n_changed: usize,
    /// The first distinct changes.
    pub changes: Vec<Reason>,
    /// A hint for the client about an accepted request without spans.
    pub hint: Option<&'static str>,
}

impl MappingReport {
    /// Most reasons of each kind.
    const MAX_REASONS: usize = 5;
    const MAX_SCOPE_BYTES: usize = 100;
    const MAX_TEXT_BYTES: usize = 160;

    pub(crate) fn reject(&mut self, reason: &'static str, scope: &str) {
        self.n_rejected += 1;
        add(&mut self.rejections, reason.into(), scope);
    }

    pub(crate) fn change(&mut self, notes: &Notes, scope: &str) {
        let mut explanations = notes.explanations().peekable();
        self.n_changed += usize::from(explanations.peek().is_some());
        for explanation in explanations.take(Self::MAX_REASONS) {
            let text = cut_bytes(&explanation, Self::MAX_TEXT_BYTES).to_owned();
            add(&mut self.changes, text.into(), scope);
        }
    }
}

fn add(reasons: &mut Vec<Reason>, text: Cow<'static, str>, scope: &str) {
    let scope = cut_bytes(scope, MappingReport::MAX_SCOPE_BYTES);
    let mut known = reasons.iter();
    let is_known = known.any(|known| known.text == text && known.scope == scope);
    if reasons.len() < MappingReport::MAX_REASONS && !is_known {
        reasons.push(Reason { text, scope: scope.to_owned() });
    }
}
