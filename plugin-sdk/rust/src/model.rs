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
        Self { name, description, kind, required: true }
    }

    /// A model that may be there.
    #[must_use]
    pub const fn optional(name: &'static str, kind: SlotKind, description: &'static str) -> Self {
        Self { required: false, ..Self::required(name, kind, description) }
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
    /// The plug-in, with what came of tool calls.
    Tool,
}

/// A piece of a message. Media are named by their ids in the project; the host loads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A stored image.
    Image(String),
    /// A stored sound.
    Audio(String),
    /// A stored file of another kind.
    File(String),
    /// The model asks for a tool to be used; in messages of the assistant.
    ToolCall(ToolCall),
    /// What came of it; in messages of the role [`Role::Tool`].
    ToolResult(ToolResult),
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// At least one.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text(text.into())] }
    }

    /// Its text parts, an empty line between them.
    #[must_use]
    pub fn texts(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// The same message with one more part.
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

/// A function that the model may ask the plug-in to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// 1 to 64 of letters, digits, `_` and `-`, unique in the request.
    pub name: String,
    /// Tells the model when and how to use it.
    pub description: String,
    /// JSON Schema of the arguments, an object at its top.
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

/// Whether the model has to use a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It decides.
    #[default]
    Auto,
    /// It has to call one.
    Required,
    /// It must not call any.
    None,
    /// It has to call the one of this name.
    Named(String),
}

/// The model asks for a tool to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The result names it.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The text of a JSON object, which need not fit the schema of the tool.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as a `T`.
    ///
    /// # Errors
    /// Why they are none: good as the content of a failed result, so that the model can do better.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(&self.arguments)
            .map_err(|why| format!("the arguments of {} cannot be read: {why}", self.name))
    }

    /// What came of it: what the model is to read, or why the tool failed.
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

/// What came of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// [`ToolCall::id`].
    pub call_id: String,
    /// What the model is to read.
    pub content: String,
    /// The tool failed, and `content` says why.
    pub is_error: bool,
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
    pub messages: Vec<Message>,
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
    /// What the model may ask for.
    pub tools: Vec<Tool>,
    /// Whether it has to.
    pub tool_choice: ToolChoice,
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
        self.messages.push(Message::text(role, content));
        self
    }

    /// The same request with one more message, of any parts.
    #[must_use]
    pub fn message(mut self, message: Message) -> Self {
        self.messages.push(message);
        self
    }

    /// The same request with one more part in its last message, which is that of the user where there is none.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        match self.messages.last_mut() {
            Some(last) => last.parts.push(part),
            None => self.messages.push(Message { role: Role::User, parts: vec![part] }),
        }
        self
    }

    /// The same request with one more tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// The next request of a conversation with tools: what the model said, and what came of each of its calls.
    #[must_use]
    pub fn results(mut self, said: &Completion, results: Vec<ToolResult>) -> Self {
        let text = Some(said.text.clone()).filter(|text| !text.is_empty());
        let calls = said.tool_calls.iter().cloned().map(Part::ToolCall);
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
    /// The model waits for the results of its tool calls.
    ToolCalls,
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
    /// Tools that the model asks for.
    pub tool_calls: Vec<ToolCall>,
    /// Who answered.
    pub model: String,
    /// No provider was called.
    pub from_cache: bool,
    /// The answer in the host, which computes [`Self::probabilities`].
    #[doc(hidden)]
    pub handle: Handle,
}

/// An answer that the host holds. It says nothing of itself: two of them are equal.
#[doc(hidden)]
#[derive(Clone, Default)]
pub struct Handle {
    #[cfg(target_arch = "wasm32")]
    pub(crate) held: Option<std::rc::Rc<crate::guest::calls::Held>>,
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

/// Where in an answer a choice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'p> {
    /// The answer is the choice, and white space around it.
    Whole,
    /// In the member of this name of a JSON object: a string, a boolean or a number.
    Member(&'p str),
    /// From this byte of [`Completion::text`] on.
    Offset(usize),
}

/// How probable each choice was.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Each choice with its share, in order; the shares sum up to 1.
    pub shares: Vec<(String, f64)>,
    /// How far the most probable choice is ahead of the next one.
    pub margin: f64,
    /// The probability of all that was seen to begin a choice. Below about 0.9 the shares say little.
    pub coverage: f64,
}

impl Completion {
    /// An answer with this text, for tests.
    pub fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), model: "test".to_owned(), ..Self::default() }
    }

    /// An answer that asks for tools, for tests.
    #[must_use]
    pub fn calling(tool_calls: Vec<ToolCall>) -> Self {
        Self { finish: FinishReason::ToolCalls, tool_calls, ..Self::of("") }
    }

    /// How probable each of the choices was that could have stood at the place, from the log-probabilities of the tokens
    /// that tell them apart. `None` when there are none, or when none of the choices was begun there.
    ///
    /// Choices are plain text: `yes` and not `"yes"`, `true` for a boolean.
    #[must_use]
    pub fn probabilities(&self, choices: &[String], place: Place<'_>) -> Option<Distribution> {
        host::probabilities(self, choices, place)
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
