//! The inputs of a call: the connection, the model and the limits.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// A key or a header value. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself: for a request header and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Chat completions, or responses where the connection says so; also every compatible server.
    OpenAi,
    Anthropic,
    Azure,
    GoogleAiStudio,
    /// Not supported yet: calls fail with a clear message.
    Bedrock,
    /// Not supported yet: calls fail with a clear message.
    GoogleVertexAi,
    /// Scripted replies, no network.
    Mock,
}

impl Protocol {
    pub const ALL: [Self; 7] = [
        Self::OpenAi,
        Self::Anthropic,
        Self::Azure,
        Self::GoogleAiStudio,
        Self::Bedrock,
        Self::GoogleVertexAi,
        Self::Mock,
    ];

    /// The `adapter` of a connection.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Azure => "azure",
            Self::GoogleAiStudio => "google-ai-studio",
            Self::Bedrock => "bedrock",
            Self::GoogleVertexAi => "google-vertex-ai",
            Self::Mock => "mock",
        }
    }

    /// The protocol of an `adapter`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// One connection, its secrets unsealed.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub connection_id: String,
    /// When the connection was saved, in microseconds since 1970: what was learnt of a refused key or of a wait that the
    /// provider asked for holds for what was saved then.
    pub saved_at: i64,
    /// The name that the project gave the connection.
    pub provider: String,
    pub protocol: Protocol,
    /// The vendor's own address when absent.
    pub base_url: Option<String>,
    pub key: Secret,
    /// Extra headers. One named like a header of ours replaces it.
    pub headers: Vec<(String, Secret)>,
    pub use_responses_api: bool,
    /// Azure only.
    pub api_version: Option<String>,
    /// Calls at the same time, at least 1.
    pub max_in_flight: usize,
    /// The script of the `mock` protocol: `{"replies": [..]}`.
    pub config: Option<Value>,
}

/// The model to ask, with the parameters that the user set for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    pub model: String,
    /// `temperature`, `top_p`, `max_tokens`, `seed` and `stop` have one meaning for all protocols. Other members
    /// are sent as they are, those of `providerOptions` too; a call fails by the name of one that would change the
    /// model, the conversation, its tools or how the reply comes. What a request sets itself has precedence.
    pub params: Map<String, Value>,
}

/// Limits of one call of [`crate::Llm::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// For each request of the call, from its sending to the end of its answer. Waiting for the connection does not count.
    pub timeout: Duration,
    /// How often a malformed reply is asked for again.
    pub reasks: u32,
    /// Upper bound of the output limit of each request. A reply cut at the limit is asked for once more with twice
    /// the limit.
    pub max_output_tokens: Option<u32>,
    /// A prompt of more tokens (estimated: bytes / 4) is not sent.
    pub max_input_tokens: Option<u32>,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(120),
            reasks: 2,
            max_output_tokens: None,
            max_input_tokens: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_read_back_from_their_names() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::parse(protocol.name()), Some(protocol));
        }
        assert_eq!(Protocol::parse("OpenAI"), None);
    }
}
