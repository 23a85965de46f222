//! A session, turn by turn.

pub(crate) mod page;
#[cfg(test)]
mod tests;
