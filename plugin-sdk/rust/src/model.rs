//! Language models, which the host calls on behalf of the plug-in.
//!
//! A plug-in names a declared slot, never a provider, an address or a key. The host retries transient failures
//! before it returns an error; `?` converts it to [`EvalError::Upstream`].

use std::fmt;

use crate::EvalError;
use crate::host;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// [`complete`] and [`complete_all`].
    Chat,
    /// [`embed`].
    Embedding,
}

/// A slot for a model, which the configuration of an evaluator assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The name in requests: 1 to 64 of `a-z`, `0-9` and `-`.
    pub name: &'static str,
    /// The description for users.
    pub description: &'static str,
    /// The use of the slot.
    pub kind: SlotKind,
    /// True when the evaluator cannot be saved without a model.
    pub required: bool,
}

impl Slot {
    /// A required slot.
    #[must_use]
    pub const fn required(name: &'static str, kind: SlotKind, description: &'static str) -> Self {
        Self { name, description, kind, required: true }
    }

    /// An optional slot.
    #[must_use]
    pub const fn optional(name: &'static str, kind: SlotKind, description: &'static str) -> Self {
        Self { required: false, ..Self::required(name, kind, description) }
    }
}

/// The role of the author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions for the whole conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The plug-in, for results of tool calls.
    Tool,
}

/// A part of a message. Media are ids of stored media of the project; the host loads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A stored image.
    Image(String),
    /// Stored audio.
    Audio(String),
    /// A stored file of another kind.
    File(String),
    /// A call of a tool; in messages of the assistant.
    ToolCall(ToolCall),
    /// The result of a call; in messages of the role [`Role::Tool`].
    ToolResult(ToolResult),
}

/// Something that was reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The role of the author.
    pub role: Role,
    /// The parts, at least one.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message with one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text(text.into())] }
    }

    /// The text parts, separated by empty lines.
    #[must_use]
    pub fn texts(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Adds a part.
    #[must_use]
    pub fn and(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}

impl<T: Into<String>> From<(Role, T)> for Message {
    fn from((role, text): (Role, T)) -> Self {
        Self::text(role, text)
    }
}

/// A function of the plug-in that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// 1 to 64 of letters, digits, `_` and `-`, unique in the request.
    pub name: String,
    /// The description for the model: when and how to use the tool.
    pub description: String,
    /// JSON Schema of the arguments, whose type is object.
    pub parameters: String,
}

impl Tool {
    /// A tool whose arguments [`ToolCall::read`] reads as a `T`.
    #[must_use]
    pub fn new<T: schemars::JsonSchema>(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: crate::evaluator::schema::<T>(),
        }
    }
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must call a tool.
    Required,
    /// The model must not call a tool.
    None,
    /// The model must call the tool of this name.
    Named(String),
}

/// A call of a tool by the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The identifier that the result refers to.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The text of a JSON object, which may violate the schema of the tool.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as a `T`.
    ///
    /// # Errors
    /// The reason why the arguments are invalid, suitable as the content of a failed result.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(&self.arguments)
            .map_err(|why| format!("the arguments of {} cannot be read: {why}", self.name))
    }

    /// The result of the call: the content for the model, or the reason why the tool failed.
    #[must_use]
    pub fn result(&self, outcome: Result<String, String>) -> ToolResult {
        let is_error = outcome.is_err();
        ToolResult {
            call_id: self.id.clone(),
            content: outcome.unwrap_or_else(|why| why),
            is_error,
        }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// [`ToolCall::id`].
    pub call_id: String,
    /// The content for the model.
    pub content: String,
    /// True when the tool failed; `content` is the reason.
    pub is_error: bool,
}

/// The use of the response cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// As configured for the run.
    #[default]
    Standard,
    /// Calls the model and replaces the cached response.
    Refresh,
    /// Neither reads nor writes the cache.
    Bypass,
}

/// A request for a chat completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The slot; `None` for the first one of its kind.
    pub slot: Option<String>,
    /// The conversation.
    pub messages: Vec<Message>,
    /// JSON Schema of the answer.
    pub response_schema: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    pub top_p: Option<f32>,
    /// The maximum length of the answer, in tokens.
    pub max_output_tokens: Option<u32>,
    /// Sent if the provider supports seeds; [`host::seed`] is a stable one.
    pub seed: Option<u64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// The number of alternatives per token with log-probabilities.
    pub top_logprobs: Option<u8>,
    /// The use of the response cache.
    pub cache: CacheMode,
    /// A JSON object with settings of the provider.
    pub extra: Option<String>,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// Whether the model must call a tool.
    pub tool_choice: ToolChoice,
}

impl Request {
    /// A request with one message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::default().and(Role::User, content)
    }

    /// A request with a system message; further messages are added with [`Self::and`].
    pub fn system(content: impl Into<String>) -> Self {
        Self::default().and(Role::System, content)
    }

    /// Adds a message with one text.
    #[must_use]
    pub fn and(mut self, role: Role, content: impl Into<String>) -> Self {
        self.messages.push(Message::text(role, content));
        self
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// Adds a part to the last message, or a message of the user to an empty request.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        match self.messages.last_mut() {
            Some(last) => last.parts.push(part),
            None => self.messages.push(Message { role: Role::User, parts: vec![part] }),
        }
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// The next request of a conversation with tools, with the reply of the model and the results of its calls.
    #[must_use]
    pub fn results(mut self, reply: &Completion, results: Vec<ToolResult>) -> Self {
        let text = Some(reply.text.clone()).filter(|text| !text.is_empty());
        let calls = reply.tool_calls.iter().cloned().map(Part::ToolCall);
        self.messages.push(Message {
            role: Role::Assistant,
            parts: text.into_iter().map(Part::Text).chain(calls).collect(),
        });
        self.messages.push(Message {
            role: Role::Tool,
            parts: results.into_iter().map(Part::ToolResult).collect(),
        });
        self
    }

    /// Sets the slot.
    #[must_use]
    pub fn slot(mut self, name: &str) -> Self {
        self.slot = Some(name.to_owned());
        self
    }

    /// Sets the temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Sets the response schema to that of `T`, for [`Completion::read`].
    #[must_use]
    pub fn answering<T: schemars::JsonSchema>(mut self) -> Self {
        self.response_schema = Some(crate::evaluator::schema::<T>());
        self
    }
}

/// The reason for the end of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the answer.
    #[default]
    Stop,
    /// The answer reached its maximum length.
    Length,
    /// The provider cut the answer because of its content.
    ContentFilter,
    /// The model waits for the results of its tool calls.
    ToolCalls,
    /// Anything else.
    Other,
}

/// One token with its log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// Alternatives with their log-probabilities, ordered by descending probability.
    pub alternatives: Vec<(String, f32)>,
}

/// The answer of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// The text.
    pub text: String,
    /// JSON that satisfies the response schema, present if one was set and no tool was called.
    pub structured: Option<String>,
    /// The reason for its end.
    pub finish: FinishReason,
    /// Tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
    /// Empty unless requested and supported by the provider.
    pub logprobs: Vec<TokenLogprob>,
    /// The calls of tools.
    pub tool_calls: Vec<ToolCall>,
    /// The model that answered.
    pub model: String,
    /// True when no provider was called.
    pub from_cache: bool,
    /// The answer in the host, which computes [`Self::probabilities`].
    #[doc(hidden)]
    pub handle: Handle,
}

/// A completion in the host. Two handles are always equal.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Handle {
    #[cfg(target_arch = "wasm32")]
    pub(crate) completion: Option<std::rc::Rc<crate::guest::calls::HostCompletion>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl PartialEq for Handle {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The position of a choice in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// The answer is the choice, with optional white space around it.
    Whole,
    /// The member of this name of a JSON object: a string, a boolean or a number.
    Member(&'p str),
    /// The choice begins at this byte of [`Completion::text`].
    Offset(usize),
}

/// The probabilities of the choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Each choice with its probability, in order; the sum is 1.
    pub shares: Vec<(String, f64)>,
    /// The probability of the first choice minus that of the second.
    pub margin: f64,
    /// The total probability of the tokens that begin a choice. Below about 0.9 the shares are not reliable.
    pub coverage: f64,
}

impl Completion {
    /// An answer with this text, for tests.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), model: "test".to_owned(), ..Self::default() }
    }

    /// An answer that calls tools, for tests.
    #[must_use]
    pub fn calling(tool_calls: Vec<ToolCall>) -> Self {
        Self { finish: FinishReason::ToolCalls, tool_calls, ..Self::of("") }
    }

    /// The probability of each of the choices at the place, from the log-probabilities of the tokens that distinguish
    /// them. `None` without log-probabilities, or when no choice begins at the place.
    ///
    /// Choices are plain text: `yes` and not `"yes"`, `true` for a boolean.
    #[must_use]
    pub fn probabilities(&self, choices: &[String], place: Place<'_>) -> Option<Distribution> {
        host::probabilities(self, choices, place)
    }

    /// The structured answer as a `T`.
    ///
    /// # Errors
    /// `internal` when the request had no schema, or the schema of another type.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, EvalError> {
        let text = self.structured.as_deref().ok_or_else(|| {
            EvalError::Internal("the request to the model must have a response schema".to_owned())
        })?;
        serde_json::from_str(text).map_err(|why| {
            EvalError::Internal(format!("invalid structured answer of the model: {why}"))
        })
    }
}

/// The failure of a request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelError {
    /// The slot is unknown, or not granted.
    NotGranted(String),
    /// The request is invalid.
    InvalidRequest(String),
    /// The budget of the run or of the call is spent.
    BudgetExhausted(String),
    /// No answer within the time limit.
    Timeout(String),
    /// The provider refuses further requests.
    RateLimited(String),
    /// The provider declined to answer because of the content.
    Refused(String),
    /// The answer never satisfied the response schema.
    InvalidResponse(String),
    /// Any other failure of the request.
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

/// Calls a model and blocks until the answer arrives. The wait does not count as CPU time.
///
/// # Errors
/// When the request fails, after the retries of the host.
pub fn complete(request: &Request) -> Result<Completion, ModelError> {
    host::complete(request)
}

/// Sends at most 64 requests concurrently; the answers are in the order of the requests.
#[must_use]
pub fn complete_all(requests: &[Request]) -> Vec<Result<Completion, ModelError>> {
    host::complete_all(requests)
}

/// One vector per text, in order; at most 256 texts. The default slot is the first one for embeddings.
///
/// # Errors
/// When the request fails, after the retries of the host.
pub fn embed(slot: Option<&str>, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    host::embed(slot, texts)
}
