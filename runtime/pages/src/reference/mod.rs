//! The API reference, and requests that it tries.

pub(crate) mod attempt;
pub(crate) mod equivalent_requests;
pub(crate) mod page;
