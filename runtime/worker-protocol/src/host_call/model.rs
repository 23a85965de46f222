//! Requests to models and their replies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    pub content: String,
    pub is_error: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaKind {
    Image,
    Audio,
    File,
}

impl MediaKind {
    /// The name of the part in the WIT contract.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::File => "file",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MessagePart {
    Text(String),
    /// The id of a stored medium.
    Media(MediaKind, String),
    ToolCall(ToolCall),
    ToolResult(ToolResult),
}

impl MessagePart {
    /// Bytes of its texts, without those of a medium.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Media(_, text) => text.len(),
            Self::ToolCall(call) => call.size(),
            Self::ToolResult(result) => result.call_id.len() + result.content.len(),
        }
    }
}

impl ToolCall {
    /// Bytes of its texts.
    #[must_use]
    pub fn size(&self) -> usize {
        self.id.len() + self.name.len() + self.arguments.len()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<MessagePart>,
}

impl Message {
    /// A message with one text part.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![MessagePart::Text(text.into())] }
    }

    /// The text parts, separated by blank lines.
    #[must_use]
    pub fn texts(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn size(&self) -> usize {
        self.parts.iter().map(MessagePart::size).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub description: String,
    pub parameters: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolChoice {
    #[default]
    Auto,
    Required,
    None,
    Named(String),
}

/// A stored medium with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Medium {
    pub id: String,
    /// MIME type.
    pub content_type: String,
    pub bytes: Arc<[u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheMode {
    Standard,
    Refresh,
    Bypass,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompletionRequest {
    pub slot: Option<String>,
    pub messages: Vec<Message>,
    pub response_schema: Option<String>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub max_output_tokens: Option<u32>,
    pub seed: Option<u64>,
    pub stop: Vec<String>,
    pub top_logprobs: Option<u8>,
    pub cache: CacheMode,
    pub extra: Option<String>,
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    /// The media that the messages refer to. Loaded by the server and never sent over the socket, so that a worker
    /// cannot forge them.
    #[serde(skip)]
    pub media: Vec<Medium>,
}

impl CompletionRequest {
    /// A request without parameters.
    #[must_use]
    pub const fn new(messages: Vec<Message>) -> Self {
        Self {
            slot: None,
            messages,
            response_schema: None,
            temperature: None,
            top_p: None,
            max_output_tokens: None,
            seed: None,
            stop: Vec::new(),
            top_logprobs: None,
            cache: CacheMode::Standard,
            extra: None,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            media: Vec::new(),
        }
    }

    /// The ids of media in the messages, with repetitions: a medium is sent once for each reference.
    pub fn media_ids(&self) -> impl Iterator<Item = &str> {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.filter_map(|part| match part {
            MessagePart::Media(_, id) => Some(id.as_str()),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishReason {
    Stop,
    Length,
    ContentFilter,
    ToolCalls,
    Other,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenAlternative {
    pub token: String,
    pub logprob: f32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    pub token: String,
    pub logprob: f32,
    pub alternatives: Vec<TokenAlternative>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub text: String,
    pub structured: Option<String>,
    pub finish: FinishReason,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub logprobs: Vec<TokenLogprob>,
    pub tool_calls: Vec<ToolCall>,
    pub model: String,
    pub from_cache: bool,
}

impl Completion {
    /// Approximate size in memory, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        /// Bytes of a token in addition to its text.
        const TOKEN: usize = 32;
        let token = |own: &TokenLogprob| {
            let others = own.alternatives.iter();
            let others: usize = others.map(|other| TOKEN + other.token.len()).sum();
            TOKEN + own.token.len() + others
        };
        let calls: usize = self.tool_calls.iter().map(ToolCall::size).sum();
        let structured = self.structured.as_ref().map_or(0, String::len);
        let logprobs: usize = self.logprobs.iter().map(token).sum();
        self.text.len() + structured + self.model.len() + calls + logprobs
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelError {
    NotGranted(String),
    InvalidRequest(String),
    BudgetExhausted(String),
    Timeout(String),
    RateLimited(String),
    Refused(String),
    InvalidResponse(String),
    Unavailable(String),
    Cancelled,
}
