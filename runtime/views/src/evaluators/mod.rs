//! Pages of evaluators.

pub(crate) mod list;
pub(crate) mod one;
#[cfg(test)]
mod tests;
