//! OTLP bytes to a domain batch (otlp.md): pure, total functions.
//!
//! [`read_traces`] turns a trace request in protobuf or JSON into observations, scores and media,
//! [`read_logs`] a log request into records that [`perpend_domain::join::join_logs`] puts onto their
//! observations, and [`respond`] writes the answers. [`read_event`] reads the events of the batch API, which
//! share all rules about single fields.
//!
//! Invariants:
//! - **Total.** No input panics, recurses without bound or takes more than linear time.
//! - **Pure.** The same bytes and context give the same batch; the arrival time is an argument.
//! - **Per span.** What is wrong with one span never costs another: see [`Rejection`].
//! - **Bounded.** Only one span is held decoded, within its [`Limits`]; everything is charged to the
//!   [`Sink`] before it is held, so that memory follows from what the sink grants and not from the bytes.
//! - **Both encodings are one.** The same request in protobuf and in JSON gives the same batch.

mod attributes;
mod content;
mod decode_json;
mod decode_protobuf;
mod events;
mod facts;
mod json;
mod kind;
mod ledger;
mod limits;
mod logs;
mod mapping;
mod media;
mod messages;
mod metadata;
mod model;
pub mod respond;
mod scores;
pub mod show;
mod sink;
mod times;
mod tools;
mod usage;
mod wire;

use perpend_domain::time::Timestamp;

pub use events::{Event, EventError, read_event};
pub use limits::Limits;
pub use media::is_media_type;
pub use sink::{Full, Sink};

/// How a request body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Binary protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

/// The body is no request at all, or too large a one: nothing of it can be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not protobuf of any message.
    #[error("the body is not a protobuf message: {0}")]
    Protobuf(&'static str),
    /// Not JSON.
    #[error("the body is not JSON: {reason} at byte {at}")]
    Json {
        /// What was wrong.
        reason: &'static str,
        /// Where.
        at: usize,
    },
    /// JSON of another shape.
    #[error("{0}")]
    Shape(&'static str),
    /// More of something than one request may hold.
    #[error("more than {max} {what} in one request")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The [`Sink`] has no room for it.
    #[error("the request takes more memory than there is for it")]
    Full,
}

impl From<Full> for DecodeError {
    fn from(Full: Full) -> Self {
        Self::Full
    }
}

/// What the mapping needs to know beside the bytes.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// When the request arrived: the time of spans that carry none.
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

/// A reason why spans were not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// A few words that name the field.
    pub reason: &'static str,
    /// Start of the name of their instrumentation scope.
    pub scope: String,
}

/// What became of the spans of a request, beside what its [`Sink`] has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Spans taken, those that were dropped as noise included.
    pub n_accepted: usize,
    /// Spans left out because they are malformed.
    pub n_rejected: usize,
    /// The first few different reasons.
    pub rejections: Vec<Rejection>,
    /// For the sender of an accepted request that holds nothing.
    pub hint: Option<&'static str>,
}

impl Taken {
    /// Reasons that are kept.
    const MAX_REJECTIONS: usize = 5;
    const MAX_SCOPE_BYTES: usize = 100;

    fn reject(&mut self, reason: &'static str, scope: &str) {
        self.n_rejected += 1;
        let scope = limits::cut_bytes(scope, Self::MAX_SCOPE_BYTES);
        let mut known = self.rejections.iter();
        let is_known = known.any(|known| known.reason == reason && known.scope == scope);
        if self.rejections.len() < Self::MAX_REJECTIONS && !is_known {
            self.rejections.push(Rejection {
                reason,
                scope: scope.to_owned(),
            });
        }
    }
}

/// Reads a trace request into `sink`. What that has taken is worth nothing when this fails.
///
/// # Errors
/// [`DecodeError`] when the body is no such request or goes beyond a limit.
pub fn read_traces(
    bytes: &[u8],
    encoding: Encoding,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<Taken, DecodeError> {
    let mut mapper = mapping::SpanMapper::new(context, sink);
    match encoding {
        // Logs have the field numbers of traces: they are read as spans without ids.
        Encoding::Protobuf => decode_protobuf::traces(bytes, &mut mapper)?,
        Encoding::Json => decode_json::traces(bytes, &mut mapper)?,
    }
    Ok(mapper.finish())
}

/// Reads a log request into `sink`: the records that feed observations, and the scores that evaluation
/// events make. Every other record is dropped.
///
/// # Errors
/// [`DecodeError`] when the body is no such request or goes beyond a limit.
pub fn read_logs(
    bytes: &[u8],
    encoding: Encoding,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<(), DecodeError> {
    let mut mapper = logs::LogMapper::new(context, sink);
    match encoding {
        Encoding::Protobuf => decode_protobuf::logs(bytes, &mut mapper)?,
        Encoding::Json => decode_json::logs(bytes, &mut mapper)?,
    }
    Ok(mapper.finish()?)
}

/// Checks a metrics request: it is accepted and dropped, but must be protobuf or JSON.
///
/// # Errors
/// [`DecodeError`] when the body is neither.
pub fn check_metrics(bytes: &[u8], encoding: Encoding) -> Result<(), DecodeError> {
    match encoding {
        Encoding::Protobuf => wire::check(bytes),
        Encoding::Json => decode_json::check(bytes),
    }
}

/// The name of an environment as it is stored, whatever way it came in: lower case, without the prefix
/// reserved for the server's own traces, `default` when nothing usable is left.
#[must_use]
pub fn normalized_environment(sent: &str) -> String {
    facts::normalized_environment(sent, false)
}
