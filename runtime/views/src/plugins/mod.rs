//! Pages of plug-ins: list, one plug-in, upload with the report of the check, deletion.

pub(crate) mod list;
pub(crate) mod one;
#[cfg(test)]
mod tests;
pub(crate) mod upload;
