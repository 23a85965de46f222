//! From the slot that a guest names to the provider that answers for it: its connection, its secrets unsealed.

use std::sync::Arc;
use std::time::Duration;

use perpend_catalog::Prices;
use perpend_catalog::connections::{Connection, ConnectionSecret};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::plugin::{CallOrigin, FailureClass};
use perpend_domain::slots::{ModelChoice, ModelFailure, Slot};
use perpend_domain::time::Clock;
use perpend_http_client::Vault;
use perpend_llm::{CallLimits, Endpoint, ErrorClass, Failure, Llm, Protocol, Secret};
use perpend_storage::Store;
use tokio::sync::Notify;

use super::budget_queue::BudgetQueues;
use super::recent_costs::RecentCosts;

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
    /// What the last calls of each evaluator cost: estimates of the next ones.
    pub recent_costs: Arc<RecentCosts>,
    /// Notified when a call is over: one that waits for room in a budget looks again.
    pub settled: Arc<Notify>,
    /// Calls that wait for room in a budget.
    pub budget_queues: Arc<BudgetQueues>,
    /// How long replies answer equal requests, milliseconds; 0: none is stored.
    pub reply_lifetime_ms: i64,
}

/// A slot with everything it takes to ask it.
pub(super) struct Asked {
    pub(super) slot: Slot,
    pub(super) choice: ModelChoice,
    pub(super) endpoint: Endpoint,
    /// As it was when the endpoint was made of it.
    pub(super) connection: Connection,
}

/// The class of a provider's failure, as executions store it.
const fn class_of(class: ErrorClass) -> FailureClass {
    match class {
        ErrorClass::RateLimited => FailureClass::RateLimited,
        ErrorClass::UpstreamUnavailable => FailureClass::UpstreamUnavailable,
        ErrorClass::UpstreamTimeout => FailureClass::UpstreamTimeout,
        ErrorClass::MalformedOutput => FailureClass::MalformedOutput,
        ErrorClass::Refused => FailureClass::Refused,
        ErrorClass::ContextTooLong => FailureClass::ContextTooLong,
        ErrorClass::AuthInvalid => FailureClass::AuthInvalid,
        ErrorClass::BillingExhausted => FailureClass::BillingExhausted,
        ErrorClass::ModelUnavailable => FailureClass::ModelUnavailable,
        ErrorClass::ConnectionMissing => FailureClass::ConnectionMissing,
        ErrorClass::DefaultModelMissing => FailureClass::DefaultModelMissing,
        ErrorClass::ModelConfigInvalid => FailureClass::ModelConfigInvalid,
        ErrorClass::EndpointUnreachable => FailureClass::EndpointUnreachable,
        ErrorClass::AccountNotReady => FailureClass::AccountNotReady,
        ErrorClass::InvalidInput => FailureClass::InvalidInput,
        ErrorClass::BudgetExhausted => FailureClass::BudgetExhausted,
        ErrorClass::Cancelled => FailureClass::Cancelled,
        ErrorClass::Internal => FailureClass::Internal,
    }
}

pub(super) fn failed(failure: Failure) -> ModelFailure {
    let wait = failure.retry_after;
    ModelFailure {
        class: class_of(failure.class),
        message: failure.message,
        retry_after_ms: wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        is_unsent: failure.is_unsent,
        spent: None,
        is_final: failure.is_final,
    }
}

/// The database, not the provider, is at fault: another attempt may go through.
pub(super) fn unstored(error: &perpend_db::Error) -> Failure {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "a model call met a failing database");
    Failure::new(ErrorClass::Internal, "the database failed")
}

pub(super) fn missing_connection(provider: &str) -> String {
    format!("the project has no LLM connection {provider:?}")
}

/// The slot of this name; without a name the first one.
pub(super) fn slot_of<'o>(origin: &'o CallOrigin, name: Option<&str>) -> Option<&'o Slot> {
    let mut slots = origin.maker.slots.iter();
    match name {
        Some(name) => slots.find(|slot| slot.name == name),
        None => slots.next(),
    }
}

/// What is asked of a model, and the limits of the call.
pub(super) fn to_ask(
    slot: &Slot,
    choice: &ModelChoice,
) -> (perpend_llm::ModelSettings, CallLimits) {
    let choice =
        perpend_llm::ModelSettings { model: choice.model.clone(), params: choice.params.clone() };
    let limits = CallLimits {
        timeout: Duration::from_millis(u64::from(slot.limits.timeout_ms)),
        reasks: slot.limits.reasks,
        max_output_tokens: slot.limits.max_output_tokens,
        max_input_tokens: slot.limits.max_input_tokens,
    };
    (choice, limits)
}

impl ConnectedModels {
    /// The slot that a guest names; without a name the first one.
    pub(super) async fn asked(
        &self,
        origin: &CallOrigin,
        name: Option<&str>,
    ) -> Result<Asked, ModelFailure> {
        let maker = &origin.maker;
        let slot = slot_of(origin, name).ok_or_else(|| {
            let shown = name.map_or("the default slot".to_owned(), |name| format!("slot {name:?}"));
            let message = format!("{shown} has no model in this evaluator");
            ModelFailure::new(FailureClass::PluginError, message)
        })?;
        let choice = slot.model.as_ref().ok_or_else(|| {
            let message = "the project has no default evaluation model, which the evaluator asks";
            ModelFailure::new(FailureClass::DefaultModelMissing, message)
        })?;
        let connection = self
            .store
            .catalog
            .connection(&maker.project, &choice.provider)
            .await
            .map_err(|error| failed(unstored(&error)))?;
        let connection = connection.ok_or_else(|| {
            let message = missing_connection(&choice.provider);
            ModelFailure::new(FailureClass::ConnectionMissing, message)
        })?;
        Ok(Asked {
            slot: slot.clone(),
            choice: choice.clone(),
            endpoint: self.endpoint(origin, connection.clone())?,
            connection,
        })
    }

    fn endpoint(
        &self,
        origin: &CallOrigin,
        connection: Connection,
    ) -> Result<Endpoint, ModelFailure> {
        let owner = SealedAt::Connection(connection.provider.clone()).owner(&origin.maker.project);
        let opened = self.vault.unseal(&owner, &connection.secret);
        let secret = opened.ok();
        let secret = secret.and_then(|text| serde_json::from_str::<ConnectionSecret>(&text).ok());
        let secret = secret.ok_or_else(|| {
            let message = "the key of the LLM connection cannot be read: save the connection again";
            ModelFailure::new(FailureClass::AuthInvalid, message)
        })?;
        let protocol = Protocol::parse(&connection.adapter).ok_or_else(|| {
            let message = format!("unknown adapter {:?}", connection.adapter);
            ModelFailure::new(FailureClass::ModelConfigInvalid, message)
        })?;
        let headers = secret.headers.into_iter();
        Ok(Endpoint {
            connection_id: connection.id,
            saved_at: connection.updated_at.as_micros(),
            provider: connection.provider,
            protocol,
            base_url: connection.base_url,
            key: Secret::new(secret.key),
            headers: headers.map(|(name, value)| (name, Secret::new(value))).collect(),
            use_responses_api: connection.use_responses_api,
            api_version: None,
            max_in_flight: usize::try_from(connection.max_in_flight).unwrap_or(1),
            config: connection.config,
        })
    }
}
