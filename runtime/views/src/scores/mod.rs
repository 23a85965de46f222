//! Scores: details with origin, and the list.

pub(crate) mod list;
pub(crate) mod score;
