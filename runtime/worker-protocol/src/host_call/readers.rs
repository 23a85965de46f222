//! Data that guests read of traces, sessions and runs.

use serde::{Deserialize, Serialize};

use perpend_domain::payload::Payload;

/// A part of an observation that can be read separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObservationPart {
    Input,
    Output,
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Span,
    Generation,
    Event,
    Agent,
    Tool,
    Chain,
    Retriever,
    Evaluator,
    Embedding,
    Guardrail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    Debug,
    Standard,
    Warning,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceInfo {
    pub id: String,
    pub name: Option<String>,
    pub session_id: Option<String>,
    pub user_id: Option<String>,
    pub start_ms: u64,
    pub tags: Vec<String>,
    pub metadata: Option<String>,
    pub n_observations: u32,
}

impl TraceInfo {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        self.id.len() + length(&self.name) + length(&self.metadata) + tags
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationHead {
    pub id: String,
    pub parent_id: Option<String>,
    pub kind: Kind,
    pub name: Option<String>,
    pub start_ms: u64,
    pub end_ms: Option<u64>,
    pub severity: Severity,
    pub status_message: Option<String>,
    pub model: Option<String>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub input_size: u64,
    pub output_size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationFilter {
    pub parent_id: Option<String>,
    pub kinds: Vec<Kind>,
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationPage {
    pub observations: Vec<ObservationHead>,
    pub next_cursor: Option<String>,
}

impl ObservationPage {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let heads = self.observations.iter();
        let size = |head: &ObservationHead| {
            128 + head.id.len() + length(&head.name) + length(&head.status_message)
        };
        heads.map(size).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceError {
    NotGranted(String),
    NotFound(String),
    TooLarge(String),
    Unavailable(String),
    Cancelled,
}

/// One observation of an outline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlineEntry {
    pub id: String,
    pub parent_id: Option<String>,
    pub depth: u32,
    pub kind: Kind,
    pub name: Option<String>,
    pub severity: Severity,
    pub start_ms: u64,
    pub duration_ms: Option<u64>,
    pub input_size: u64,
    pub output_size: u64,
    pub n_children: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutlinePage {
    pub entries: Vec<OutlineEntry>,
    pub next_cursor: Option<String>,
}

impl OutlinePage {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let entries = self.entries.iter();
        let size = |entry: &OutlineEntry| 96 + entry.id.len() + length(&entry.name);
        entries.map(size).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hit {
    pub observation_id: String,
    pub part: ObservationPart,
    pub offset: u64,
    pub excerpt: String,
}

impl Hit {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        32 + self.observation_id.len() + self.excerpt.len()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    pub text: String,
    pub offset: u64,
    pub total: u64,
    pub is_json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    pub id: String,
    pub n_traces: u32,
    pub start_ms: u64,
    pub end_ms: u64,
    pub user_ids: Vec<String>,
}

impl SessionInfo {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let users: usize = self.user_ids.iter().map(String::len).sum();
        64 + self.id.len() + users
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracePage {
    pub traces: Vec<TraceInfo>,
    pub next_cursor: Option<String>,
}

impl TracePage {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.traces.iter().map(TraceInfo::size).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    pub id: String,
    pub name: Option<String>,
    pub dataset_id: Option<String>,
    pub metadata: Option<String>,
    pub n_items: u32,
}

impl RunInfo {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        64 + self.id.len() + length(&self.name) + length(&self.metadata)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunItem {
    pub id: String,
    pub dataset_item_id: Option<String>,
    pub trace: Option<perpend_domain::plugin::TraceRef>,
    pub input: Option<Payload>,
    pub output: Option<Payload>,
    pub expected_output: Option<Payload>,
    pub metadata: Option<String>,
}

impl RunItem {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        let payload =
            |payload: &Option<Payload>| payload.as_ref().map_or(0, |own| own.as_str().len());
        128 + self.id.len()
            + payload(&self.input)
            + payload(&self.output)
            + payload(&self.expected_output)
            + length(&self.metadata)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPage {
    pub items: Vec<RunItem>,
    pub next_cursor: Option<String>,
}

impl RunPage {
    /// Bytes that count towards the read limit.
    #[must_use]
    pub fn size(&self) -> usize {
        self.items.iter().map(RunItem::size).sum()
    }
}
