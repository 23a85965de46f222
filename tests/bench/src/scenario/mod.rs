//! What is measured, a file each.

pub(crate) mod growth;
pub(crate) mod idle;
pub(crate) mod ingest;
