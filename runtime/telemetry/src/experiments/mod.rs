//! Experiments: runs over datasets whose items are linked to traces, and spans that represent items.
//!
//! Invariants:
//! - **Idempotent.** Writing the same link of a run again changes nothing.
//! - **Deleted runs stay deleted.** Spans that were recorded for a run before its deletion are not shown.

mod gates;
mod item_runs;
mod item_scores;
mod items;
mod linked;
mod list;
mod results;
mod revision;
mod row;
mod runs;
mod spans;

pub use item_runs::RunOfItem;
pub(crate) use items::{EXPERIMENT_COLUMNS, column_of_linking_run};
pub use revision::RunRevision;
pub use runs::{delete_run, delete_runs_of_dataset, insert_dataset_run};

pub use perpend_domain::telemetry::NewLink;
pub use perpend_domain::telemetry::RunLinks;
