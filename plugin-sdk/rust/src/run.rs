//! The run of an experiment under evaluation: [`Item::run`](crate::Item::run). The traces of its items can be read with
//! [`trace`](crate::trace), by evaluators that need [`Parts::trace`](crate::Parts::trace).

use crate::trace::TraceError;
use crate::{Payload, TraceRef, host};

/// A run without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The id of its dataset.
    pub dataset_id: Option<String>,
    /// JSON.
    pub metadata: Option<String>,
    /// The number of its items.
    pub n_items: u32,
}

/// The recorded execution of one item of the dataset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunItem {
    /// Its id.
    pub id: String,
    /// The item of the dataset.
    pub dataset_item_id: Option<String>,
    /// The reference to the recorded execution.
    pub trace: Option<TraceRef>,
    /// The input in the dataset; if absent, the recorded one.
    pub input: Option<Payload>,
    /// The recorded output.
    pub output: Option<Payload>,
    /// The expected output.
    pub expected_output: Option<Payload>,
    /// The metadata of the item of the dataset, as JSON.
    pub metadata: Option<String>,
}

/// A page of items of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The items, ordered by descending creation time.
    pub items: Vec<RunItem>,
    /// The cursor of the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

/// Reads the run.
///
/// # Errors
/// When it cannot be read.
pub fn get(run_id: &str) -> Result<RunInfo, TraceError> {
    host::get_run(run_id)
}

/// Reads all items of a run into memory. For a large run use [`page`].
///
/// # Errors
/// When one of the pages cannot be read.
pub fn items(run_id: &str) -> Result<Vec<RunItem>, TraceError> {
    /// The maximum page size of the host.
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
