//! What is measured, a file each.

pub(crate) mod backfill;
pub(crate) mod compare;
pub(crate) mod end_to_end;
pub(crate) mod evaluate;
pub(crate) mod experiment;
pub(crate) mod growth;
pub(crate) mod guests;
pub(crate) mod idle;
pub(crate) mod imports;
pub(crate) mod ingest;
pub(crate) mod judges;
pub(crate) mod lanes;
pub(crate) mod pages;
pub(crate) mod queries;
pub(crate) mod screen;
pub(crate) mod waiting;
