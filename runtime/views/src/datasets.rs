//! Pages of datasets and their items.

pub(crate) mod dataset;
pub(crate) mod editor;
pub(crate) mod from_traces;
pub(crate) mod import;
pub(crate) mod item;
pub(crate) mod list;
#[cfg(test)]
mod tests;
