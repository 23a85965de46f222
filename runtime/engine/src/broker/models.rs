//! Language models as evaluators reach them: a port, and what stands there while none is configured.

use futures_util::future::BoxFuture;
use perpend_domain::plugin::Origin;
use perpend_protocol::host_call::{Completion, CompletionRequest, ModelError};

/// Calls models in the name of an evaluator that was granted them. Limits, budgets, retries and the
/// choice of provider are the implementor's; several requests of one evaluation come at the same time.
pub trait Models: Send + Sync {
    /// One chat completion.
    fn complete<'a>(
        &'a self,
        origin: &'a Origin,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelError>>;

    /// One vector per text, in order.
    fn embed<'a>(
        &'a self,
        origin: &'a Origin,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>>;
}

/// A server without model providers.
#[derive(Clone, Copy, Debug)]
pub struct NoModels;

fn nothing_in(slot: Option<&str>) -> ModelError {
    let slot = slot.map_or("the default slot".to_owned(), |slot| {
        format!("slot {slot:?}")
    });
    // Not `unavailable`: that would be retried, and no retry configures a provider.
    ModelError::NotGranted(format!(
        "no model provider is configured on this server, so {slot} has no model"
    ))
}

impl Models for NoModels {
    fn complete<'a>(
        &'a self,
        _: &'a Origin,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let error = nothing_in(request.slot.as_deref());
        Box::pin(std::future::ready(Err(error)))
    }

    fn embed<'a>(
        &'a self,
        _: &'a Origin,
        slot: Option<String>,
        _: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelError>> {
        let error = nothing_in(slot.as_deref());
        Box::pin(std::future::ready(Err(error)))
    }
}
