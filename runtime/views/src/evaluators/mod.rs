//! Pages of evaluators.

pub(crate) mod definition;
pub(crate) mod editor;
pub(crate) mod figures;
#[cfg(test)]
mod form_tests;
pub(crate) mod gallery;
pub(crate) mod judge;
pub(crate) mod list;
pub(crate) mod one;
#[cfg(test)]
mod tests;
pub(crate) mod versions;
