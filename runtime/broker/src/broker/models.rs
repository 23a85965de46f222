//! Language models as evaluators reach them: a port, and what answers where none can be reached.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{CallOrigin, FailureClass};
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::Timestamp;
use perpend_worker_protocol::host_call::{Completion, CompletionRequest};

/// Calls models on behalf of an evaluator that was granted them. Limits, budgets and the choice of provider are the
/// implementor's; several requests of one evaluation come at the same time. `number` counts the model calls of the
/// attempt from 0.
pub trait Models: Send + Sync {
    /// One chat completion. The requests of an evaluation are made in the order of their numbers.
    fn complete<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        number: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>>;

    /// One vector per text, in order.
    fn embed<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>>;

    /// Whether the connection of this id accepts no requests for now.
    fn closed_connection(&self, _connection: &str) -> Option<ClosedConnection> {
        None
    }
}

impl fmt::Debug for dyn Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Models")
    }
}

/// A connection that accepts no requests, because its provider asked to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// When the provider asked for it.
    pub since: Timestamp,
    /// When the next request may start.
    pub until: Timestamp,
}

/// For tests of what comes before a model.
#[derive(Clone, Copy, Debug)]
pub struct NoModels;

fn nothing_in(slot: Option<&str>) -> ModelFailure {
    let slot = slot.map_or("the default slot".to_owned(), |slot| format!("slot {slot:?}"));
    let message = format!("this server asks no models, so {slot} has none");
    ModelFailure::new(FailureClass::PluginError, message)
}

impl Models for NoModels {
    fn complete<'a>(
        &'a self,
        _: &'a Arc<CallOrigin>,
        _: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        let failure = nothing_in(request.slot.as_deref());
        Box::pin(std::future::ready(Err(failure)))
    }

    fn embed<'a>(
        &'a self,
        _: &'a Arc<CallOrigin>,
        _: usize,
        slot: Option<String>,
        _: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>> {
        let failure = nothing_in(slot.as_deref());
        Box::pin(std::future::ready(Err(failure)))
    }
}
