//! The port through which evaluators call models, and an implementation without models.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use perpend_catalog::connections::Connection;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallOrigin, FailureClass};
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::Timestamp;
use perpend_llm::{ConnectionUsage, LearnedModel};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest};

/// Calls models on behalf of an evaluator with the capability `model`. The implementation enforces limits and budgets and
/// selects the provider. An evaluation makes several requests concurrently. `number` counts the model calls of the attempt
/// from 0.
pub trait Models: Send + Sync {
    /// One chat completion. Called in the order of the numbers.
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

    /// The period in which the connection with this id accepts no requests; `None` when it accepts requests.
    fn closed_connection(&self, _connection: &str) -> Option<ClosedConnection> {
        None
    }

    /// The requests of this server on the connection with this id.
    fn connection_usage(&self, _connection: &str) -> ConnectionUsage {
        ConnectionUsage::default()
    }

    /// Capabilities of the models of a connection, as observed in calls of this server; by model.
    fn learned_models(&self, _project: &ProjectId, _connection: &Connection) -> Vec<LearnedModel> {
        Vec::new()
    }
}

impl fmt::Debug for dyn Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Models")
    }
}

/// The period in which a connection accepts no requests because of the rate limit of its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedConnection {
    /// When the provider rejected a request.
    pub since: Timestamp,
    /// When the next request may start.
    pub until: Timestamp,
}

/// Fails every call. For tests and commands that need no model.
#[derive(Clone, Copy, Debug)]
pub struct NoModels;

fn no_model(slot: Option<&str>) -> ModelFailure {
    let message = match slot {
        Some(slot) => format!("this server has no models for the slot {slot:?}"),
        None => "this server has no models".to_owned(),
    };
    ModelFailure::new(FailureClass::PluginError, message)
}

impl Models for NoModels {
    fn complete<'a>(
        &'a self,
        _: &'a Arc<CallOrigin>,
        _: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        let failure = no_model(request.slot.as_deref());
        Box::pin(std::future::ready(Err(failure)))
    }

    fn embed<'a>(
        &'a self,
        _: &'a Arc<CallOrigin>,
        _: usize,
        slot: Option<String>,
        _: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>> {
        let failure = no_model(slot.as_deref());
        Box::pin(std::future::ready(Err(failure)))
    }
}
