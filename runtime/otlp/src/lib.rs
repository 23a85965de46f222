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
//! - **Per span.** What is wrong with one span never costs another: see [`Reason`].
//! - **Bounded.** Only one span is held decoded, within its [`Limits`]; everything is charged to the
//!   [`Sink`] before it is held, so that memory follows from what the sink grants and not from the bytes.
//! - **Both encodings are one.** The same request in protobuf and in JSON gives the same batch.

mod attributes;
mod consumed;
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
mod notes;
mod request;
pub mod respond;
mod scores;
pub mod show;
mod sink;
mod source;
mod times;
mod tools;
mod usage;
mod wire;

pub use events::{Event, read_event};
pub use limits::Limits;
pub use media::is_media_type;
pub use request::{Context, DecodeError, Encoding, MappingReport, Reason};
pub use sink::{MemoryExhausted, Sink};

/// Reads a trace request into `sink`. After an error the content of the sink must be discarded.
///
/// # Errors
/// [`DecodeError`] if the body is malformed or exceeds a limit.
pub fn read_traces(
    bytes: &[u8],
    encoding: Encoding,
    context: &Context,
    sink: &mut dyn Sink,
) -> Result<MappingReport, DecodeError> {
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
/// [`DecodeError`] if the body is malformed or exceeds a limit.
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

/// The name of an environment as it is stored: lower case, without the prefix reserved for the server's own
/// traces, `default` if nothing usable is left. A truncated or replaced name is noted in the metadata.
#[must_use]
pub fn normalized_environment(
    sent: &str,
    metadata: &mut serde_json::Map<String, serde_json::Value>,
) -> String {
    let mut notes = notes::Notes::default();
    let environment = facts::normalized_environment(sent, false, &mut notes);
    notes.write(metadata);
    environment
}
