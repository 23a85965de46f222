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

/// The API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Chat completions, or responses when the connection selects them; also compatible servers.
    OpenAi,
    Anthropic,
    Azure,
    GoogleAiStudio,
    /// Amazon Bedrock's Converse API, with an API key.
    Bedrock,
    /// Not supported yet: calls fail.
    GoogleVertexAi,
    /// Scripted replies without network.
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

    /// The name in the `adapter` of a connection.
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

    /// The protocol with this `adapter` name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// A connection with decrypted secrets.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub connection_id: String,
    /// When the connection was saved, in microseconds since 1970. Saving resets a rejected key and a pause.
    pub saved_at: i64,
    /// The name of the connection in its project.
    pub provider: String,
    pub protocol: Protocol,
    /// The vendor's own URL when absent.
    pub base_url: Option<String>,
    pub key: Secret,
    /// Additional headers. They replace default headers with the same name.
    pub headers: Vec<(String, Secret)>,
    pub use_responses_api: bool,
    /// Azure only.
    pub api_version: Option<String>,
    /// Maximum number of concurrent requests, at least 1.
    pub max_in_flight: usize,
    /// The script of the `mock` protocol: `{"replies": [..]}`, or the region of Bedrock: `{"region": "eu-central-1"}`.
    pub config: Option<Value>,
}

/// A model with the parameters that the user set for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    pub model: String,
    /// `temperature`, `top_p`, `max_tokens`, `seed` and `stop` have the same meaning for all protocols. Other members,
    /// including those of `providerOptions`, are sent unchanged. A call fails when a member would change the model, the
    /// conversation, its tools or the form of the reply. Parameters of a request take precedence.
    pub params: Map<String, Value>,
}

/// Limits of one call of [`crate::Llm::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// For each request of the call, from sending it to the end of the response. Excludes waiting for the connection.
    pub timeout: Duration,
    /// Maximum number of re-asks after malformed replies.
    pub reasks: u32,
    /// Upper bound of the output limit of each request. After a truncated reply the request is repeated once with twice
    /// the limit.
    pub max_output_tokens: Option<u32>,
    /// Maximum length of the prompt in tokens, estimated as bytes / 4. Longer prompts are not sent.
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
    fn protocols_are_parsed_from_their_names() {
        for protocol in Protocol::ALL {
            assert_eq!(Protocol::parse(protocol.name()), Some(protocol));
        }
        assert_eq!(Protocol::parse("OpenAI"), None);
    }
}
