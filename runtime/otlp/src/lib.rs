//! OTLP bytes to a domain batch (otlp.md): pure, total functions.
//!
//! [`decode`] reads protobuf or JSON into one borrowed form, [`map`] turns a decoded trace request into
//! observations, scores and media, [`map_logs`] a decoded log request into records that
//! [`perpend_domain::join::join_logs`] puts onto their observations, and [`respond`] writes the answers.
//! [`read_event`] reads the events of the batch API, which share all rules about single fields.
//!
//! Invariants:
//! - **Total.** No input panics, recurses without bound or takes more than linear time.
//! - **Pure.** The same bytes and context give the same batch; the arrival time is an argument.
//! - **Per span.** What is wrong with one span never costs another: see [`Rejection`].
//! - **Both encodings are one.** The same request in protobuf and in JSON gives the same batch.

mod attributes;
mod content;
mod decode_json;
mod decode_protobuf;
mod events;
mod facts;
mod json;
mod kind;
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
mod times;
mod tools;
mod usage;
mod wire;

use perpend_domain::batch::Batch;
use perpend_domain::time::Timestamp;

pub use events::{Event, EventError, read_event};
pub use limits::Limits;
pub use logs::map_logs;
pub use mapping::map;
pub use media::is_media_type;
pub use model::{LogsRequest, Request};

/// How a request body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Binary protobuf.
    Protobuf,
    /// OTLP/JSON.
    Json,
}

/// The body is no request at all: nothing of it can be stored.
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

/// One span that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why, in a few words that name the field.
    pub reason: &'static str,
    /// Name of its instrumentation scope.
    pub scope: String,
}

/// What a trace request became.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mapped {
    /// To be stored.
    pub batch: Batch,
    /// Spans left out because they are malformed.
    pub rejected: Vec<Rejection>,
    /// Spans taken, those that were dropped as noise included.
    pub n_accepted: usize,
}

/// Reads a trace request.
///
/// # Errors
/// [`DecodeError`] when the body is no such request; the answer is 400.
pub fn decode(bytes: &[u8], encoding: Encoding) -> Result<Request<'_>, DecodeError> {
    match encoding {
        // Logs have the field numbers of traces, and other types of most fields.
        Encoding::Protobuf => decode_protobuf::traces(bytes).map_err(|error| {
            let is_logs = decode_protobuf::logs(bytes).is_ok_and(|logs| logs.has_records());
            match is_logs {
                true => DecodeError::Shape(decode_json::NO_TRACES),
                false => error,
            }
        }),
        Encoding::Json => decode_json::traces(bytes),
    }
}

/// Reads a log request.
///
/// # Errors
/// [`DecodeError`] when the body is no such request; the answer is 400.
pub fn decode_logs(bytes: &[u8], encoding: Encoding) -> Result<LogsRequest<'_>, DecodeError> {
    match encoding {
        Encoding::Protobuf => decode_protobuf::logs(bytes),
        Encoding::Json => decode_json::logs(bytes),
    }
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
