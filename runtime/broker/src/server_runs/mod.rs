//! Executes runs of experiments: calls a model or an endpoint of the user's application for each item of a dataset, and
//! writes the trace of each result.
//!
//! Invariants:
//! - **One path to models.** Calls go through [`Models`](crate::Models), like those of evaluators: connections, limits, prices and
//!   budgets apply.
//! - **An answer is stored before it is used.** A process that takes over a run repeats no call whose answer is
//!   stored; ids of traces and observations are derived, so that writing a trace again changes nothing.
//! - **Bounded memory.** Items and answers of all runs share [`RunMemory`]; a call without memory waits, with projects in turn.

mod call;
mod conversation;
mod driver;
mod endpoint;
mod engine;
mod memory;
mod rules;
mod takeover;
mod trace;

pub use conversation::completion_request;
pub use engine::{JOB, RunEngine};
pub use memory::RunMemory;
