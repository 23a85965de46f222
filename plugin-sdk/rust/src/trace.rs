//! Reading of the recorded execution of an item. Only the trace of the item can be read, or those of the scored session
//! or run, by evaluators that need [`Parts::trace`](crate::Parts::trace) or have the optional grant `trace`.

use std::fmt;

use crate::{EvalError, Payload, host};

/// A trace without its observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The id of its session.
    pub session_id: Option<String>,
    /// The id of the user.
    pub user_id: Option<String>,
    /// The start, in milliseconds since 1970.
    pub start_ms: u64,
    /// Its tags.
    pub tags: Vec<String>,
    /// The text of a JSON object.
    pub metadata: Option<String>,
    /// The number of its observations.
    pub n_observations: u32,
}

/// The kind of an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
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

/// The severity of an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub enum Severity {
    Debug,
    #[default]
    Standard,
    Warning,
    Error,
}

/// An observation without its large parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Its id.
    pub id: String,
    /// The id of the parent observation.
    pub parent_id: Option<String>,
    /// The kind.
    pub kind: Kind,
    /// Its name.
    pub name: Option<String>,
    /// The start, in milliseconds since 1970.
    pub start_ms: u64,
    /// The end, in milliseconds since 1970.
    pub end_ms: Option<u64>,
    /// The severity.
    pub severity: Severity,
    /// The message about the status.
    pub status_message: Option<String>,
    /// The model of a generation.
    pub model: Option<String>,
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// The size of the input in bytes.
    pub input_size: u64,
    /// The size of the output in bytes.
    pub output_size: u64,
}

/// A filter of observations. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Direct children of this observation only.
    pub parent_id: Option<String>,
    /// Only of these kinds; empty means every kind.
    pub kinds: Vec<Kind>,
    /// Only of this name.
    pub name: Option<String>,
}

/// A page of observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Ordered by start, then by id.
    pub observations: Vec<Observation>,
    /// The cursor of the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

/// Part of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The input.
    Input,
    /// The output.
    Output,
    /// The metadata, a JSON object.
    Metadata,
}

/// One line of the outline of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutlineEntry {
    /// Id of the observation.
    pub id: String,
    /// The id of the parent observation.
    pub parent_id: Option<String>,
    /// 0 at the top of the requested tree.
    pub depth: u32,
    /// The kind.
    pub kind: Kind,
    /// Its name.
    pub name: Option<String>,
    /// The severity.
    pub severity: Severity,
    /// The start, in milliseconds since 1970.
    pub start_ms: u64,
    /// The duration; absent for an observation without end.
    pub duration_ms: Option<u64>,
    /// The size of the input in bytes.
    pub input_size: u64,
    /// The size of the output in bytes.
    pub output_size: u64,
    /// The number of direct children.
    pub n_children: u32,
}

/// A page of an outline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Depth first; children of one parent by start, then by id.
    pub entries: Vec<OutlineEntry>,
    /// The cursor of the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

/// An occurrence of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The observation.
    pub observation_id: String,
    /// The part.
    pub part: Part,
    /// The byte offset in the part, as for [`read_range`].
    pub offset: u64,
    /// The occurrence with about 100 bytes on each side.
    pub excerpt: String,
}

/// A range of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The text.
    pub text: String,
    /// The start, moved back to the beginning of a character.
    pub offset: u64,
    /// The size of the whole part in bytes.
    pub total: u64,
    /// True when the whole part is JSON, and not the text of a JSON string.
    pub is_json: bool,
}

impl Slice {
    /// The range of a payload as the host returns it, for tests.
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

/// The failure to read a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// The trace does not belong to this call, or the capability was not granted.
    NotGranted(String),
    /// The trace or observation does not exist.
    NotFound(String),
    /// The call has spent its allowance of bytes to read.
    TooLarge(String),
    /// The server cannot read the trace at present.
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

/// Reads the head of a trace.
///
/// # Errors
/// When it cannot be read.
pub fn get(trace_id: &str) -> Result<TraceInfo, TraceError> {
    host::get_trace(trace_id)
}

/// Reads all observations that match the filter, page by page.
///
/// # Errors
/// When one of the pages cannot be read.
pub fn observations(trace_id: &str, filter: &Filter) -> Result<Vec<Observation>, TraceError> {
    /// The maximum page size of the host.
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

/// The input of an observation, if any.
///
/// # Errors
/// When it cannot be read.
pub fn read_input(trace_id: &str, observation_id: &str) -> Result<Option<Payload>, TraceError> {
    host::read_input(trace_id, observation_id)
}

/// The output of an observation, if any.
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

/// The tree of a trace, or the subtree below one observation, read page by page.
///
/// # Errors
/// When one of the pages cannot be read: a trace of more than 50,000 observations has no outline.
pub fn outline(trace_id: &str, parent_id: Option<&str>) -> Result<Vec<OutlineEntry>, TraceError> {
    /// The maximum page size of the host.
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

/// The occurrences of a text in the inputs, outputs and metadata of a trace, ignoring case; at most 100.
///
/// # Errors
/// When the trace cannot be read, and when the text is empty or longer than 1,000 bytes.
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
