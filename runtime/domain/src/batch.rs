//! The normalised content of an ingest request.

use crate::ids::{ObservationId, TraceId};
use crate::memory;
use crate::observation::Observation;
use crate::score::NewScore;
use crate::time::Timestamp;

/// The normalised content of one ingest request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Observations, in the order of arrival.
    pub observations: Vec<Observation>,
    /// Scores carried by evaluation events, with derived ids.
    pub scores: Vec<NewScore>,
    /// Media extracted from the payloads.
    pub media: Vec<Media>,
    /// GenAI log records to be joined onto observations (otlp.md 2.17).
    pub logs: Vec<SpanLog>,
}

/// A medium extracted from a payload, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// First 22 characters of the URL-safe base64 of `sha256`.
    pub id: String,
    /// SHA-256 of `bytes`.
    pub sha256: [u8; 32],
    /// MIME type.
    pub content_type: String,
    /// Decoded bytes.
    pub bytes: Vec<u8>,
    /// The trace of the payload.
    pub trace_id: TraceId,
    /// The observation of the payload.
    pub observation_id: ObservationId,
    /// `input`, `output` or `metadata`.
    pub field: &'static str,
}

/// A GenAI log record that belongs to a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanLog {
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub observation_id: ObservationId,
    /// Time of the event.
    pub time: Timestamp,
    /// Event name, such as `gen_ai.choice`.
    pub event: String,
    /// Attributes merged with the body, the body winning.
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

impl SpanLog {
    /// Estimated memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        (1 << 10) + memory::of_members(&self.attributes)
    }
}
