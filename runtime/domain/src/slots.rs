//! Models of evaluators: the model of a slot, and the record of its calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::budget::ExhaustedBudget;
use crate::failure::FailureClass;
use crate::model_call::ModelCall;

/// A model of a provider with the parameters set by the user. No other parameter is sent.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelChoice {
    /// The name of a connection of the project.
    pub provider: String,
    /// As the provider names it.
    pub model: String,
    /// Sent as they are, such as `temperature`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub params: Map<String, Value>,
}

/// Bounds of one call of a model.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ModelLimits {
    /// Longest prompt in tokens, as estimated before the call; `None` for the limit of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u32>,
    /// Sent to the provider where the plug-in sets no limit itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// From the request to the end of the answer, milliseconds: 1,000 to 600,000.
    pub timeout_ms: u32,
    /// How often a reply that violates its schema is requested again: 0 to 5.
    pub reasks: u32,
    /// Highest cost of the calls of one attempt, in US dollars, greater than 0: a call whose estimate could exceed it is not
    /// made, and the evaluation fails. `None` for the limits of budgets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
}

impl Default for ModelLimits {
    fn default() -> Self {
        Self {
            max_input_tokens: None,
            max_output_tokens: None,
            timeout_ms: 120_000,
            reasks: 2,
            max_usd: None,
        }
    }
}

/// A slot of an evaluator version with its model.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slot {
    /// As the plug-in declares it.
    pub name: String,
    /// `None`: the default evaluation model of the project, as it is when the call is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// Bounds of its calls.
    #[serde(default)]
    pub limits: ModelLimits,
}

/// A slot in the fingerprint: the id, key and address of a connection do not determine a score.
#[derive(Clone, Debug, PartialEq)]
pub struct FingerprintSlot<'s> {
    /// As the plug-in declares it.
    pub name: &'s str,
    /// The protocol of the connection; `None` where the project has no such connection.
    pub protocol: Option<&'s str>,
    /// The model, default resolved.
    pub model: Option<&'s ModelChoice>,
    /// Bounds of its calls.
    pub limits: ModelLimits,
}

impl FingerprintSlot<'_> {
    /// Its part of the fingerprint. Limits are included only when they differ from the default.
    #[must_use]
    pub fn value(&self) -> Value {
        let mut slot = json!({
            "protocol": self.protocol,
            "model": self.model.map(|choice| &choice.model),
            "params": self.model.map(|choice| &choice.params),
        });
        if self.limits != ModelLimits::default() {
            slot["limits"] = json!(self.limits);
        }
        slot
    }
}

/// The reason why a model call failed, as determined by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFailure {
    /// Determines retries and pauses.
    pub class: FailureClass,
    /// Description.
    pub message: String,
    /// Wait time requested by the provider.
    pub retry_after_ms: Option<u64>,
    /// The request was not sent. Waiting for a closed connection does not use up an attempt.
    pub is_unsent: bool,
    /// The exhausted budget, with [`FailureClass::BudgetExhausted`].
    pub spent: Option<ExhaustedBudget>,
    /// Another attempt would fail too, for any class.
    pub is_final: bool,
}

impl ModelFailure {
    /// A failure without a wait time.
    #[must_use]
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after_ms: None,
            is_unsent: false,
            spent: None,
            is_final: false,
        }
    }
}

/// The record of the model calls of one attempt. Reports of workers are not trusted: the class of a failed model call is
/// the one recorded here.
#[derive(Debug, Default)]
pub struct ModelNotes {
    failure: Mutex<Option<ModelFailure>>,
    /// Exchanges recorded before the attempt was repeated after a server crash.
    n_before: OnceLock<u32>,
    n_exchanges: AtomicU32,
    /// Exchanges of a trial; those of an execution are stored.
    calls: Mutex<Vec<ModelCall>>,
    /// US dollars by slot: cost of finished calls and estimates of running ones.
    spent: Mutex<HashMap<String, f64>>,
    /// Number of equal requests, by digest.
    repeats: Mutex<HashMap<[u8; 32], u32>>,
    /// Number of queued requests.
    n_waiting: AtomicU32,
    /// Time in the queue, milliseconds.
    waited_ms: AtomicU64,
    /// A model call was withdrawn.
    is_cancelled: AtomicBool,
    /// The caller no longer waits.
    is_abandoned: AtomicBool,
}

impl ModelNotes {
    /// Whether the number of previous exchanges is known.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.n_before.get().is_some()
    }

    /// Sets the number of previous exchanges; the first call wins.
    pub fn count_from(&self, n_before: u32) {
        self.n_before.get_or_init(|| n_before);
    }

    /// The number of the next exchange with a provider in this attempt, from 0.
    pub fn next_exchange(&self) -> u32 {
        let n_before = self.n_before.get().copied().unwrap_or_default();
        n_before + self.n_exchanges.fetch_add(1, Ordering::Relaxed)
    }

    /// Records a failure. The most severe one is kept: one that requires user action, then a transient one, then a permanent
    /// one; among equal ones the last.
    pub fn failed(&self, failure: ModelFailure) {
        if failure.class == FailureClass::Cancelled {
            self.is_cancelled.store(true, Ordering::Release);
        }
        let mut noted = self.lock();
        if noted.as_ref().is_none_or(|noted| weight(noted.class) <= weight(failure.class)) {
            *noted = Some(failure);
        }
    }

    /// The most severe failure.
    #[must_use]
    pub fn failure(&self) -> Option<ModelFailure> {
        self.lock().clone()
    }

    /// Whether any model call was cancelled. The result of the guest is discarded then.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Counts a request and returns the number of equal earlier ones.
    pub fn count_repeat(&self, request: [u8; 32]) -> u32 {
        let mut all = self.repeats.lock().unwrap_or_else(PoisonError::into_inner);
        let n = all.entry(request).or_default();
        *n += 1;
        *n - 1
    }

    /// Reserves the estimated cost of a call.
    ///
    /// # Errors
    /// If it could exceed the limit: the amount reserved before. Nothing is reserved then.
    pub fn spend(&self, slot: &str, usd: f64, limit: f64) -> Result<(), f64> {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = all.entry(slot.to_owned()).or_default();
        match *spent + usd <= limit {
            true => {
                *spent += usd;
                Ok(())
            }
            false => Err(*spent),
        }
    }

    /// Replaces the estimate of a call by its cost.
    pub fn settle(&self, slot: &str, most: f64, cost: f64) {
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry(slot.to_owned()).or_default() += cost - most;
    }

    /// A request starts to wait for a slot of its connection.
    pub fn begin_wait(&self) {
        self.n_waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// A request has waited for this time.
    pub fn end_wait(&self, waited_ms: u64) {
        self.waited_ms.fetch_add(waited_ms, Ordering::AcqRel);
        self.n_waiting.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a request is queued.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        0 < self.n_waiting.load(Ordering::Acquire)
    }

    /// Total time of finished waits, milliseconds.
    #[must_use]
    pub fn waited_ms(&self) -> u64 {
        self.waited_ms.load(Ordering::Acquire)
    }

    /// Marks the results as no longer needed: queued requests are not sent.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Whether the results are no longer needed.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }

    /// Records an exchange of a trial.
    pub fn called(&self, call: ModelCall) {
        self.lock_calls().push(call);
    }

    /// The exchanges of a trial so far, in the order in which they ended.
    #[must_use]
    pub fn calls(&self) -> Vec<ModelCall> {
        self.lock_calls().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ModelFailure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_calls(&self) -> std::sync::MutexGuard<'_, Vec<ModelCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn weight(class: FailureClass) -> u8 {
    match class {
        FailureClass::BudgetExhausted => 3,
        _ if pause_reason(class).is_some() => 3,
        FailureClass::RateLimited
        | FailureClass::UpstreamUnavailable
        | FailureClass::UpstreamTimeout
        | FailureClass::MalformedOutput
        | FailureClass::Cancelled
        | FailureClass::Internal => 2,
        _ => 1,
    }
}

/// The reason with which a failure pauses its evaluator at once (evaluation.md 1.8, 1.9); `None` if it does not.
#[must_use]
pub const fn pause_reason(class: FailureClass) -> Option<&'static str> {
    Some(match class {
        FailureClass::AuthInvalid => "LLM_CONNECTION_AUTH_INVALID",
        FailureClass::BillingExhausted => "LLM_CONNECTION_BILLING_EXHAUSTED",
        FailureClass::EndpointUnreachable => "LLM_CONNECTION_ENDPOINT_UNREACHABLE",
        FailureClass::ConnectionMissing => "LLM_CONNECTION_MISSING",
        FailureClass::DefaultModelMissing => "DEFAULT_EVAL_MODEL_MISSING",
        FailureClass::ModelConfigInvalid => "EVAL_MODEL_CONFIG_INVALID",
        FailureClass::ModelUnavailable => "EVAL_MODEL_UNAVAILABLE",
        FailureClass::AccountNotReady => "PROVIDER_ACCOUNT_NOT_READY",
        FailureClass::InvalidConfig => "PLUGIN_CONFIG_INVALID",
        _ => return None,
    })
}

/// Pause reasons that saving a connection or the default model may remove.
pub const CONNECTION_REASONS: [&str; 8] = [
    "LLM_CONNECTION_AUTH_INVALID",
    "LLM_CONNECTION_BILLING_EXHAUSTED",
    "LLM_CONNECTION_ENDPOINT_UNREACHABLE",
    "LLM_CONNECTION_MISSING",
    "DEFAULT_EVAL_MODEL_MISSING",
    "EVAL_MODEL_CONFIG_INVALID",
    "EVAL_MODEL_UNAVAILABLE",
    "PROVIDER_ACCOUNT_NOT_READY",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_deserialization_applies_defaults_and_rejects_unknown_members() {
        let slot: Slot = serde_json::from_value(json!({ "name": "judge" })).unwrap();
        assert_eq!((slot.model, slot.limits.reasks), (None, 2));
        let unknown = json!({ "name": "judge", "limits": { "retries": 3 } });
        assert!(serde_json::from_value::<Slot>(unknown).is_err());
    }

    #[test]
    fn failures_that_require_action_take_precedence_over_transient_then_permanent() {
        let notes = ModelNotes::default();
        let failed = |class| {
            notes.failed(ModelFailure::new(class, ""));
            notes.failure().map(|noted| noted.class)
        };
        assert_eq!(failed(FailureClass::Refused), Some(FailureClass::Refused));
        let limited = Some(FailureClass::RateLimited);
        assert_eq!(failed(FailureClass::RateLimited), limited);
        assert_eq!(failed(FailureClass::Refused), limited);
        let key = Some(FailureClass::AuthInvalid);
        assert_eq!(failed(FailureClass::AuthInvalid), key);
        assert_eq!(failed(FailureClass::RateLimited), key);
        assert!(!notes.is_cancelled());
        assert_eq!(failed(FailureClass::Cancelled), key);
        assert!(notes.is_cancelled());
    }

    #[test]
    fn every_connection_reason_belongs_to_a_pausing_class() {
        let all = [
            FailureClass::AuthInvalid,
            FailureClass::BillingExhausted,
            FailureClass::EndpointUnreachable,
            FailureClass::ConnectionMissing,
            FailureClass::DefaultModelMissing,
            FailureClass::ModelConfigInvalid,
            FailureClass::ModelUnavailable,
            FailureClass::AccountNotReady,
        ];
        for class in all {
            assert!(CONNECTION_REASONS.contains(&pause_reason(class).unwrap()));
        }
        assert_eq!(pause_reason(FailureClass::RateLimited), None);
    }
}
