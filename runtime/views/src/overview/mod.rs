//! The overview of a project: figures, charts and trends.

pub(crate) mod charts;
pub(crate) mod figure;
pub(crate) mod page;
pub(crate) mod trends;
