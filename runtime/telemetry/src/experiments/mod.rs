//! Experiments: runs over datasets whose items are linked to traces, and the spans that stand for items.
//!
//! Invariants:
//! - **Twice is once.** The same link of a run written again changes nothing.
//! - **Deleted is gone.** Spans that were recorded for a run before it was deleted are not shown.

mod linked;
mod row;
mod runs;
mod spans;

pub use perpend_domain::telemetry::NewLink;
pub use perpend_domain::telemetry::RunLinks;
