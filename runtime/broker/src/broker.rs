//! Answers what guests ask of the server: models and traces.
//!
//! Invariants:
//! - **The worker is not believed.** Who asks, and what was granted, comes from the call as the server
//!   made it; a worker only names calls it was given.
//! - **Budgets are counted here.** Model calls and bytes of traces of one evaluation are counted in the
//!   worker too, which spares both sides most of what goes over them.
//! - **Only the item's trace.** A guest reads the trace its item belongs to, and those of the session or run that its item
//!   is, of the project that evaluates, and nothing else: whatever it names is held against the item.
//! - **Only media that it could read of.** A medium goes to a model when such a trace has it.
//! - **No secrets.** A guest gives a slot and messages; providers, keys and addresses stay on this side.

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
use traces::{Readable, Reader};

/// Requests of one `complete-all` (the contract says so).
const MAX_REQUESTS: usize = 64;
/// Guests may ask by the thousand; the memory of the server is not theirs.
const MAX_READING: usize = 4;

/// Checks grants and passes questions on.
#[derive(Clone)]
pub struct Broker {
    store: Store,
    models: Arc<dyn Models>,
    media: Media,
    /// Questions about traces that are answered at a time: each may hold the contents of a page.
    reading: Arc<Semaphore>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// Reads from `store` and asks `models`.
    #[must_use]
    pub fn new(store: &Store, models: Arc<dyn Models>) -> Self {
        Self {
            store: store.clone(),
            models,
            media: Media::new(&store.telemetry),
            reading: Arc::new(Semaphore::new(MAX_READING)),
        }
    }

    /// The port of one call that runs in this process.
    pub fn port(&self, call: &EvaluationCall) -> Arc<dyn Port> {
        Arc::new(CallPort {
            broker: self.clone(),
            origin: call.origin.clone(),
            readable: Readable::of(&call.item),
            allowance: Arc::default(),
        })
    }

    async fn answer(
        &self,
        origin: Option<&Arc<CallOrigin>>,
        readable: &Readable,
        allowance: &Allowance,
        request: HostRequest,
    ) -> HostReply {
        let is_granted = |origin: &&Arc<CallOrigin>| match request.is_model_call() {
            true => origin.maker.grants.model,
            false => origin.maker.grants.trace_reader,
        };
        let Some(origin) = origin.filter(is_granted) else {
            return request.not_granted();
        };
        match request {
            HostRequest::Complete(requests) if MAX_REQUESTS < requests.len() => {
                let message = format!("at most {MAX_REQUESTS} requests at a time");
                let refused = |_| Err(ModelError::InvalidRequest(message.clone()));
                HostReply::Complete(requests.iter().map(refused).collect())
            }
            HostRequest::Complete(requests) => {
                HostReply::Complete(self.complete(origin, readable, allowance, requests).await)
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
                HostReply::Embed(answer.map_err(|failure| noted(origin, failure)))
            }
            of_trace => {
                // Nothing more is read where the allowance is spent.
                if let Err(spent) =
                    allowance.count_read(0).and_then(|()| allowance.count_trace_query())
                {
                    return of_trace.trace_error(&spent);
                }
                let Ok(_turn) = self.reading.acquire().await else {
                    return of_trace.unavailable("the server is ending");
                };
                let reader = Reader {
                    store: &self.store,
                    project: &origin.maker.project,
                    readable,
                    allowance,
                };
                let reply = reader.answer(of_trace.clone()).await;
                match allowance.count_read(reply.read_bytes()) {
                    Ok(()) => reply,
                    Err(spent) => of_trace.trace_error(&spent),
                }
            }
        }
    }
}

impl Broker {
    /// The answers to some requests, in order.
    async fn complete(
        &self,
        origin: &Arc<CallOrigin>,
        readable: &Readable,
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
        let project = &origin.maker.project;
        let loading = self.media.load(project, readable, allowance, &mut requests);
        // What was loaded counts until the answers are there.
        let loaded = match loading.await {
            Ok(loaded) => loaded,
            Err(failure) => {
                let error = noted(origin, failure);
                return requests.iter().map(|_| Err(error.clone())).collect();
            }
        };
        // Made in order, answered together.
        let made = requests.into_iter().enumerate();
        let made = made.map(|(at, request)| self.models.complete(origin, first + at, request));
        let made: Vec<_> = made.collect();
        let all = made.into_iter().map(async |answer| {
            let answer = answer.await;
            answer.map_err(|failure| noted(origin, failure))
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

/// Notes a failure with the call and says as much of it as the contract of guests knows.
fn noted(origin: &CallOrigin, failure: ModelFailure) -> ModelError {
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
            let readable = Readable::of(&caller.call.item);
            self.answer(origin, &readable, &caller.allowance, request).await
        })
    }
}

struct CallPort {
    broker: Broker,
    origin: Option<Arc<CallOrigin>>,
    readable: Readable,
    allowance: Arc<Allowance>,
}

impl Port for CallPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let (broker, origin) = (self.broker.clone(), self.origin.clone());
        let (readable, allowance) = (self.readable.clone(), Arc::clone(&self.allowance));
        Box::pin(
            async move { broker.answer(origin.as_ref(), &readable, &allowance, request).await },
        )
    }
}
