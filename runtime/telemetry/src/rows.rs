//! Observations and traces as stored rows and blocks, and as rows for filters in memory.
//!
//! Invariants:
//! - **Pure.** Nothing here accesses a database; the callers name the tables.
//! - **Lossless.** A row and its block return the observation or trace from which they were made.

pub mod block;
pub mod cells;
pub mod leads;
pub mod marks;
pub mod needle;
pub mod row;
pub mod score_names;
