//! Questions of a guest that only the server can answer. Mirrors `model` and `trace-reader` of the WIT
//! package `assay:evaluator`; what the fields mean is written there.

use serde::{Deserialize, Serialize};

use crate::payload::Payload;

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostRequest {
    /// `model.complete` and `model.complete-all`.
    Complete(Vec<CompletionRequest>),
    /// `model.embed`.
    Embed {
        slot: Option<String>,
        texts: Vec<String>,
    },
    /// `trace-reader.get-trace`.
    GetTrace { trace_id: String },
    /// `trace-reader.list-observations`.
    ListObservations {
        trace_id: String,
        filter: ObservationFilter,
        cursor: Option<String>,
        limit: u32,
    },
    /// `trace-reader.read-input`, `read-output` and `read-metadata`.
    Read {
        trace_id: String,
        observation_id: String,
        part: Part,
    },
}

/// Answer to the [`HostRequest`] of the same name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostReply {
    /// One per request, in order.
    Complete(Vec<Result<Completion, ModelError>>),
    Embed(Result<Vec<Vec<f32>>, ModelError>),
    GetTrace(Result<TraceInfo, TraceError>),
    ListObservations(Result<ObservationPage, TraceError>),
    /// Metadata comes as [`Payload::Json`].
    Read(Result<Option<Payload>, TraceError>),
}

impl HostRequest {
    /// The answer to a question whose capability was not granted.
    #[must_use]
    pub fn not_granted(&self) -> HostReply {
        let model = || ModelError::NotGranted("the capability `model` was not granted".into());
        let trace = || TraceError::NotGranted("the capability `trace` was not granted".into());
        self.refused(model, trace)
    }

    /// The answer when the server cannot be asked.
    #[must_use]
    pub fn unavailable(&self, why: &str) -> HostReply {
        self.refused(
            || ModelError::Unavailable(why.to_owned()),
            || TraceError::Unavailable(why.to_owned()),
        )
    }

    fn refused(&self, model: impl Fn() -> ModelError, trace: impl Fn() -> TraceError) -> HostReply {
        match self {
            Self::Complete(requests) => {
                HostReply::Complete(requests.iter().map(|_| Err(model())).collect())
            }
            Self::Embed { .. } => HostReply::Embed(Err(model())),
            Self::GetTrace { .. } => HostReply::GetTrace(Err(trace())),
            Self::ListObservations { .. } => HostReply::ListObservations(Err(trace())),
            Self::Read { .. } => HostReply::Read(Err(trace())),
        }
    }
}

/// Part of an observation that is read on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    Input,
    Output,
    Metadata,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    System,
    User,
    Assistant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub content: String,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FinishReason {
    Stop,
    Length,
    ContentFilter,
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
    pub model: String,
    pub from_cache: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Span,
    Generation,
    Event,
    Agent,
    Tool,
    Chain,
    Retriever,
    Evaluator,
    Embedding,
    Guardrail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Severity {
    Debug,
    Standard,
    Warning,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceInfo {
    pub id: String,
    pub name: Option<String>,
    pub session_id: Option<String>,
    pub user_id: Option<String>,
    pub start_ms: u64,
    pub tags: Vec<String>,
    pub metadata: Option<String>,
    pub n_observations: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationHead {
    pub id: String,
    pub parent_id: Option<String>,
    pub kind: Kind,
    pub name: Option<String>,
    pub start_ms: u64,
    pub end_ms: Option<u64>,
    pub severity: Severity,
    pub status_message: Option<String>,
    pub model: Option<String>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub input_size: u64,
    pub output_size: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationFilter {
    pub parent_id: Option<String>,
    pub kinds: Vec<Kind>,
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationPage {
    pub observations: Vec<ObservationHead>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceError {
    NotGranted(String),
    NotFound(String),
    TooLarge(String),
    Unavailable(String),
    Cancelled,
}
