//! What is wrong with a term.

use std::ops::Range;

/// What is wrong with a term, and what could replace it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct QueryFault {
    /// The part at fault, in bytes of the text. Empty where something is missing.
    pub at: Range<usize>,
    /// One sentence for the reader, without its full stop.
    pub message: String,
    /// What may stand at that place, the nearest in spelling first; empty where nothing can be listed.
    pub allowed: Vec<String>,
    /// What was meant there, as far as its spelling tells.
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
