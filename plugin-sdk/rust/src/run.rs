//! The run of an experiment under evaluation: [`Item::run`](crate::Item::run). The traces of its items can be read with
//! [`trace`](crate::trace), by evaluators that named [`Parts::trace`](crate::Parts::trace).

use crate::trace::TraceError;
use crate::{Payload, TraceRef, host};

/// A run without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The dataset it ran over.
    pub dataset_id: Option<String>,
    /// JSON.
    pub metadata: Option<String>,
    /// How many items it has.
    pub n_items: u32,
}

/// What was recorded for one item of the dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunItem {
    /// Its id.
    pub id: String,
    /// The item of the dataset.
    pub dataset_item_id: Option<String>,
    /// Where the recorded execution can be read from.
    pub trace: Option<TraceRef>,
    /// What the dataset says, else what was recorded.
    pub input: Option<Payload>,
    /// What was recorded.
    pub output: Option<Payload>,
    /// What should have come out.
    pub expected_output: Option<Payload>,
    /// JSON, of the item of the dataset.
    pub metadata: Option<String>,
}

/// Some items of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The newest first.
    pub items: Vec<RunItem>,
    /// What to ask for next; absent on the last page.
    pub next_cursor: Option<String>,
}

/// The run itself.
///
/// # Errors
/// When it cannot be read.
pub fn get(run_id: &str) -> Result<RunInfo, TraceError> {
    host::get_run(run_id)
}

/// All items of a run, read page by page. They are all held: for a large run use [`page`].
///
/// # Errors
/// When one of the pages cannot be read.
pub fn items(run_id: &str) -> Result<Vec<RunItem>, TraceError> {
    /// As many as the host gives at a time.
    const LIMIT: u32 = 20;
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = host::list_items(run_id, cursor.as_deref(), LIMIT)?;
        found.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// One page of items, at most 20.
///
/// # Errors
/// When it cannot be read.
pub fn page(run_id: &str, cursor: Option<&str>, limit: u32) -> Result<Page, TraceError> {
    host::list_items(run_id, cursor, limit)
}
