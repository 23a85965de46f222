//! The pages and fragments of one trace.

pub(crate) mod annotation_forms;
pub(crate) mod annotations;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod head;
pub(crate) mod media;
pub(crate) mod observation_scores;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod raw;
pub(crate) mod scores_only;
pub(crate) mod state_fragment;
pub(crate) mod values;
pub(crate) mod views;
