//! Resolves a model slot of an evaluator to the connection of a provider, with decrypted secrets.

use std::sync::Arc;
use std::time::Duration;

use perpend_catalog::Prices;
use perpend_catalog::connections::{Connection, ConnectionSecret};
use perpend_catalog::sealed::SealedAt;
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::{CallOrigin, FailureClass};
use perpend_domain::slots::{ModelChoice, ModelFailure, Slot};
use perpend_domain::time::Clock;
use perpend_http_client::Vault;
use perpend_llm::{CallLimits, Endpoint, ErrorClass, Failure, Llm, Protocol, Secret};
use perpend_storage::Store;
use tokio::sync::Notify;

use super::budget_queue::BudgetQueues;
use super::recent_costs::RecentCosts;

/// Calls models over the LLM connections of projects.
#[derive(Clone)]
pub struct ConnectedModels {
    pub store: Store,
    /// Decrypts the secrets of connections.
    pub vault: Vault,
    pub llm: Llm,
    pub prices: Arc<Prices>,
    pub clock: Arc<dyn Clock>,
    /// Costs of the last calls of each evaluator, from which the cost of the next call is estimated.
    pub recent_costs: Arc<RecentCosts>,
    /// Notified after each exchange: calls that wait for budget check again.
    pub settled: Arc<Notify>,
    /// Calls that wait for available budget.
    pub budget_queues: Arc<BudgetQueues>,
    /// How long a stored reply is reused for equal requests, in milliseconds; 0 disables storing.
    pub reply_lifetime_ms: i64,
}

/// A slot, its model and the connection to call.
pub(super) struct ModelTarget {
    pub(super) slot: Slot,
    pub(super) choice: ModelChoice,
    pub(super) endpoint: Endpoint,
    /// The connection from which the endpoint was made.
    pub(super) connection: Connection,
}

/// The class that executions store for a failure of a provider.
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

pub(super) fn model_failure(failure: Failure) -> ModelFailure {
    ModelFailure {
        class: class_of(failure.class),
        message: failure.message,
        retry_after_ms: failure
            .retry_after
            .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        is_unsent: failure.is_unsent,
        spent: None,
        is_final: failure.is_final,
    }
}

/// The failure of a call whose database query failed. Another attempt may succeed.
pub(super) fn database_failure(error: &perpend_db::Error) -> Failure {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "database query of a model call failed");
    Failure::new(ErrorClass::Internal, "a database query failed")
}

pub(super) fn missing_connection(provider: &str) -> String {
    format!("the project has no LLM connection {provider:?}")
}

/// The slot with this name; the first slot when `name` is absent.
pub(super) fn slot_of<'o>(origin: &'o CallOrigin, name: Option<&str>) -> Option<&'o Slot> {
    let mut slots = origin.context.slots.iter();
    match name {
        Some(name) => slots.find(|slot| slot.name == name),
        None => slots.next(),
    }
}

/// The model settings and limits of a call.
pub(super) fn llm_settings(
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
    /// Resolves the slot with this name; the first slot when `name` is absent.
    pub(super) async fn resolve(
        &self,
        origin: &CallOrigin,
        name: Option<&str>,
    ) -> Result<ModelTarget, ModelFailure> {
        let context = &origin.context;
        let slot = slot_of(origin, name).ok_or_else(|| {
            let message = match name {
                Some(name) => format!("unknown model slot {name:?} of this evaluator"),
                None => "this evaluator has no model slot".to_owned(),
            };
            ModelFailure::new(FailureClass::PluginError, message)
        })?;
        let choice = slot.model.as_ref().ok_or_else(|| {
            let message = "the project has no default evaluation model, which the evaluator uses";
            ModelFailure::new(FailureClass::DefaultModelMissing, message)
        })?;
        let connection = self
            .store
            .catalog
            .connection(&context.project, &choice.provider)
            .await
            .map_err(|error| model_failure(database_failure(&error)))?;
        let connection = connection.ok_or_else(|| {
            let message = missing_connection(&choice.provider);
            ModelFailure::new(FailureClass::ConnectionMissing, message)
        })?;
        Ok(ModelTarget {
            slot: slot.clone(),
            choice: choice.clone(),
            endpoint: self.endpoint(&context.project, connection.clone())?,
            connection,
        })
    }

    /// The endpoint of a connection, with its secrets.
    pub(super) fn endpoint(
        &self,
        project: &ProjectId,
        connection: Connection,
    ) -> Result<Endpoint, ModelFailure> {
        let owner = SealedAt::Connection(connection.provider.clone()).owner(project);
        let secret = self.vault.unseal(&owner, &connection.secret).ok();
        let secret = secret.and_then(|text| serde_json::from_str::<ConnectionSecret>(&text).ok());
        let secret = secret.ok_or_else(|| {
            let message =
                "the key of the LLM connection cannot be decrypted: save the connection again";
            ModelFailure::new(FailureClass::AuthInvalid, message)
        })?;
        let protocol = Protocol::parse(&connection.adapter).ok_or_else(|| {
            let message = format!("unknown adapter {:?}", connection.adapter);
            ModelFailure::new(FailureClass::ModelConfigInvalid, message)
        })?;
        if secret.key.is_empty() && protocol != Protocol::Mock {
            let message = format!(
                "the LLM connection {:?} has no key: its address was changed, enter the key again",
                connection.provider
            );
            return Err(ModelFailure::new(FailureClass::AuthInvalid, message));
        }
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
