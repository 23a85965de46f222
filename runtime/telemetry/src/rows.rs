//! Observations and traces as the rows and blocks in which they are stored, and as filters see them in memory.
//!
//! Invariants:
//! - **Pure.** Nothing here asks a database; whoever does names the tables.
//! - **What was written is read.** A row and its block give back the observation or trace that they were made of.

pub mod block;
pub mod cells;
pub mod leads;
pub mod marks;
pub mod needle;
pub mod row;
pub mod scored;
