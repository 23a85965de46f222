//! Models as evaluators reach them: a slot becomes a connection, its secrets are unsealed, the provider is asked, and
//! the reply is kept before the guest sees it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_catalog::Prices;
use perpend_catalog::connections::{Connection, ConnectionSecret};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::plugin::{Digest, FailureClass, Origin};
use perpend_domain::slots::{ModelChoice, ModelFailure, Slot};
use perpend_domain::time::Clock;
use perpend_ledger::{AskingAttempt, KeptReply, ModelCall};
use perpend_llm::{
    CallLimits, CallObserver, Class, Endpoint, Estimate, Failure, Llm, Protocol, ProviderCall,
    Secret,
};
use perpend_outbound::Vault;
use perpend_protocol::host_call::{Completion, CompletionRequest};
use perpend_store::Store;
use serde_json::{Value, json};

use crate::broker::Models;

/// Asks the providers of a project's connections.
#[derive(Clone)]
pub struct ConnectedModels {
    /// The database.
    pub store: Store,
    /// Opens the secrets of connections.
    pub vault: Vault,
    /// Speaks to providers.
    pub llm: Llm,
    /// What tokens cost.
    pub prices: Arc<Prices>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// A slot with everything it takes to ask it.
struct Asked<'o> {
    slot: &'o Slot,
    choice: &'o ModelChoice,
    endpoint: Endpoint,
}

fn failure(class: FailureClass, message: impl Into<String>) -> ModelFailure {
    ModelFailure {
        class,
        message: message.into(),
        retry_after_ms: None,
    }
}

/// The class of a provider's failure, as executions store it.
const fn class_of(class: Class) -> FailureClass {
    match class {
        Class::RateLimited => FailureClass::RateLimited,
        Class::UpstreamUnavailable => FailureClass::UpstreamUnavailable,
        Class::UpstreamTimeout => FailureClass::UpstreamTimeout,
        Class::MalformedOutput => FailureClass::MalformedOutput,
        Class::Refused => FailureClass::Refused,
        Class::ContextTooLong => FailureClass::ContextTooLong,
        Class::AuthInvalid => FailureClass::AuthInvalid,
        Class::BillingExhausted => FailureClass::BillingExhausted,
        Class::ModelUnavailable => FailureClass::ModelUnavailable,
        Class::ConnectionMissing => FailureClass::ConnectionMissing,
        Class::DefaultModelMissing => FailureClass::DefaultModelMissing,
        Class::ModelConfigInvalid => FailureClass::ModelConfigInvalid,
        Class::EndpointUnreachable => FailureClass::EndpointUnreachable,
        Class::AccountNotReady => FailureClass::AccountNotReady,
        Class::InvalidInput => FailureClass::InvalidInput,
        Class::BudgetExhausted => FailureClass::BudgetExhausted,
        Class::Cancelled => FailureClass::Cancelled,
        Class::Internal => FailureClass::Internal,
    }
}

fn failed(failure: Failure) -> ModelFailure {
    let wait = failure.retry_after;
    ModelFailure {
        class: class_of(failure.class),
        message: failure.message,
        retry_after_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The database, not the provider, is at fault: another attempt may go through.
fn unstored(error: &perpend_sql::Error) -> ModelFailure {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "a model call met a failing database");
    failure(FailureClass::Internal, "the database failed")
}

/// Keeps what each exchange was.
#[derive(Default)]
struct Exchanges(Mutex<Vec<ProviderCall>>);

impl Exchanges {
    fn take(&self) -> Vec<ProviderCall> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CallObserver for Exchanges {
    fn before<'a>(&'a self, _: &'a Estimate) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn after(&self, call: ProviderCall) -> BoxFuture<'_, ()> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
        Box::pin(std::future::ready(()))
    }
}

impl ConnectedModels {
    /// The slot that a guest names; without a name the first one.
    async fn asked<'o>(
        &self,
        origin: &'o Origin,
        name: Option<&str>,
    ) -> Result<Asked<'o>, ModelFailure> {
        let maker = &origin.maker;
        let mut slots = maker.slots.iter();
        let slot = match name {
            Some(name) => slots.find(|slot| slot.name == name),
            None => slots.next(),
        };
        let slot = slot.ok_or_else(|| {
            let shown = name.map_or("the default slot".to_owned(), |name| {
                format!("slot {name:?}")
            });
            let message = format!("{shown} has no model in this evaluator");
            failure(FailureClass::PluginError, message)
        })?;
        let choice = slot.model.as_ref().ok_or_else(|| {
            let message = "the project has no default evaluation model, which the evaluator asks";
            failure(FailureClass::DefaultModelMissing, message)
        })?;
        let connection = self
            .store
            .catalog
            .connection(&maker.project, &choice.provider)
            .await
            .map_err(|error| unstored(&error))?;
        let connection = connection.ok_or_else(|| {
            let message = format!("the project has no LLM connection {:?}", choice.provider);
            failure(FailureClass::ConnectionMissing, message)
        })?;
        Ok(Asked {
            slot,
            choice,
            endpoint: self.endpoint(origin, connection)?,
        })
    }

    fn endpoint(&self, origin: &Origin, connection: Connection) -> Result<Endpoint, ModelFailure> {
        let owner = SealedAt::Connection(connection.provider.clone()).owner(&origin.maker.project);
        let opened = self.vault.unseal(&owner, &connection.secret);
        let secret = opened.ok();
        let secret = secret.and_then(|text| serde_json::from_str::<ConnectionSecret>(&text).ok());
        let secret = secret.ok_or_else(|| {
            let message = "the key of the LLM connection cannot be read: save the connection again";
            failure(FailureClass::AuthInvalid, message)
        })?;
        let protocol = Protocol::parse(&connection.adapter).ok_or_else(|| {
            let message = format!("unknown adapter {:?}", connection.adapter);
            failure(FailureClass::ModelConfigInvalid, message)
        })?;
        let headers = secret.headers.into_iter();
        Ok(Endpoint {
            connection_id: connection.id,
            provider: connection.provider,
            protocol,
            base_url: connection.base_url,
            key: Secret::new(secret.key),
            headers: headers
                .map(|(name, value)| (name, Secret::new(value)))
                .collect(),
            use_responses_api: connection.use_responses_api,
            api_version: None,
            max_in_flight: usize::try_from(connection.max_in_flight).unwrap_or(1),
            config: connection.config,
        })
    }

    /// What an exchange cost, and the rest of what the ledger has of it.
    async fn priced(&self, origin: &Origin, provider: &str, call: ProviderCall) -> ModelCall {
        let usage = call.usage;
        let model = call.model_answered.as_deref().unwrap_or(&call.model_asked);
        let now = self.clock.now();
        let table = self
            .prices
            .of(&self.store.catalog, &origin.maker.project, now);
        let priced = match (usage.cost_usd, table.await) {
            (Some(cost), _) => Some(cost),
            (None, Ok(table)) => {
                let cost =
                    |model: &str| table.cost_of_call(model, &buckets(&usage), call.started_at);
                cost(model).or_else(|| cost(&call.model_asked))
            }
            (None, Err(_)) => None,
        };
        ModelCall {
            provider: provider.to_owned(),
            model: call.model_asked.clone(),
            model_answered: call.model_answered.clone(),
            method: call.method.name().to_owned(),
            started_at: call.started_at,
            latency_ms: u64::try_from(call.latency.as_millis()).unwrap_or(u64::MAX),
            input_tokens: usage.input,
            cached_tokens: usage.cached_input,
            output_tokens: usage.output,
            reasoning_tokens: usage.reasoning,
            is_estimated: usage.estimated,
            cost: priced,
            error: call
                .outcome
                .err()
                .map(|(class, message)| (class.name().to_owned(), message)),
        }
    }

    /// Writes the exchanges of a call, and the reply where there is one.
    async fn note(
        &self,
        origin: &Origin,
        provider: &str,
        exchanges: &Exchanges,
        reply: Option<KeptReply>,
    ) -> Result<(), ModelFailure> {
        let Some((execution, attempt)) = &origin.execution else {
            return Ok(());
        };
        let mut calls = Vec::new();
        for call in exchanges.take() {
            calls.push(self.priced(origin, provider, call).await);
        }
        if calls.is_empty() && reply.is_none() {
            return Ok(());
        }
        let asking = AskingAttempt {
            project: origin.maker.project.clone(),
            execution: execution.clone(),
            evaluator: origin.maker.evaluator.clone(),
            attempt: *attempt,
        };
        let now = self.clock.now();
        let ledger = &self.store.ledger;
        let noted = ledger.note_model_calls(&asking, &calls, reply.as_ref(), now);
        noted.await.map_err(|error| unstored(&error))
    }

    /// What an earlier attempt was answered.
    ///
    /// A database that fails ends the call: asking the provider all the same could pay for the reply twice.
    async fn kept(
        &self,
        origin: &Origin,
        call: u32,
        request: &Digest,
    ) -> Result<Option<String>, ModelFailure> {
        let Some((execution, _)) = &origin.execution else {
            return Ok(None);
        };
        let kept = self.store.ledger.kept_reply(execution, call, request);
        kept.await.map_err(|error| unstored(&error))
    }

    async fn ask(
        &self,
        origin: &Origin,
        number: usize,
        request: CompletionRequest,
    ) -> Result<Completion, ModelFailure> {
        let asked = self.asked(origin, request.slot.as_deref()).await?;
        let call = u32::try_from(number).unwrap_or(u32::MAX);
        let digest = digest(&asked, &json!(request));
        let kept = self.kept(origin, call, &digest).await?;
        if let Some(reply) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(reply);
        }
        let (choice, limits) = to_ask(&asked);
        let exchanges = Exchanges::default();
        let answer = self
            .llm
            .complete(&asked.endpoint, &choice, &limits, &request, &exchanges)
            .await;
        let reply = answer.as_ref().ok().map(|reply| KeptReply {
            call,
            request: digest,
            reply: json!(reply).to_string(),
        });
        let provider = &asked.choice.provider;
        self.note(origin, provider, &exchanges, reply).await?;
        answer.map_err(failed)
    }

    async fn vectors(
        &self,
        origin: &Origin,
        number: usize,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> Result<Vec<Vec<f32>>, ModelFailure> {
        let asked = self.asked(origin, slot.as_deref()).await?;
        let call = u32::try_from(number).unwrap_or(u32::MAX);
        let digest = digest(&asked, &json!({ "embed": texts }));
        let kept = self.kept(origin, call, &digest).await?;
        if let Some(reply) = kept.and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(reply);
        }
        let (choice, limits) = to_ask(&asked);
        let exchanges = Exchanges::default();
        let answer = self
            .llm
            .embed(&asked.endpoint, &choice, &limits, &texts, &exchanges)
            .await;
        let answer = answer.map(|(vectors, _)| vectors);
        let reply = answer.as_ref().ok().map(|reply| KeptReply {
            call,
            request: digest,
            reply: json!(reply).to_string(),
        });
        let provider = &asked.choice.provider;
        self.note(origin, provider, &exchanges, reply).await?;
        answer.map_err(failed)
    }
}

/// Tokens by the buckets that prices are given for.
fn buckets(usage: &perpend_llm::Usage) -> perpend_domain::observation::Usage {
    let plain = usage
        .input
        .saturating_sub(usage.cached_input)
        .saturating_sub(usage.cache_creation);
    let all = [
        ("input", plain),
        ("input_cached_tokens", usage.cached_input),
        ("input_cache_creation", usage.cache_creation),
        ("output", usage.output.saturating_sub(usage.reasoning)),
        ("output_reasoning_tokens", usage.reasoning),
    ];
    let used = all.into_iter().filter(|(_, n_tokens)| 0 < *n_tokens);
    used.map(|(bucket, n_tokens)| (bucket.to_owned(), n_tokens))
        .collect()
}

fn to_ask(asked: &Asked<'_>) -> (perpend_llm::ModelChoice, CallLimits) {
    let choice = perpend_llm::ModelChoice {
        model: asked.choice.model.clone(),
        params: asked.choice.params.clone(),
    };
    let limits = asked.slot.limits;
    let limits = CallLimits {
        timeout: Duration::from_millis(u64::from(limits.timeout_ms)),
        reasks: limits.reasks,
        max_output_tokens: limits.max_output_tokens,
        max_input_tokens: limits.max_input_tokens,
    };
    (choice, limits)
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
        Box::pin(self.ask(origin, number, request))
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
