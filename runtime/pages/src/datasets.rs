//! Datasets and their items.
//!
//! Invariant: **a form has the effect of the API operation.** Every change is a call of an operation (`request::operations`).

mod check;
mod context;
pub(super) mod dataset;
pub(super) mod downloads;
pub(super) mod edit;
mod examples;
pub(super) mod from_trace;
pub(super) mod from_traces;
pub(super) mod import;
pub(super) mod item;
pub(super) mod item_form;
pub(super) mod item_raw;
pub(super) mod items;
mod links;
pub(super) mod list;
pub(super) mod schemas;
pub(super) mod versions;
