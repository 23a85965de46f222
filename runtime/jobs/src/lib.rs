//! Background jobs: exports to buckets, retention and expiry, and the runner that all jobs share.
//!
//! Invariant: **no input but the database.** A run finds its work there; one that is lost or interrupted is made up for
//! by the next, here or on another node.

pub mod expiry;
pub mod exports;
pub mod retention;
pub mod runner;
