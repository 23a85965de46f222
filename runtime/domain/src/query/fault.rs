//! The error of a term.

use std::ops::Range;

/// The error of a term with suggestions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryFault {
    /// The invalid byte range of the text; empty if something is missing.
    pub at: Range<usize>,
    /// A human-readable sentence without full stop.
    pub message: String,
    /// Valid replacements, the nearest in spelling first; empty if they cannot be listed.
    pub allowed: Vec<String>,
    /// The likely intended text, by its spelling.
    pub guess: Option<String>,
}

impl QueryFault {
    pub(super) fn new(at: &Range<usize>, message: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into(), allowed: Vec::new(), guess: None }
    }

    pub(super) fn guessing(mut self, nearest: Option<&&str>) -> Self {
        self.guess = nearest.map(|name| (*name).to_owned());
        self
    }

    pub(super) fn allowing<T: Into<String>>(
        mut self,
        allowed: impl IntoIterator<Item = T>,
    ) -> Self {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        self
    }
}
