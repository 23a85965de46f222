//! Scores: details with origin, the list, and statistics.

pub(crate) mod analytics;
pub(crate) mod list;
pub(crate) mod score;
pub(crate) mod thresholds;
