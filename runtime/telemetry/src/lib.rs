//! Traces, observations, sessions, scores and media: written in batches, read in pages, aggregated for
//! metrics.
//!
//! Invariants:
//! - **Returned means committed.** [`Telemetry::write_batch`] returns after the commit of the batch. Many
//!   batches share one commit, and a failing batch does not fail the others.
//! - **Order does not matter.** Rows depend on the set of received observations, not on order, grouping or
//!   repetition. An identical repetition changes nothing, not even the time of the last change.
//! - **The cost of ingest does not depend on the size of traces.** A batch never reads the rest of a trace to
//!   which it adds. It marks the trace stale, and the next reader, or a background task, folds it.
//!
//! [`Telemetry::write_batch`]: crate::Telemetry::write_batch

mod apply;
mod by_id;
mod change_export;
mod change_log;
mod contents;
mod events;
pub mod experiments;
mod find;
mod group_filter;
mod group_scores;
mod marking;
pub mod media;
pub mod metrics;
mod neighbors;
mod new_counts;
mod observation_cache;
mod observation_list;
mod observation_page;
mod packed;
mod plugin_reads;
mod prepare;
mod queue;
mod read;
mod reader;
mod refresh;
mod rollup;
pub mod rows;
mod score_lookup;
pub mod scores;
mod search;
pub mod sessions;
mod sweep;
mod target_sessions;
mod targets;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tool_observations;
mod trace_bars;
mod trace_details;
mod trace_facets;
mod trace_groups;
mod trace_list;
mod trace_order;
mod trace_shape;
mod transaction_state;
mod walk;

use std::sync::Arc;

use perpend_domain::ids::ProjectId;

use crate::rows::{block, cells, leads, marks, row};
use perpend_db::{Error, Pool};

use cells::{ObservationCells, TraceCells, is_about};
pub use change_log::take_changes;
pub use find::FindQuery;
pub use group_scores::{IntervalTotals, LowScore, ScoreSum};
use marks::MarkCondition;
pub use new_counts::{EnvironmentFilter, NewTraceFilter};
pub use prepare::{BatchBuilder, PreparedBatch, SerializedObservation};
use queue::WriteQueue;
pub use reader::TraceReader;
use refresh::Folder;
pub use trace_bars::{Environments, IntervalCounts};
pub use trace_list::{Bounds, TracesReader};

/// A tenant and its number in this database.
#[derive(Clone, Debug)]
struct Tenant {
    project: ProjectId,
    number: i64,
}

/// Handle to the stored telemetry, cheap to clone. Concurrent batches share a commit.
#[derive(Clone, Debug)]
pub struct Telemetry {
    pool: Pool,
    writer: Arc<WriteQueue>,
    folder: Folder,
}

impl Telemetry {
    /// For a database with the current schema. Starts the tasks that write and fold on the current runtime.
    #[must_use]
    pub fn start(pool: &Pool) -> Self {
        let folder = Folder::new(pool);
        Self { pool: pool.clone(), writer: WriteQueue::start(pool, folder.clone()), folder }
    }

    /// Refuses new batches, writes the queued ones, and ends its tasks.
    pub async fn close(&self) {
        self.writer.close().await;
    }
}
