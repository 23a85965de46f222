//! Models as evaluators reach them: a slot becomes a connection, its secrets are unsealed, the provider is asked, and
//! each answer is paid for and kept before it is used.

mod asked;
mod exchanges;
mod generation;
mod latest;
mod reuse;

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{Digest, Origin};
use perpend_domain::slots::ModelFailure;
use perpend_ledger::CallKey;
use perpend_protocol::host_call::{Completion, CompletionRequest};
use serde_json::{Value, json};

use crate::broker::Models;
use asked::{Asked, failed, to_ask, unstored};
use exchanges::Exchanges;
use reuse::{Reusable, Wanted};

pub use asked::ConnectedModels;
pub use latest::LatestCosts;

impl ConnectedModels {
    /// The exchanges of a call that is about to be made, or made again.
    ///
    /// A database that fails ends the call: asking the provider all the same could pay for an answer twice.
    async fn exchanges<'c>(
        &'c self,
        origin: &'c Origin,
        number: usize,
        (asked, request): (&'c Asked<'_>, &Value),
        reusable: Option<Reusable>,
    ) -> Result<Exchanges<'c>, ModelFailure> {
        let key = CallKey {
            call: u32::try_from(number).unwrap_or(u32::MAX),
            request: digest(asked, request),
        };
        let exchanges = Exchanges::begin(self, origin, asked, (key, reusable)).await;
        exchanges.map_err(|error| failed(unstored(&error)))
    }

    async fn ask(
        &self,
        origin: &Origin,
        number: usize,
        request: CompletionRequest,
        wanted: Option<Wanted>,
    ) -> Result<Completion, ModelFailure> {
        let asked = self.asked(origin, request.slot.as_deref()).await?;
        let whole = json!(request);
        let reusable = wanted.map(|wanted| wanted.of(origin, &asked.endpoint));
        let exchanges = self.exchanges(origin, number, (&asked, &whole), reusable);
        let exchanges = exchanges.await?;
        let (choice, limits) = to_ask(asked.slot, asked.choice);
        let llm = &self.llm;
        let answer = llm.complete(&asked.endpoint, &choice, &limits, &request, &exchanges);
        exchanges.end(answer.await).await
    }

    async fn vectors(
        &self,
        origin: &Origin,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, ModelFailure> {
        let asked = self.asked(origin, slot.as_deref()).await?;
        let whole = json!({ "embed": texts });
        let exchanges = self.exchanges(origin, number, (&asked, &whole), None);
        let exchanges = exchanges.await?;
        let (choice, limits) = to_ask(asked.slot, asked.choice);
        let llm = &self.llm;
        let answer = llm.embed(&asked.endpoint, &choice, &limits, &texts, &exchanges);
        let answer = answer.await.map(|(vectors, _)| vectors);
        exchanges.end(answer).await
    }
}

/// The digest of what is asked of whom. Who the provider is counts, its key does not.
fn digest(asked: &Asked<'_>, request: &Value) -> Digest {
    let whole = json!([asked.choice, asked.endpoint.protocol.name(), request]);
    Digest::of(whole.to_string().as_bytes())
}

impl Models for ConnectedModels {
    fn complete<'a>(
        &'a self,
        origin: &'a Origin,
        number: usize,
        request: CompletionRequest,
    ) -> BoxFuture<'a, Result<Completion, ModelFailure>> {
        // Before anything is waited for: requests are counted in the order in which they are made.
        let wanted = reuse::wanted(origin, &request);
        Box::pin(self.ask(origin, number, request, wanted))
    }

    fn embed<'a>(
        &'a self,
        origin: &'a Origin,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> BoxFuture<'a, Result<Vec<Vec<f32>>, ModelFailure>> {
        Box::pin(self.vectors(origin, number, slot, texts))
    }
}
