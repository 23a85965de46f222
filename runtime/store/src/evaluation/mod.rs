//! The ledger of evaluations: what was touched, what waits, executions and what became of them.
//!
//! Invariants:
//! - **Made once.** An execution's id is derived from its key and unique; making it again is a no-op.
//! - **Taken note of once.** Touched rows go in the transaction that makes their executions.
//! - **One holder.** Every statement that ends a lease repeats state and fence in its WHERE clause; what
//!   another has moved meanwhile is left alone, its scores included.
//! - **Scores and state together.** Scores are written in the transaction that completes their execution.

mod claim;
mod codes;
mod counts;
mod finish;
mod matches;
mod queue;
mod read;
mod row;
mod supersede;
#[cfg(test)]
mod tests;

pub use claim::{Lease, Leased, Release, Share};
pub use counts::RuleCount;
pub use finish::{Attempt, Ended, Finished, Outcome};
pub use matches::{Made, Making, MatchBatch, NewWatch, Touched, Watch};
pub use queue::Queue;
pub use read::{Attempted, Ledger, StateCount};
