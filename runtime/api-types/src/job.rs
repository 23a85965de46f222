//! Background jobs of the server.

use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a background job has run since the server process started.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobState {
    /// The name, such as `retention`.
    pub name: String,
    /// Seconds between the end of a run and the start of the next one.
    pub interval_seconds: u64,
    /// A run is under way.
    pub is_running: bool,
    /// Completed runs, including failed ones.
    pub runs: u64,
    /// Failed runs.
    pub failures: u64,
    /// Start of the latest run; `null` before the first.
    pub last_started_at: Option<Timestamp>,
    /// End of the latest successful run.
    pub last_succeeded_at: Option<Timestamp>,
    /// Items that the latest successful run processed.
    pub last_item_count: u64,
    /// The failure of the latest run; `null` if it succeeded.
    pub last_error: Option<JobFailure>,
}

/// A failed run. The cause is in the log of the server.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobFailure {
    /// End of the run.
    pub at: Timestamp,
    /// The class of the failure, such as `the database failed`.
    pub message: String,
}
