//! The list of traces with its fragments, and the comparison of two traces.

pub(crate) mod bars;
pub(crate) mod compare;
pub(crate) mod conditions;
pub(crate) mod digests;
pub(crate) mod facets;
pub(crate) mod fragments;
pub(crate) mod lines;
pub(crate) mod list;
pub(crate) mod marks;
pub(crate) mod neighbors;
pub(crate) mod news;
pub(crate) mod peek;
