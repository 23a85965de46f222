//! The overview of a project and its fragments.

pub(crate) mod charts;
pub(crate) mod page;
pub(crate) mod queries;
pub(crate) mod range;
pub(crate) mod trends;
