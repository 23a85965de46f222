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
mod beside;
mod by_id;
mod changed;
mod contents;
mod events;
pub mod experiments;
mod find;
mod gathered;
mod group_filter;
mod group_scores;
mod marking;
pub mod media;
pub mod metrics;
mod news;
mod observation_list;
mod places;
mod prepare;
mod queue;
mod read;
mod reader;
mod reading;
mod recent;
mod refresh;
mod rollup;
pub mod rows;
mod scored;
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
mod tool_steps;
mod touched;
mod trace_bars;
mod trace_details;
mod trace_facets;
mod trace_groups;
mod trace_list;
mod trace_order;
mod trace_shape;
mod walk;

use std::sync::Arc;

use perpend_domain::ids::ProjectId;

use crate::rows::{block, cells, leads, marks, row};
use perpend_db::{Error, Pool};

use cells::{ObservationCells, TraceCells, is_about};
pub use find::FindQuery;
pub use group_filter::TestedGroups;
pub use group_scores::{LowScore, OverTime, ScoreSum};
use marks::Marked;
pub use news::{Among, Since};
pub use places::{Bounds, Figure, Places, TestedTraces, TraceCursor, TracesFrom};
pub use prepare::{Prepared, Preparing, Serialised};
use queue::Writer;
pub use reader::TraceReader;
pub use touched::take_touched;
pub use trace_bars::{Began, Environments};
pub use trace_list::TracesReader;

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
        Self { pool: pool.clone(), writer: Writer::start(pool) }
    }

    /// Takes no more batches, writes those it has taken, and ends its tasks.
    pub async fn close(&self) {
        self.writer.close().await;
    }
}
