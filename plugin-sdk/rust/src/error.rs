//! The errors of evaluators.

use std::fmt;

/// The reason why there is no score. The case determines how the host continues; the text is for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// The configuration satisfies its schema and is invalid nevertheless; the evaluator is flagged.
    InvalidConfig(String),
    /// A needed part of the item is absent or has an invalid shape.
    InvalidInput(String),
    /// There is nothing to measure for this item: recorded as skipped, not as a failure or 0.
    NotApplicable(String),
    /// A call to the host failed and the evaluator cannot continue without it.
    Upstream(String),
    /// A transient failure: another attempt may succeed.
    Transient(String),
    /// Any other failure.
    Internal(String),
}

impl EvalError {
    /// The error for an invalid configuration.
    pub fn invalid_config(text: impl Into<String>) -> Self {
        Self::InvalidConfig(text.into())
    }

    /// The error for an item that cannot be scored.
    pub fn invalid_input(text: impl Into<String>) -> Self {
        Self::InvalidInput(text.into())
    }

    /// The error for an item with nothing to measure.
    pub fn not_applicable(text: impl Into<String>) -> Self {
        Self::NotApplicable(text.into())
    }
}

impl EvalError {
    /// The text without the kind of the error.
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
