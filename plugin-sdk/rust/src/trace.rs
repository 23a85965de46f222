//! The recorded execution behind an item, read piece by piece. Only the trace of the item can be read, and those of
//! the session or run that the item is, by evaluators that named [`Parts::trace`](crate::Parts::trace) or were granted
//! `trace` though they work without.

use std::fmt;

use crate::{EvalError, Payload, host};

/// A trace without its observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The conversation it belongs to.
    pub session_id: Option<String>,
    /// Whose it was.
    pub user_id: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub start_ms: u64,
    /// Its tags.
    pub tags: Vec<String>,
    /// The text of a JSON object.
    pub metadata: Option<String>,
    /// How many observations it has.
    pub n_observations: u32,
}

/// What an observation is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what it is called")]
pub enum Kind {
    #[default]
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

/// How bad it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is what it is called")]
pub enum Severity {
    Debug,
    #[default]
    Standard,
    Warning,
    Error,
}

/// An observation without its bulky parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Its id.
    pub id: String,
    /// The observation it happened in.
    pub parent_id: Option<String>,
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub name: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub start_ms: u64,
    /// When it ended.
    pub end_ms: Option<u64>,
    /// How bad it was.
    pub severity: Severity,
    /// What it said about that.
    pub status_message: Option<String>,
    /// The model of a generation.
    pub model: Option<String>,
    /// Tokens that went in.
    pub input_tokens: Option<u64>,
    /// Tokens that came out.
    pub output_tokens: Option<u64>,
    /// Bytes that [`read_input`] would read.
    pub input_size: u64,
    /// Bytes that [`read_output`] would read.
    pub output_size: u64,
}

/// Which observations are wanted; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Direct children of this observation only.
    pub parent_id: Option<String>,
    /// Only of these kinds; empty means every kind.
    pub kinds: Vec<Kind>,
    /// Only of this name.
    pub name: Option<String>,
}

/// Some observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Ordered by start, then by id.
    pub observations: Vec<Observation>,
    /// What to ask for next; absent on the last page.
    pub next_cursor: Option<String>,
}

/// Part of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What went in.
    Input,
    /// What came out.
    Output,
    /// A JSON object.
    Metadata,
}

/// One line of the outline of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutlineEntry {
    /// Id of the observation.
    pub id: String,
    /// The observation it happened in.
    pub parent_id: Option<String>,
    /// 0 at the top of what was asked for.
    pub depth: u32,
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub name: Option<String>,
    /// How bad it was.
    pub severity: Severity,
    /// When it began, in milliseconds since 1970.
    pub start_ms: u64,
    /// How long it took; absent while it has no end.
    pub duration_ms: Option<u64>,
    /// Bytes that [`read_input`] would read.
    pub input_size: u64,
    /// Bytes that [`read_output`] would read.
    pub output_size: u64,
    /// Its direct children.
    pub n_children: u32,
}

/// A part of an outline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Depth first; children of one parent by start, then by id.
    pub entries: Vec<OutlineEntry>,
    /// What to ask for next; absent on the last page.
    pub next_cursor: Option<String>,
}

/// A place where a text was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The observation.
    pub observation_id: String,
    /// Where in it.
    pub part: Part,
    /// Byte of the part, good for [`read_range`].
    pub offset: u64,
    /// The place with about 100 bytes on each side.
    pub excerpt: String,
}

/// A range of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The text.
    pub text: String,
    /// Where it begins, moved back to the beginning of a character.
    pub offset: u64,
    /// Bytes of the whole part.
    pub total: u64,
    /// The whole part is JSON, and not the text of a JSON string.
    pub is_json: bool,
}

impl Slice {
    /// The range of a payload as the host gives it, for tests.
    #[must_use]
    pub fn of(whole: &Payload, offset: u64, length: u32) -> Self {
        let text = whole.as_text();
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let end = begin.saturating_add(length as usize).min(text.len());
        let begin = text.floor_char_boundary(begin);
        let end = text.floor_char_boundary(end);
        Self {
            text: text[begin..end].to_owned(),
            offset: begin as u64,
            total: text.len() as u64,
            is_json: matches!(whole, Payload::Json(_)),
        }
    }
}

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// No trace of this call, or the capability was not granted.
    NotGranted(String),
    /// There is no such thing.
    NotFound(String),
    /// The call has read as much as it may.
    TooLarge(String),
    /// The server cannot read it now.
    Unavailable(String),
    /// The run is being cancelled: return soon.
    Cancelled,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGranted(text)
            | Self::NotFound(text)
            | Self::TooLarge(text)
            | Self::Unavailable(text) => text,
            Self::Cancelled => "the run was cancelled",
        })
    }
}

impl std::error::Error for TraceError {}

impl From<TraceError> for EvalError {
    fn from(error: TraceError) -> Self {
        Self::Upstream(error.to_string())
    }
}

/// The trace itself.
///
/// # Errors
/// When it cannot be read.
pub fn get(trace_id: &str) -> Result<TraceInfo, TraceError> {
    host::get_trace(trace_id)
}

/// All observations that fit the filter, read page by page.
///
/// # Errors
/// When one of the pages cannot be read.
pub fn observations(trace_id: &str, filter: &Filter) -> Result<Vec<Observation>, TraceError> {
    /// As many as the host gives at a time.
    const LIMIT: u32 = 500;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = host::list_observations(trace_id, filter, cursor.as_deref(), LIMIT)?;
        found.extend(page.observations);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// One page of observations.
///
/// # Errors
/// When it cannot be read.
pub fn page(
    trace_id: &str,
    filter: &Filter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page, TraceError> {
    host::list_observations(trace_id, filter, cursor, limit)
}

/// What went into an observation; `None` when it has no input.
///
/// # Errors
/// When it cannot be read.
pub fn read_input(trace_id: &str, observation_id: &str) -> Result<Option<Payload>, TraceError> {
    host::read_input(trace_id, observation_id)
}

/// What came out of an observation; `None` when it has no output.
///
/// # Errors
/// When it cannot be read.
pub fn read_output(trace_id: &str, observation_id: &str) -> Result<Option<Payload>, TraceError> {
    host::read_output(trace_id, observation_id)
}

/// The metadata of an observation, a JSON object.
///
/// # Errors
/// When it cannot be read.
pub fn read_metadata(trace_id: &str, observation_id: &str) -> Result<Option<Payload>, TraceError> {
    host::read_metadata(trace_id, observation_id)
}

/// The tree of a trace, or what is below one observation of it, read page by page.
///
/// # Errors
/// When one of the pages cannot be read: a trace of more than 50,000 observations has no outline.
pub fn outline(trace_id: &str, parent_id: Option<&str>) -> Result<Vec<OutlineEntry>, TraceError> {
    /// As many as the host gives at a time.
    const LIMIT: u32 = 500;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = host::outline(trace_id, parent_id, cursor.as_deref(), LIMIT)?;
        found.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// One page of an outline.
///
/// # Errors
/// When it cannot be read.
pub fn outline_page(
    trace_id: &str,
    parent_id: Option<&str>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Outline, TraceError> {
    host::outline(trace_id, parent_id, cursor, limit)
}

/// Where a text stands in the inputs, outputs and metadata of a trace, in any case; at most 100 places.
///
/// # Errors
/// When it cannot be read, and when the text is empty or longer than 1,000 bytes.
pub fn search(trace_id: &str, text: &str, limit: u32) -> Result<Vec<Hit>, TraceError> {
    host::search(trace_id, text, limit)
}

/// A range of a part, at most 1 MiB; `None` when the observation has no such part.
///
/// # Errors
/// When it cannot be read.
pub fn read_range(
    trace_id: &str,
    observation_id: &str,
    part: Part,
    offset: u64,
    length: u32,
) -> Result<Option<Slice>, TraceError> {
    host::read_range(trace_id, observation_id, part, offset, length)
}
