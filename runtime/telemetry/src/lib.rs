//! Traces, observations, sessions, scores and media: written by the batch, read by page, asked for metrics.
//!
//! Invariants:
//! - **Returned means committed.** [`Telemetry::write_batch`] answers after the commit that holds the batch;
//!   many batches share one commit, and one that fails does not take the others along.
//! - **The set decides.** Rows depend on the set of observations received, not on order, grouping or
//!   repetition; an identical repeat changes nothing, the time of the last change included.
//! - **Ingest costs no more for large traces.** A batch never reads the rest of a trace it adds to: it
//!   marks the trace stale, and whoever reads it next, or a quiet moment, folds it anew.
//!
//! [`Telemetry::write_batch`]: crate::Telemetry::write_batch

mod apply;
mod block;
mod cells;
mod changed;
mod contents;
mod events;
pub mod experiments;
mod gathered;
pub mod media;
pub mod metrics;
mod observation_list;
mod prepare;
mod queue;
mod read;
mod reader;
mod recent;
mod refresh;
mod rollup;
mod row;
pub mod scores;
pub mod sessions;
mod sweep;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod touched;
mod trace_list;
mod trace_marks;
mod walk;

use std::sync::Arc;

use perpend_domain::filter::Filter;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;

use perpend_sql::{Error, Pool};

use cells::{ObservationCells, TraceCells, is_about};
pub use changed::Window;
pub use events::EventBatch;
pub use prepare::{Prepared, Preparing, Serialised};
use queue::Writer;
pub use reader::TraceReader;
pub use targets::Progress;
pub use touched::{Touched, take_touched};
use trace_marks::Marked;
pub use walk::Walk;

/// A stored observation.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObservation {
    /// As received, with `content` only when it was asked for.
    pub observation: Observation,
    /// First received.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// What its trace says: readers fall back on it for user, session and tags.
    pub of_trace: Arc<OfTrace>,
}

/// What an observation shows of its trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfTrace {
    /// Name of the trace.
    pub name: Option<String>,
    /// Its user.
    pub user_id: Option<String>,
    /// Its session.
    pub session_id: Option<String>,
    /// Its release.
    pub release: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Visible without a key.
    pub public: bool,
}

/// A stored trace.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTrace {
    /// As computed, completed with the content of the root only when it was asked for.
    pub trace: Trace,
    /// First received.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// Its observations by start, when they were asked for.
    pub observation_ids: Vec<ObservationId>,
    /// Cost of its input and of its output, where a filter looks at them.
    pub part_costs: [Option<f64>; 2],
    /// What completeness is judged by.
    pub activity: Activity,
}

/// How far a trace has come, in receive times (evaluation.md 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// First observation received.
    pub first_seen: Timestamp,
    /// Last change received.
    pub last_seen: Timestamp,
    /// When an ended root was first received.
    pub root_ended_at: Option<Timestamp>,
    /// Observations without an end.
    pub n_open: u32,
    /// A span said that nothing more comes.
    pub has_marker: bool,
}

/// Which traces, in which order. Simple parameters are conditions like all others.
#[derive(Clone, Debug)]
pub struct TraceQuery {
    /// Conditions on the columns of `perpend_domain::filter::TRACES`.
    pub filter: Filter,
    /// Order; equal ones by id.
    pub order: TraceOrder,
    /// Ascending.
    pub ascending: bool,
    /// From 1.
    pub page: u32,
    /// Traces per page.
    pub limit: u32,
    /// Load input, output and the metadata of the root.
    pub with_content: bool,
    /// Load the ids of the observations.
    pub with_observation_ids: bool,
}

impl Default for TraceQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            order: TraceOrder::Timestamp,
            ascending: false,
            page: 1,
            limit: 50,
            with_content: false,
            with_observation_ids: false,
        }
    }
}

/// What traces are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceOrder {
    /// `timestamp`
    #[default]
    Timestamp,
    /// `id`
    Id,
    /// `name`
    Name,
    /// `userId`
    UserId,
    /// `sessionId`
    SessionId,
    /// `release`
    Release,
    /// `version`
    Version,
    /// `public`
    Public,
}

/// Which observations: newest start first, equal ones by trace and id.
#[derive(Clone, Debug)]
pub struct ObservationQuery {
    /// Conditions on the columns of `perpend_domain::filter::OBSERVATIONS`.
    pub filter: Filter,
    /// After this one in the order.
    pub after: Option<ObservationCursor>,
    /// At most so many.
    pub limit: u32,
    /// Leave out so many first.
    pub offset: u64,
    /// Load the content.
    pub with_content: bool,
    /// Leave out the records of traces, which are no steps.
    pub without_records: bool,
    /// Count all that match.
    pub with_total: bool,
    /// Of the rows that only memory can test against the filter, look at so many at most.
    pub max_tested: u64,
}

impl Default for ObservationQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            after: None,
            limit: 50,
            offset: 0,
            with_content: false,
            without_records: false,
            with_total: false,
            max_tested: u64::MAX,
        }
    }
}

/// The last observation of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationCursor {
    /// Its start.
    pub start: Timestamp,
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub id: ObservationId,
}

/// Some of the matching rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// In the order asked for.
    pub items: Vec<T>,
    /// All that match; 0 when it was not asked for.
    pub n_total: u64,
    /// There are more after these.
    pub has_more: bool,
}

/// Some of the matching observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservationPage {
    /// In the order asked for.
    pub items: Vec<StoredObservation>,
    /// All that match; 0 when it was not asked for.
    pub n_total: u64,
    /// There are more after these, or there may be.
    pub has_more: bool,
    /// As many rows were tested as may be: up to here, which is where to go on.
    pub given_up_at: Option<GivenUp>,
}

/// Where a search ended that tests rows in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The last row that was tested.
    pub after: ObservationCursor,
    /// The columns that no database tests.
    pub columns: Vec<&'static str>,
}

/// Stored bytes of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMedia {
    /// MIME type.
    pub content_type: String,
    /// SHA-256 of the bytes.
    pub sha256: Vec<u8>,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// First received.
    pub created_at: Timestamp,
}

/// A tenant and its number in this database.
#[derive(Clone, Debug)]
struct Tenant {
    project: ProjectId,
    number: i64,
}

/// What was sent and scored, cheap to clone. Batches that are written at the same time share a commit.
#[derive(Clone, Debug)]
pub struct Telemetry {
    pool: Pool,
    writer: Arc<Writer>,
}

impl Telemetry {
    /// In a database that has all steps of the schema. Starts the tasks that write and fold; on the present
    /// runtime.
    #[must_use]
    pub fn start(pool: &Pool) -> Self {
        Self {
            pool: pool.clone(),
            writer: Writer::start(pool),
        }
    }

    /// Takes no more batches, writes those it has taken, and ends its tasks.
    pub async fn close(&self) {
        self.writer.close().await;
    }
}
