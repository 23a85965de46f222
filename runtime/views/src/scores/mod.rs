//! Scores: one with its origin, and the list.

pub(crate) mod list;
pub(crate) mod score;
