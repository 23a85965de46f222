//! Recorded values: forms in which they are shown, differences and previews.

pub(crate) mod content;
pub(crate) mod diff;
pub(crate) mod page;
pub(crate) mod preview;
