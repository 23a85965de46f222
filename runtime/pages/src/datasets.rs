//! Datasets and their items.
//!
//! Invariant: **a form does what the API does.** Every change is a call of an operation (`request::operations`).

pub(super) mod dataset;
mod examples;
pub(super) mod items;
mod links;
pub(super) mod list;
pub(super) mod schemas;
