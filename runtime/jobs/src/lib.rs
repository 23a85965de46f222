//! What goes on without a request: exports to buckets.
//!
//! Invariant: **no input but the database.** A round finds its work there; one that is lost or cut off is made up for
//! by the next, here or on another node.

pub mod exports;
