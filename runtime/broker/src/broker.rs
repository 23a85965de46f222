//! Serves the host calls of guests: models and readers.
//!
//! Invariants:
//! - **Workers are not trusted.** The project and the grants are those of the call that the server made; a worker only
//!   refers to calls that it received.
//! - **Limits are enforced here.** Model calls and bytes of traces of one evaluation are also counted in the worker, only
//!   to avoid most of the excess host calls.
//! - **Only the item's traces.** A guest can read the trace of its item, or the traces of the session or run that its item
//!   represents, in the project of the evaluation.
//! - **Only media of readable traces.** A medium is sent to a model only when such a trace contains it.
//! - **No secrets.** A guest passes a slot and messages; providers, keys and URLs are not exposed to it.

mod media;
mod models;
mod outline;
mod runs;
mod search;
mod sessions;
mod traces;

use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use perpend_domain::plugin::{CallOrigin, EvaluationCall, FailureClass};
use perpend_domain::slots::ModelFailure;
use perpend_storage::Store;
use perpend_worker_pool::{Caller, HostCalls};
use perpend_worker_protocol::host_call::{Allowance, Completion, CompletionRequest, ModelError};
use perpend_worker_protocol::{HostReply, HostRequest, Port};
use tokio::sync::Semaphore;

use media::Media;
pub use models::{ClosedConnection, Models, NoModels};
use traces::{ReadScope, Reader};

/// Maximum number of requests of one `complete-all`, as in the WIT contract.
const MAX_REQUESTS: usize = 64;
/// Maximum number of concurrent trace queries; each may hold the contents of a page in memory.
const MAX_CONCURRENT_READS: usize = 4;

/// Authorizes and serves host calls.
#[derive(Clone)]
pub struct Broker {
    store: Store,
    models: Arc<dyn Models>,
    media: Media,
    reads: Arc<Semaphore>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// Reads traces from `store` and calls `models`.
    #[must_use]
    pub fn new(store: &Store, models: Arc<dyn Models>) -> Self {
        Self {
            store: store.clone(),
            models,
            media: Media::new(&store.telemetry),
            reads: Arc::new(Semaphore::new(MAX_CONCURRENT_READS)),
        }
    }

    /// The port for a call that runs in this process.
    pub fn port(&self, call: &EvaluationCall) -> Arc<dyn Port> {
        Arc::new(CallPort {
            broker: self.clone(),
            origin: call.origin.clone(),
            read_scope: ReadScope::of(&call.item),
            allowance: Arc::default(),
        })
    }

    async fn answer(
        &self,
        origin: Option<&Arc<CallOrigin>>,
        read_scope: &ReadScope,
        allowance: &Allowance,
        request: HostRequest,
    ) -> HostReply {
        let is_granted = |origin: &&Arc<CallOrigin>| match request.is_model_call() {
            true => origin.context.grants.model,
            false => origin.context.grants.trace_reader,
        };
        let Some(origin) = origin.filter(is_granted) else {
            return request.not_granted();
        };
        match request {
            HostRequest::Complete(requests) if MAX_REQUESTS < requests.len() => {
                let message = format!(
                    "`complete-all` takes at most {MAX_REQUESTS} requests, got {}",
                    requests.len()
                );
                let error = |_| Err(ModelError::InvalidRequest(message.clone()));
                HostReply::Complete(requests.iter().map(error).collect())
            }
            HostRequest::Complete(requests) => {
                HostReply::Complete(self.complete(origin, read_scope, allowance, requests).await)
            }
            HostRequest::Embed { slot, texts } => {
                let number = match allowance.count_model_calls(1) {
                    Ok(number) => number,
                    Err(spent) => {
                        origin.notes.failed(over_allowance(&spent));
                        return HostReply::Embed(Err(spent));
                    }
                };
                let answer = self.models.embed(origin, number, slot, texts).await;
                HostReply::Embed(answer.map_err(|failure| recorded(origin, failure)))
            }
            query => {
                // Checked before the query: an exhausted allowance needs no query.
                if let Err(spent) =
                    allowance.count_read(0).and_then(|()| allowance.count_trace_query())
                {
                    return query.trace_error(&spent);
                }
                let Ok(_permit) = self.reads.acquire().await else {
                    return query.unavailable("the server is shutting down");
                };
                let reader = Reader {
                    store: &self.store,
                    project: &origin.context.project,
                    read_scope,
                    allowance,
                };
                let reply = reader.answer(query.clone()).await;
                match allowance.count_read(reply.read_bytes()) {
                    Ok(()) => reply,
                    Err(spent) => query.trace_error(&spent),
                }
            }
        }
    }
}

impl Broker {
    /// The replies to the requests, in order.
    async fn complete(
        &self,
        origin: &Arc<CallOrigin>,
        read_scope: &ReadScope,
        allowance: &Allowance,
        mut requests: Vec<CompletionRequest>,
    ) -> Vec<Result<Completion, ModelError>> {
        let first = match allowance.count_model_calls(requests.len()) {
            Ok(first) => first,
            Err(spent) => {
                origin.notes.failed(over_allowance(&spent));
                return requests.iter().map(|_| Err(spent.clone())).collect();
            }
        };
        let project = &origin.context.project;
        let loading = self.media.load(project, read_scope, allowance, &mut requests);
        // The permit covers the loaded media until all replies are complete.
        let loaded = match loading.await {
            Ok(loaded) => loaded,
            Err(failure) => {
                let error = recorded(origin, failure);
                return requests.iter().map(|_| Err(error.clone())).collect();
            }
        };
        // The calls are created in order and awaited concurrently.
        let calls = requests.into_iter().enumerate();
        let calls = calls.map(|(at, request)| self.models.complete(origin, first + at, request));
        let calls: Vec<_> = calls.collect();
        let all = calls.into_iter().map(async |answer| {
            let answer = answer.await;
            answer.map_err(|failure| recorded(origin, failure))
        });
        let answers = join_all(all).await;
        drop(loaded);
        answers
    }
}

fn over_allowance(error: &ModelError) -> ModelFailure {
    let message = match error {
        ModelError::BudgetExhausted(message) => message.clone(),
        _ => "too many model calls".to_owned(),
    };
    ModelFailure::new(FailureClass::PluginError, message)
}

/// Records a failure with the call, and converts it to the error of the WIT contract.
fn recorded(origin: &CallOrigin, failure: ModelFailure) -> ModelError {
    let text = failure.message.clone();
    let error = match failure.class {
        FailureClass::RateLimited => ModelError::RateLimited(text),
        FailureClass::UpstreamTimeout => ModelError::Timeout(text),
        FailureClass::MalformedOutput => ModelError::InvalidResponse(text),
        FailureClass::Refused => ModelError::Refused(text),
        FailureClass::BudgetExhausted => ModelError::BudgetExhausted(text),
        FailureClass::ContextTooLong | FailureClass::InvalidInput => {
            ModelError::InvalidRequest(text)
        }
        FailureClass::PluginError => ModelError::NotGranted(text),
        FailureClass::Cancelled => ModelError::Cancelled,
        _ => ModelError::Unavailable(text),
    };
    origin.notes.failed(failure);
    error
}

impl HostCalls for Broker {
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        Box::pin(async move {
            let origin = caller.call.origin.as_ref();
            let read_scope = ReadScope::of(&caller.call.item);
            self.answer(origin, &read_scope, &caller.allowance, request).await
        })
    }
}

struct CallPort {
    broker: Broker,
    origin: Option<Arc<CallOrigin>>,
    read_scope: ReadScope,
    allowance: Arc<Allowance>,
}

impl Port for CallPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let (broker, origin) = (self.broker.clone(), self.origin.clone());
        let (read_scope, allowance) = (self.read_scope.clone(), Arc::clone(&self.allowance));
        Box::pin(
            async move { broker.answer(origin.as_ref(), &read_scope, &allowance, request).await },
        )
    }
}
