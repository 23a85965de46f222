//! Failures of calls, in the classes that the scheduler acts on.

use std::time::Duration;

use serde_json::Value;

/// Longest text of a provider in a message, in characters.
const MAX_TEXT: usize = 500;
/// Shorter ones are placeholders.
const MIN_SECRET: usize = 6;
/// Longest wait that a provider can ask for.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(15 * 60);

/// Why a call failed. Names are stored and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
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
    /// The request itself is wrong: no messages, a schema that is not one, content that the provider rejects.
    InvalidInput,
    BudgetExhausted,
    Cancelled,
    Internal,
}

impl Class {
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
    pub class: Class,
    /// For people: no key, no header value, at most 500 characters of what the provider said.
    pub message: String,
    /// What the provider asked for, or how long the connection stays closed; at most 15 minutes.
    pub retry_after: Option<Duration>,
    /// Whether the request that failed was not sent: its connection stays closed for too long, or it was refused before.
    pub is_unsent: bool,
}

impl Failure {
    #[must_use]
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
            is_unsent: false,
        }
    }

    /// The same, with the wait that was asked for, cut at 15 minutes.
    #[must_use]
    pub fn after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait.map(|wait| wait.min(MAX_RETRY_AFTER));
        self
    }
}

/// A text of a provider for a message: one line, at most 500 characters.
pub(crate) fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Replaces secrets in a text, as they are and as JSON writes them.
pub(crate) fn without<'s>(text: &str, secrets: impl Iterator<Item = &'s str>) -> String {
    let mut text = text.to_owned();
    // Servers without keys get placeholders such as `x`, which are in every text.
    for secret in secrets.filter(|secret| MIN_SECRET <= secret.len()) {
        let escaped = Value::from(secret).to_string();
        text = text.replace(secret, "***");
        text = text.replace(escaped.trim_matches('"'), "***");
    }
    text
}

/// Replaces secrets, and keys that the provider masked itself, in what it said.
pub(crate) fn redact<'s>(text: &str, secrets: impl Iterator<Item = &'s str>) -> String {
    let text = without(text, secrets);
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let end = word.trim_end().len();
        match word[..end].contains("**") {
            true => format!("***{}", &word[end..]),
            false => word.to_owned(),
        }
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_masked_keys_do_not_stay_in_texts() {
        assert_eq!(
            without(r#"a "k\"e\\ys""#, [r#"k"e\ys"#].into_iter()),
            r#"a "***""#
        );
        assert_eq!(without("x", ["x", ""].into_iter()), "x");
        let said =
            "Incorrect API key provided: sk-ab****yz. You sent sk-abcdef-yz, twice: sk-abcdef-yz";
        let redacted = redact(said, ["sk-abcdef-yz", ""].into_iter());
        assert_eq!(
            redacted,
            "Incorrect API key provided: *** You sent *** twice: ***"
        );
    }

    #[test]
    fn texts_of_providers_are_cut_after_500_characters() {
        assert_eq!(short("a\n  b"), "a b");
        assert_eq!(short(&"é".repeat(501)).chars().count(), 501);
        assert_eq!(short(&"é".repeat(500)).chars().count(), 500);
    }
}
