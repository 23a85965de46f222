//! Models as evaluators reach them: a slot becomes a connection, its secrets are unsealed, the provider is asked, and
//! each answer is paid for and kept before it is used.

mod asked;
mod budget_queue;
mod exchanges;
mod generation;
mod recent_costs;
mod reuse;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{CallOrigin, Digest};
use perpend_domain::slots::ModelFailure;
use perpend_executions::CallKey;
use perpend_worker_protocol::host_call::{Completion, CompletionRequest};
use serde_json::{Value, json};

use crate::broker::{ClosedConnection, Models};
use asked::{Asked, failed, to_ask, unstored};
use exchanges::Exchanges;
use reuse::{Reusable, Wanted};

pub use asked::ConnectedModels;
pub use budget_queue::BudgetQueues;
pub use recent_costs::RecentCosts;

impl ConnectedModels {
    /// The exchanges of a call that is about to be made, or made again.
    ///
    /// A database that fails ends the call: asking the provider all the same could pay for an answer twice.
    async fn exchanges(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        (asked, request): (&Arc<Asked>, &Value),
        reusable: Option<Reusable>,
    ) -> Result<Arc<Exchanges>, ModelFailure> {
        let key = CallKey {
            call: u32::try_from(number).unwrap_or(u32::MAX),
            request: digest(asked, request),
        };
        let exchanges = Exchanges::begin(self, origin, asked, (key, reusable)).await;
        let exchanges = exchanges.map_err(|error| failed(unstored(&error)))?;
        Ok(Arc::new(exchanges))
    }

    async fn ask(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        request: CompletionRequest,
        wanted: Option<Wanted>,
    ) -> Result<Completion, ModelFailure> {
        let asked = Arc::new(self.asked(origin, request.slot.as_deref()).await?);
        let whole = json!(request);
        let reusable = wanted.map(|wanted| wanted.of(origin, &asked.endpoint));
        let exchanges = self.exchanges(origin, number, (&asked, &whole), reusable);
        let exchanges = exchanges.await?;
        let (choice, limits) = to_ask(&asked.slot, &asked.choice);
        let observer = exchanges.clone();
        let llm = &self.llm;
        let answer = llm.complete(&asked.endpoint, &choice, &limits, &request, observer);
        exchanges.end(answer.await).await
    }

    async fn vectors(
        &self,
        origin: &Arc<CallOrigin>,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, ModelFailure> {
        let asked = Arc::new(self.asked(origin, slot.as_deref()).await?);
        let whole = json!({ "embed": texts });
        let exchanges = self.exchanges(origin, number, (&asked, &whole), None);
        let exchanges = exchanges.await?;
        let (choice, limits) = to_ask(&asked.slot, &asked.choice);
        let observer = exchanges.clone();
        let llm = &self.llm;
        let answer = llm.embed(&asked.endpoint, &choice, &limits, &texts, observer);
        let answer = answer.await.map(|(vectors, _)| vectors);
        exchanges.end(answer).await
    }
}

/// The digest of what is asked of whom. Who the provider is counts, its key does not.
fn digest(asked: &Asked, request: &Value) -> Digest {
    let whole = json!([asked.choice, asked.endpoint.protocol.name(), request]);
    Digest::of(whole.to_string().as_bytes())
}

impl Models for ConnectedModels {
    fn complete<'a>(
        &'a self,
        origin: &'a Arc<CallOrigin>,
        number: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        // Before anything is waited for: requests are counted in the order in which they are made.
        let wanted = reuse::wanted(origin, &request);
        Box::pin(self.ask(origin, number, request, wanted))
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
}
