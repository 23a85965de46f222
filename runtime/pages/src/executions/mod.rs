//! The list of executions, the page of one execution, and the forms that requeue failed ones.

pub(crate) mod list;
pub(crate) mod names;
pub(crate) mod newest;
pub(crate) mod one;
pub(crate) mod requeue;
