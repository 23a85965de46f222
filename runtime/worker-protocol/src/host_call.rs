//! Calls of a guest that only the server can serve. Mirrors `model` and the readers of the WIT package
//! `perpend:evaluator`, which documents the fields.

mod model;
mod readers;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use perpend_domain::payload::Payload;

pub use model::*;
pub use readers::*;

/// Serves the host calls of one evaluation.
pub trait Port: Send + Sync {
    /// Serves one host call.
    fn call(
        &self,
        request: HostRequest,
    ) -> Pin<Box<dyn Future<Output = HostReply> + Send + 'static>>;
}

/// Maximum number of model calls of one evaluation; each request of `complete-all` counts as one.
pub const MAX_MODEL_CALLS: usize = 64;
/// Maximum number of bytes of traces that one evaluation reads.
pub const MAX_READ_BYTES: usize = 64 << 20;
/// Maximum number of trace queries of one evaluation.
pub const MAX_TRACE_QUERIES: usize = 10_000;
/// Maximum number of bytes that the server scans for the trace queries of one evaluation, whether it returns them or not.
pub const MAX_SCANNED_BYTES: usize = 1 << 30;

/// Counters of the host calls of one evaluation. The worker counts to spare the server most of the excess calls; the
/// server counts again because it does not trust the worker.
#[derive(Debug, Default)]
pub struct Allowance {
    n_model_calls: AtomicUsize,
    n_read_bytes: AtomicUsize,
    n_trace_queries: AtomicUsize,
    n_scanned_bytes: AtomicUsize,
}

impl Allowance {
    /// Counts model calls before they are made. Returns the number of the first of them, from 0.
    ///
    /// # Errors
    /// When the limit is exceeded. The calls count nevertheless.
    pub fn count_model_calls(&self, n_calls: usize) -> Result<usize, ModelError> {
        let n = add(&self.n_model_calls, n_calls);
        if MAX_MODEL_CALLS < n {
            let message = format!("an evaluation can make at most {MAX_MODEL_CALLS} model calls");
            return Err(ModelError::BudgetExhausted(message));
        }
        Ok(n.saturating_sub(n_calls))
    }

    /// Counts bytes of a trace before they are returned to the guest.
    ///
    /// # Errors
    /// When the limit is exceeded. The bytes count nevertheless.
    pub fn count_read(&self, n_bytes: usize) -> Result<(), TraceError> {
        let n = add(&self.n_read_bytes, n_bytes);
        if MAX_READ_BYTES < n {
            let limit = MAX_READ_BYTES >> 20;
            let message = format!("an evaluation can read at most {limit} MiB of traces");
            return Err(TraceError::TooLarge(message));
        }
        Ok(())
    }

    /// Counts a trace query.
    ///
    /// # Errors
    /// When the limit is exceeded.
    pub fn count_trace_query(&self) -> Result<(), TraceError> {
        match add(&self.n_trace_queries, 1) {
            n if MAX_TRACE_QUERIES < n => Err(TraceError::TooLarge(format!(
                "an evaluation can make at most {MAX_TRACE_QUERIES} trace queries"
            ))),
            _ => Ok(()),
        }
    }

    /// Counts bytes of a trace that were scanned for a query.
    ///
    /// # Errors
    /// When the limit is exceeded. The bytes count nevertheless.
    pub fn count_scanned(&self, n_bytes: usize) -> Result<(), TraceError> {
        match add(&self.n_scanned_bytes, n_bytes) {
            n if MAX_SCANNED_BYTES < n => Err(TraceError::TooLarge(format!(
                "the queries of an evaluation can scan at most {} MiB of traces",
                MAX_SCANNED_BYTES >> 20
            ))),
            _ => Ok(()),
        }
    }
}

/// Adds and returns the sum. The counter does not wrap: an addend is at most 2^32, and fewer than 2^32 calls are made.
fn add(counter: &AtomicUsize, n: usize) -> usize {
    let n = n.min(u32::MAX as usize);
    counter.fetch_add(n, Ordering::Relaxed).saturating_add(n)
}

/// One host call.
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
    /// Bytes of recorded data in the reply.
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
    /// Whether it calls a model. The server limits the time of such requests itself.
    #[must_use]
    pub const fn is_model_call(&self) -> bool {
        matches!(self, Self::Complete(_) | Self::Embed { .. })
    }

    /// The reply to a trace query that failed.
    #[must_use]
    pub fn trace_error(&self, error: &TraceError) -> HostReply {
        let none = || ModelError::Unavailable("the request is a trace query".into());
        self.error(none, || error.clone())
    }

    /// The reply when the capability was not granted.
    #[must_use]
    pub fn not_granted(&self) -> HostReply {
        let model = || ModelError::NotGranted("the capability `model` was not granted".into());
        let trace = || TraceError::NotGranted("the capability `trace` was not granted".into());
        self.error(model, trace)
    }

    /// The reply when the server cannot serve the call.
    #[must_use]
    pub fn unavailable(&self, reason: &str) -> HostReply {
        self.error(
            || ModelError::Unavailable(reason.to_owned()),
            || TraceError::Unavailable(reason.to_owned()),
        )
    }

    fn error(&self, model: impl Fn() -> ModelError, trace: impl Fn() -> TraceError) -> HostReply {
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
    fn calls_over_the_allowance_and_all_later_ones_are_rejected() {
        let allowance = Allowance::default();
        assert_eq!(allowance.count_model_calls(60), Ok(0));
        assert_eq!(allowance.count_model_calls(2), Ok(60));
        assert!(allowance.count_model_calls(5).is_err());
        assert!(allowance.count_model_calls(1).is_err());
        assert_eq!(allowance.count_read(MAX_READ_BYTES), Ok(()));
        assert!(allowance.count_read(1).is_err());
        for _ in 0..3 {
            assert!(allowance.count_read(usize::MAX).is_err());
        }
    }
}
