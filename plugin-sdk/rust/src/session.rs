//! The session under evaluation: [`Item::session`](crate::Item::session). Its traces can be read with
//! [`trace`](crate::trace), by evaluators that need [`Parts::trace`](crate::Parts::trace).

use crate::host;
use crate::trace::{TraceError, TraceInfo};

/// A session without its traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The number of its traces.
    pub n_traces: u32,
    /// Start of the first trace, in milliseconds since 1970.
    pub start_ms: u64,
    /// Start of the last trace, in milliseconds since 1970.
    pub end_ms: u64,
    /// The users of the session, sorted; the first 100.
    pub user_ids: Vec<String>,
}

/// A page of traces of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Ordered by start, then by id.
    pub traces: Vec<TraceInfo>,
    /// The cursor of the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

/// Reads the session.
///
/// # Errors
/// When it cannot be read.
pub fn get(session_id: &str) -> Result<SessionInfo, TraceError> {
    host::get_session(session_id)
}

/// Reads all traces of a session, page by page.
///
/// # Errors
/// When one of the pages cannot be read.
pub fn traces(session_id: &str) -> Result<Vec<TraceInfo>, TraceError> {
    /// The maximum page size of the host.
    const LIMIT: u32 = 100;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = host::list_traces(session_id, cursor.as_deref(), LIMIT)?;
        found.extend(page.traces);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// One page of traces.
///
/// # Errors
/// When it cannot be read.
pub fn page(session_id: &str, cursor: Option<&str>, limit: u32) -> Result<Page, TraceError> {
    host::list_traces(session_id, cursor, limit)
}
