//! Connections to model providers. The API operations do the work; these pages call them.

pub(crate) mod default_model;
pub(crate) mod delete;
pub(crate) mod form;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod usage;
