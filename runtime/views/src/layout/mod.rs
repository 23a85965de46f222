//! Shared parts of all pages: the shell with navigation, forms, keyboard shortcuts, preferences and embedded files.

pub mod assets;
pub(crate) mod forms;
pub(crate) mod preferences;
pub(crate) mod setup;
pub(crate) mod shell;
pub(crate) mod shortcuts;
pub(crate) mod small_pages;
