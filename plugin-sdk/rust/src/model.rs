//! Language models, which the host calls on behalf of the plug-in.
//!
//! A plug-in names a slot that it declared, never a provider, an address or a key. What comes back as an
//! error is what was left after the host's own retries; `?` makes it [`EvalError::Upstream`].

use std::fmt;

use crate::EvalError;
use crate::host;

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// [`complete`] and [`complete_all`].
    Chat,
    /// [`embed`].
    Embedding,
}

/// A place where whoever configures the evaluator puts a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What requests name: 1 to 64 of `a-z`, `0-9` and `-`.
    pub name: &'static str,
    /// For people.
    pub description: &'static str,
    /// What it is used for.
    pub kind: SlotKind,
    /// Set when there is no evaluator without a model here.
    pub required: bool,
}

impl Slot {
    /// A model that has to be there.
    #[must_use]
    pub const fn required(name: &'static str, kind: SlotKind, description: &'static str) -> Self {
        Self {
            name,
            description,
            kind,
            required: true,
        }
    }

    /// A model that may be there.
    #[must_use]
    pub const fn optional(name: &'static str, kind: SlotKind, description: &'static str) -> Self {
        Self {
            required: false,
            ..Self::required(name, kind, description)
        }
    }
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What holds for the whole conversation.
    System,
    /// Who asks.
    User,
    /// The model.
    Assistant,
}

/// How the host's cache of answers takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// As the run is set up.
    #[default]
    Standard,
    /// Asks again and replaces what is stored.
    Refresh,
    /// Neither reads nor writes.
    Bypass,
}

/// A chat completion that is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The slot; `None` for the first one of its kind.
    pub slot: Option<String>,
    /// The conversation.
    pub messages: Vec<(Role, String)>,
    /// JSON Schema of the answer.
    pub response_schema: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    pub top_p: Option<f32>,
    /// The longest answer.
    pub max_output_tokens: Option<u32>,
    /// Passed on where the provider has such a thing; [`host::seed`] is a stable one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Alternatives per token whose probability is wanted.
    pub top_logprobs: Option<u8>,
    /// How the cache takes part.
    pub cache: CacheMode,
    /// A JSON object with settings of the provider.
    pub extra: Option<String>,
}

impl Request {
    /// A question of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::default().and(Role::User, content)
    }

    /// What holds for the whole conversation; what follows is added with [`Self::and`].
    pub fn system(content: impl Into<String>) -> Self {
        Self::default().and(Role::System, content)
    }

    /// The same request with one more message.
    #[must_use]
    pub fn and(mut self, role: Role, content: impl Into<String>) -> Self {
        self.messages.push((role, content.into()));
        self
    }

    /// The same request for the model in this slot.
    #[must_use]
    pub fn slot(mut self, name: &str) -> Self {
        self.slot = Some(name.to_owned());
        self
    }

    /// The same request at this temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// The same request for an answer that [`Completion::read`] reads as a `T`.
    #[must_use]
    pub fn answering<T: schemars::JsonSchema>(mut self) -> Self {
        self.response_schema = Some(crate::evaluator::schema::<T>());
        self
    }
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done.
    #[default]
    Stop,
    /// It reached the longest answer.
    Length,
    /// The provider cut it for reasons of content.
    ContentFilter,
    /// Anything else.
    Other,
}

/// One token and how probable it was.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Other tokens with theirs, the most probable first.
    pub alternatives: Vec<(String, f32)>,
}

/// What a model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// The text.
    pub text: String,
    /// JSON that fits the response schema; present exactly when there was one.
    pub structured: Option<String>,
    /// How it ended.
    pub finish: FinishReason,
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Empty unless asked for and offered.
    pub logprobs: Vec<TokenLogprob>,
    /// Who answered.
    pub model: String,
    /// No provider was called.
    pub from_cache: bool,
}

impl Completion {
    /// An answer with this text, for tests.
    pub fn of(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            model: "test".to_owned(),
            ..Self::default()
        }
    }

    /// The structured answer as a `T`.
    ///
    /// # Errors
    /// `internal` when the request had no schema, or another one.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, EvalError> {
        let text = self.structured.as_deref().ok_or_else(|| {
            EvalError::Internal("the request to the model had no response schema".to_owned())
        })?;
        serde_json::from_str(text)
            .map_err(|why| EvalError::Internal(format!("the answer of the model: {why}")))
    }
}

/// Why a model did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The slot is unknown, or not granted.
    NotGranted(String),
    /// The request is wrong.
    InvalidRequest(String),
    /// The budget of the run or of the call is spent.
    BudgetExhausted(String),
    /// No answer in time.
    Timeout(String),
    /// The provider takes no more requests.
    RateLimited(String),
    /// The provider declined for reasons of content.
    Refused(String),
    /// The answer never fitted the response schema.
    InvalidResponse(String),
    /// Any other failure on the way.
    Unavailable(String),
    /// The run is being cancelled: return soon.
    Cancelled,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotGranted(text)
            | Self::InvalidRequest(text)
            | Self::BudgetExhausted(text)
            | Self::Timeout(text)
            | Self::RateLimited(text)
            | Self::Refused(text)
            | Self::InvalidResponse(text)
            | Self::Unavailable(text) => text,
            Self::Cancelled => "the run was cancelled",
        })
    }
}

impl std::error::Error for ModelError {}

impl From<ModelError> for EvalError {
    fn from(error: ModelError) -> Self {
        Self::Upstream(error.to_string())
    }
}

/// Asks a model. The evaluation waits; that time does not count as CPU time.
///
/// # Errors
/// What was left after the host's retries.
pub fn complete(request: &Request) -> Result<Completion, ModelError> {
    host::complete(request)
}

/// Asks several questions at once, at most 64; answers stand in the order of the requests.
#[must_use]
pub fn complete_all(requests: &[Request]) -> Vec<Result<Completion, ModelError>> {
    host::complete_all(requests)
}

/// One vector per text, in order; at most 256 texts. Without a slot: the first one for embeddings.
///
/// # Errors
/// What was left after the host's retries.
pub fn embed(slot: Option<&str>, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    host::embed(slot, texts)
}
