//! Questions of a guest that only the server can answer. Mirrors `model` and `trace-reader` of the WIT
//! package `perpend:evaluator`; what the fields mean is written there.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use perpend_domain::payload::Payload;

/// Model calls of one evaluation; each request of `complete-all` is one.
pub const MAX_MODEL_CALLS: usize = 64;
/// Bytes of traces that one evaluation reads.
pub const MAX_READ_BYTES: usize = 64 << 20;

/// What one evaluation has asked for so far. Counted where it runs and again where it is answered: the one
/// cannot be relied on, and saves the other most of the questions.
#[derive(Debug, Default)]
pub struct Allowance {
    n_model_calls: AtomicUsize,
    n_read_bytes: AtomicUsize,
}

impl Allowance {
    /// Counts model calls that are about to be made; the number of the first of them, from 0.
    ///
    /// # Errors
    /// When they are more than are left. They count all the same.
    pub fn ask_models(&self, n_calls: usize) -> Result<usize, ModelError> {
        let n = add(&self.n_model_calls, n_calls);
        if MAX_MODEL_CALLS < n {
            let message = format!("{MAX_MODEL_CALLS} model calls per evaluation");
            return Err(ModelError::BudgetExhausted(message));
        }
        Ok(n.saturating_sub(n_calls))
    }

    /// Counts bytes of a trace that are about to be handed over.
    ///
    /// # Errors
    /// When they are more than are left. They count all the same.
    pub fn read(&self, n_bytes: usize) -> Result<(), TraceError> {
        let n = add(&self.n_read_bytes, n_bytes);
        if MAX_READ_BYTES < n {
            let message = format!(
                "{} MiB of traces were read in this call",
                MAX_READ_BYTES >> 20
            );
            return Err(TraceError::TooLarge(message));
        }
        Ok(())
    }
}

/// The sum. It does not wrap: one addend is far over every limit, and 4 billion of them are not made.
fn add(counter: &AtomicUsize, n: usize) -> usize {
    let n = n.min(u32::MAX as usize);
    counter.fetch_add(n, Ordering::Relaxed).saturating_add(n)
}

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

impl HostReply {
    /// Bytes of a trace that are in it.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
        match self {
            Self::GetTrace(Ok(info)) => info.size(),
            Self::ListObservations(Ok(page)) => page.size(),
            Self::Read(Ok(Some(payload))) => payload.as_str().len(),
            _ => 0,
        }
    }
}

impl HostRequest {
    /// The answer when the evaluation has read too much.
    #[must_use]
    pub fn trace_refused(&self, error: &TraceError) -> HostReply {
        let none = || ModelError::Unavailable("a trace was asked for".into());
        self.refused(none, || error.clone())
    }

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

impl TraceInfo {
    /// Bytes it counts for.
    #[must_use]
    pub fn size(&self) -> usize {
        let tags: usize = self.tags.iter().map(String::len).sum();
        self.id.len() + length(&self.name) + length(&self.metadata) + tags
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
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

impl ObservationPage {
    /// Bytes it counts for.
    #[must_use]
    pub fn size(&self) -> usize {
        let heads = self.observations.iter();
        let size = |head: &ObservationHead| {
            128 + head.id.len() + length(&head.name) + length(&head.status_message)
        };
        heads.map(size).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TraceError {
    NotGranted(String),
    NotFound(String),
    TooLarge(String),
    Unavailable(String),
    Cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_allowance_is_refused_and_so_is_what_comes_after_it() {
        let allowance = Allowance::default();
        assert_eq!(allowance.ask_models(60), Ok(0));
        assert_eq!(allowance.ask_models(2), Ok(60));
        assert!(allowance.ask_models(5).is_err());
        assert!(allowance.ask_models(1).is_err());
        assert_eq!(allowance.read(MAX_READ_BYTES), Ok(()));
        assert!(allowance.read(1).is_err());
        for _ in 0..3 {
            assert!(allowance.read(usize::MAX).is_err());
        }
    }
}
