//! Failures of calls. Their class determines the reaction of the scheduler.

use std::time::Duration;

/// Maximum length of a text of the provider in a message, in characters.
const MAX_TEXT: usize = 500;
/// Maximum `Retry-After`; longer ones are reduced.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// The cause of a failed call. The names are stored and displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    RateLimited,
    UpstreamUnavailable,
    UpstreamTimeout,
    MalformedOutput,
    Refused,
    ContextTooLong,
    AuthInvalid,
    BillingExhausted,
    ModelUnavailable,
    ConnectionMissing,
    DefaultModelMissing,
    ModelConfigInvalid,
    EndpointUnreachable,
    AccountNotReady,
    /// The request itself is invalid: no messages, an invalid schema, or content that the provider rejects.
    InvalidInput,
    BudgetExhausted,
    Cancelled,
    Internal,
}

impl ErrorClass {
    /// The stored name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::MalformedOutput => "malformed_output",
            Self::Refused => "refused",
            Self::ContextTooLong => "context_too_long",
            Self::AuthInvalid => "auth_invalid",
            Self::BillingExhausted => "billing_exhausted",
            Self::ModelUnavailable => "model_unavailable",
            Self::ConnectionMissing => "connection_missing",
            Self::DefaultModelMissing => "default_model_missing",
            Self::ModelConfigInvalid => "model_config_invalid",
            Self::EndpointUnreachable => "endpoint_unreachable",
            Self::AccountNotReady => "account_not_ready",
            Self::InvalidInput => "invalid_input",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    /// Contains no key and no header value, and at most 500 characters of the provider's message.
    pub message: String,
    /// The `Retry-After` of the provider, or the remaining pause of the connection; at most 15 minutes.
    pub retry_after: Option<Duration>,
    /// Whether the failed request was not sent: the pause of its connection is too long, or it failed before.
    pub is_unsent: bool,
    /// Whether another attempt would fail in the same way, regardless of the class.
    pub is_final: bool,
}

impl Failure {
    #[must_use]
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
            is_unsent: false,
            is_final: false,
        }
    }

    /// Sets `retry_after`, reduced to 15 minutes.
    #[must_use]
    pub fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait.map(|wait| wait.min(MAX_RETRY_AFTER));
        self
    }
}

/// Shortens a text of a provider to one line of at most 500 characters.
pub(crate) fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_providers_are_shortened_to_500_characters() {
        assert_eq!(short("a\n  b"), "a b");
        assert_eq!(short(&"é".repeat(501)).chars().count(), 501);
        assert_eq!(short(&"é".repeat(500)).chars().count(), 500);
    }
}
