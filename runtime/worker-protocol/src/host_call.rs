//! Questions of a guest that only the server can answer. Mirrors `model` and the readers of the WIT
//! package `perpend:evaluator`; what the fields mean is written there.

mod asking;
mod reading;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use perpend_domain::payload::Payload;

pub use asking::*;
pub use reading::*;

/// Answers the host calls of one evaluation.
pub trait Port: Send + Sync {
    /// The reply to `request`.
    fn ask(
        &self,
        request: HostRequest,
    ) -> Pin<Box<dyn Future<Output = HostReply> + Send + 'static>>;
}

/// Model calls of one evaluation; each request of `complete-all` is one.
pub const MAX_MODEL_CALLS: usize = 64;
/// Bytes of traces that one evaluation reads.
pub const MAX_READ_BYTES: usize = 64 << 20;

/// Questions about traces that one evaluation may ask, and bytes that the server may look through for the answers, handed
/// over or not.
pub const MAX_LOOKS: usize = 10_000;
/// The same in bytes.
pub const MAX_LOOKED_BYTES: usize = 1 << 30;

/// What one evaluation has asked for so far. Counted where it runs and again where it is answered: the one
/// cannot be relied on, and saves the other most of the questions.
#[derive(Debug, Default)]
pub struct Allowance {
    n_model_calls: AtomicUsize,
    n_read_bytes: AtomicUsize,
    n_looks: AtomicUsize,
    n_looked_bytes: AtomicUsize,
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
            let message = format!("{} MiB of traces were read in this call", MAX_READ_BYTES >> 20);
            return Err(TraceError::TooLarge(message));
        }
        Ok(())
    }

    /// Counts a question about a trace.
    ///
    /// # Errors
    /// When there were enough.
    pub fn ask_trace(&self) -> Result<(), TraceError> {
        match add(&self.n_looks, 1) {
            n if MAX_LOOKS < n => Err(TraceError::TooLarge(format!(
                "{MAX_LOOKS} questions about traces were asked in this call"
            ))),
            _ => Ok(()),
        }
    }

    /// Counts bytes of a trace that were looked through for an answer.
    ///
    /// # Errors
    /// When they are more than are left. They count all the same.
    pub fn look(&self, n_bytes: usize) -> Result<(), TraceError> {
        match add(&self.n_looked_bytes, n_bytes) {
            n if MAX_LOOKED_BYTES < n => Err(TraceError::TooLarge(format!(
                "{} MiB of traces were looked through in this call",
                MAX_LOOKED_BYTES >> 20
            ))),
            _ => Ok(()),
        }
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
    Embed { slot: Option<String>, texts: Vec<String> },
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
    Read { trace_id: String, observation_id: String, part: ObservationPart },
    /// `trace-reader.outline`.
    Outline { trace_id: String, parent_id: Option<String>, cursor: Option<String>, limit: u32 },
    /// `trace-reader.search`.
    Search { trace_id: String, text: String, limit: u32 },
    /// `trace-reader.read-range`.
    ReadRange {
        trace_id: String,
        observation_id: String,
        part: ObservationPart,
        offset: u64,
        length: u32,
    },
    /// `session-reader.get-session`.
    GetSession { session_id: String },
    /// `session-reader.list-traces`.
    ListTraces { session_id: String, cursor: Option<String>, limit: u32 },
    /// `run-reader.get-run`.
    GetRun { run_id: String },
    /// `run-reader.list-items`.
    ListRunItems { run_id: String, cursor: Option<String>, limit: u32 },
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
    Outline(Result<OutlinePage, TraceError>),
    Search(Result<Vec<Hit>, TraceError>),
    ReadRange(Result<Option<Slice>, TraceError>),
    GetSession(Result<SessionInfo, TraceError>),
    ListTraces(Result<TracePage, TraceError>),
    GetRun(Result<RunInfo, TraceError>),
    ListRunItems(Result<RunPage, TraceError>),
}

impl HostReply {
    /// Bytes of recorded data that are in it.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
        match self {
            Self::GetTrace(Ok(info)) => info.size(),
            Self::ListObservations(Ok(page)) => page.size(),
            Self::Read(Ok(Some(payload))) => payload.as_str().len(),
            Self::Outline(Ok(page)) => page.size(),
            Self::Search(Ok(hits)) => hits.iter().map(Hit::size).sum(),
            Self::ReadRange(Ok(Some(slice))) => slice.text.len(),
            Self::GetSession(Ok(info)) => info.size(),
            Self::ListTraces(Ok(page)) => page.size(),
            Self::GetRun(Ok(info)) => info.size(),
            Self::ListRunItems(Ok(page)) => page.size(),
            _ => 0,
        }
    }
}

impl HostRequest {
    /// Whether it asks a model. The server limits the time of such requests itself.
    #[must_use]
    pub const fn is_of_model(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Embed { .. })
    }

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
            Self::Outline { .. } => HostReply::Outline(Err(trace())),
            Self::Search { .. } => HostReply::Search(Err(trace())),
            Self::ReadRange { .. } => HostReply::ReadRange(Err(trace())),
            Self::GetSession { .. } => HostReply::GetSession(Err(trace())),
            Self::ListTraces { .. } => HostReply::ListTraces(Err(trace())),
            Self::GetRun { .. } => HostReply::GetRun(Err(trace())),
            Self::ListRunItems { .. } => HostReply::ListRunItems(Err(trace())),
        }
    }
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
