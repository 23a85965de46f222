//! One trace: the tree with its time axis, the log, the conversation, and the comparison of two traces.

pub(crate) mod annotations;
pub(crate) mod compare;
pub(crate) mod events;
pub(crate) mod find;
pub(crate) mod header;
pub(crate) mod log;
pub(crate) mod match_excerpt;
pub(crate) mod observation_scores;
pub(crate) mod page;
pub(crate) mod peaks;
pub(crate) mod peek;
pub(crate) mod rows;
#[cfg(test)]
mod rows_tests;
#[cfg(test)]
pub(crate) mod sample_observations;
#[cfg(test)]
mod tests;
pub(crate) mod thread;
pub(crate) mod timeline;
