//! Pages of connections to model providers: list, one connection, form, deletion. No view has a secret.

pub(crate) mod form;
pub(crate) mod list;
pub(crate) mod one;
#[cfg(test)]
mod tests;
