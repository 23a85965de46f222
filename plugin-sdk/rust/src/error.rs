//! Why an evaluator gives no score.

use std::fmt;

/// Why no score could be given. The case decides what the host does next; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The configuration passed its schema and still cannot be used; the evaluator is flagged.
    InvalidConfig(String),
    /// A needed part of the item is absent or has a wrong shape.
    InvalidInput(String),
    /// There is nothing to measure for this item: recorded as skipped, never as a failure or as 0.
    NotApplicable(String),
    /// A call to the host failed and the evaluator cannot go on without it.
    Upstream(String),
    /// Another attempt may work.
    Transient(String),
    /// Anything else.
    Internal(String),
}

impl EvalError {
    /// A configuration that cannot be used.
    pub fn invalid_config(text: impl Into<String>) -> Self {
        Self::InvalidConfig(text.into())
    }

    /// An item that cannot be scored.
    pub fn invalid_input(text: impl Into<String>) -> Self {
        Self::InvalidInput(text.into())
    }

    /// An item with nothing to measure.
    pub fn not_applicable(text: impl Into<String>) -> Self {
        Self::NotApplicable(text.into())
    }
}

impl EvalError {
    /// The text alone, without what kind of error it is.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::InvalidConfig(text)
            | Self::InvalidInput(text)
            | Self::NotApplicable(text)
            | Self::Upstream(text)
            | Self::Transient(text)
            | Self::Internal(text) => text,
        }
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, text) = match self {
            Self::InvalidConfig(text) => ("invalid config", text),
            Self::InvalidInput(text) => ("invalid input", text),
            Self::NotApplicable(text) => ("not applicable", text),
            Self::Upstream(text) => ("upstream", text),
            Self::Transient(text) => ("transient", text),
            Self::Internal(text) => ("internal", text),
        };
        write!(f, "{class}: {text}")
    }
}

impl std::error::Error for EvalError {}
