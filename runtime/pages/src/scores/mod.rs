//! The list of scores, and scores on other pages.

pub(crate) mod analytics;
pub(crate) mod filter;
pub(crate) mod list;
pub(crate) mod thresholds;
pub(crate) mod trends;
pub(crate) mod views;
