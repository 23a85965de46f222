//! Model calls of evaluators: resolves a slot to a connection, decrypts its secrets, calls the provider, and records the
//! cost and the answer of each exchange before the answer is used.

mod budget_queue;
mod exchanges;
mod generation;
mod recent_costs;
mod reuse;
mod target;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_catalog::connections::Connection;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallOrigin, Digest};
use perpend_domain::slots::ModelFailure;
use perpend_executions::CallKey;
use perpend_llm::{ConnectionUsage, LearnedModel};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest};
use serde_json::{Value, json};

use crate::broker::{ClosedConnection, Models};
use exchanges::Exchanges;
use reuse::{ReplyCacheKey, ReuseRequest};
use target::{ModelTarget, database_failure, llm_settings, model_failure};

pub use budget_queue::BudgetQueues;
pub use recent_costs::RecentCosts;
pub use target::ConnectedModels;

impl ConnectedModels {
    /// Prepares the exchanges of a call, which may repeat a call of an earlier attempt.
    ///
    /// A failing database ends the call: without its records the call could pay for the same answer twice.
    async fn exchanges(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        (target, request): (&Arc<ModelTarget>, &Value),
        cache_key: Option<ReplyCacheKey>,
    ) -> Result<Arc<Exchanges>, ModelFailure> {
        let key = CallKey {
            call: u32::try_from(number).unwrap_or(u32::MAX),
            request: digest(target, request),
        };
        let exchanges = Exchanges::begin(self, origin, target, (key, cache_key)).await;
        let exchanges = exchanges.map_err(|error| model_failure(database_failure(&error)))?;
        Ok(Arc::new(exchanges))
    }

    async fn complete_request(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        request: CompletionRequest,
        reuse: Option<ReuseRequest>,
    ) -> Result<Completion, ModelFailure> {
        let target = Arc::new(self.resolve(origin, request.slot.as_deref()).await?);
        let request_json = json!(request);
        let cache_key = reuse.map(|reuse| reuse.of(origin, &target.endpoint));
        let exchanges = self.exchanges(origin, number, (&target, &request_json), cache_key);
        let exchanges = exchanges.await?;
        let (choice, limits) = llm_settings(&target.slot, &target.choice);
        let observer = exchanges.clone();
        let llm = &self.llm;
        let answer = llm.complete(&target.endpoint, &choice, &limits, &request, observer);
        exchanges.end(answer.await).await
    }

    async fn vectors(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, ModelFailure> {
        let target = Arc::new(self.resolve(origin, slot.as_deref()).await?);
        let request_json = json!({ "embed": texts });
        let exchanges = self.exchanges(origin, number, (&target, &request_json), None);
        let exchanges = exchanges.await?;
        let (choice, limits) = llm_settings(&target.slot, &target.choice);
        let observer = exchanges.clone();
        let llm = &self.llm;
        let answer = llm.embed(&target.endpoint, &choice, &limits, &texts, observer);
        let answer = answer.await.map(|(vectors, _)| vectors);
        exchanges.end(answer).await
    }
}

/// The digest of the request, the model and the protocol. The API key is not included.
fn digest(target: &ModelTarget, request: &Value) -> Digest {
    let identity = json!([target.choice, target.endpoint.protocol.name(), request]);
    Digest::of(identity.to_string().as_bytes())
}

impl Models for ConnectedModels {
    fn complete<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        number: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        // Not in the future: requests are counted in the order of the calls.
        let reuse = reuse::reuse_request(origin, &request);
        Box::pin(self.complete_request(origin, number, request, reuse))
    }

    fn embed<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>> {
        Box::pin(self.vectors(origin, number, slot, texts))
    }

    fn closed_connection(&self, connection: &str) -> Option<ClosedConnection> {
        let closed = self.llm.connection_pause(connection)?;
        let now = self.clock.now();
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Some(ClosedConnection {
            since: now.plus_millis(-millis(closed.elapsed)),
            until: now.plus_millis(millis(closed.remaining)),
        })
    }

    fn connection_usage(&self, connection: &str) -> ConnectionUsage {
        self.llm.connection_usage(connection)
    }

    fn learned_models(&self, project: &ProjectId, connection: &Connection) -> Vec<LearnedModel> {
        let endpoint = self.endpoint(project, connection.clone());
        endpoint.map(|endpoint| self.llm.learned_models(&endpoint)).unwrap_or_default()
    }
}
