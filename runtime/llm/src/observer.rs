//! The observer of exchanges with providers, which implements budgets and records of calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::time::Timestamp;
use perpend_worker_protocol::host_call::{FinishReason, Message};
use serde_json::{Map, Value};

use crate::failure::{ErrorClass, Failure};

/// How a structured reply is requested, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StructureMethod {
    /// The provider enforces the schema.
    JsonSchema,
    /// The model must call a tool whose arguments have the schema.
    Tool,
    /// The provider enforces JSON; the schema is in the prompt.
    JsonMode,
    /// The schema is in the prompt.
    Prompt,
    /// The reply is not structured.
    None,
}

impl StructureMethod {
    /// The stored name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::Tool => "tool",
            Self::JsonMode => "json_mode",
            Self::Prompt => "prompt",
            Self::None => "none",
        }
    }

    /// The method with this stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::JsonSchema, Self::Tool, Self::JsonMode, Self::Prompt, Self::None];
        all.into_iter().find(|known| known.name() == name)
    }
}

/// Tokens counted by a provider, or estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// All tokens of the prompt, including cached ones.
    pub input: u64,
    /// Tokens of `input` that were read from the provider's cache.
    pub cached_input: u64,
    /// Tokens of `input` that were written to the provider's cache.
    pub cache_creation: u64,
    /// All tokens of the reply, including reasoning.
    pub output: u64,
    /// Tokens of `output` for reasoning.
    pub reasoning: u64,
    /// The provider reported no usage: both sides are estimated as bytes / 4.
    pub estimated: bool,
    /// The cost in US dollars, if the provider reports it.
    pub cost_usd: Option<f64>,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached_input = self.cached_input.saturating_add(other.cached_input);
        self.cache_creation = self.cache_creation.saturating_add(other.cache_creation);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.estimated |= other.estimated;
        self.cost_usd = match (self.cost_usd, other.cost_usd) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
    }
}

/// The estimated size of a request, for reservations in budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub connection_id: String,
    pub provider: String,
    pub model: String,
    /// Bytes of the prompt / 4.
    pub input_tokens: u64,
    /// The output limit of the request; the model's own limit applies when absent.
    pub max_output_tokens: Option<u32>,
}

/// One exchange with a provider, successful or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderCall {
    pub requested_model: String,
    /// Absent when the provider does not report it or failed.
    pub response_model: Option<String>,
    pub method: StructureMethod,
    /// SHA-256 of the URL path and the body, in hexadecimal.
    pub request_digest: String,
    pub started_at: Timestamp,
    /// From sending the request to the end of the response.
    pub latency: Duration,
    /// Number of the exchange in its call, from 1.
    pub number: u32,
    /// Re-asks for malformed replies so far.
    pub reask: u32,
    /// The provider's finish reason, or the failure. `Ok` for a reply that violates the schema, which leads to a re-ask or
    /// to `malformed_output` as the result of the call.
    pub outcome: Result<FinishReason, (ErrorClass, String)>,
    /// Zero for a failed exchange.
    pub usage: Usage,
    /// The first 4 KiB of the response body.
    pub reply_head: String,
    /// The messages that were sent; empty for embeddings.
    pub messages: Arc<[Message]>,
    /// The model parameters that were sent.
    pub params: Map<String, Value>,
    /// The text or the structured value of a usable answer.
    pub reply: Option<String>,
}

/// A usable answer of a provider, in a form that can be stored for a repeated call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// The method of the request.
    pub method: StructureMethod,
    /// The response body.
    pub body: String,
    /// Whether this is the stored answer to an equal request of another call, which costs nothing.
    pub is_from_cache: bool,
}

/// Priority of a request in the queue of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A user waits for the result: trials, checks, preflights, manual runs.
    Interactive,
    /// Everything else.
    #[default]
    Background,
}

/// The position of a request in the queue of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueKey {
    pub priority: Priority,
    /// Requests of a group are served in order of arrival; the groups of a priority take turns.
    pub group: String,
}

/// The decision of the observer about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The request is sent, with this value of the header `traceparent` (W3C Trace Context), if any.
    Send(Option<String>),
    /// The request gives its slot back and waits for [`CallObserver::budget_available`].
    OverBudget,
}

/// Observes the exchanges of one call.
pub trait CallObserver: Send + Sync {
    /// The `n`-th usable answer of this call, from 0, if an earlier attempt recorded it. It replaces an exchange and costs
    /// nothing.
    fn recorded_answer(&self, n: u32) -> Option<ProviderAnswer>;

    /// The stored reply to an equal request, if it may replace the call. No connection is used and no request is admitted.
    fn cached_reply(&self) -> BoxFuture<'_, Option<ProviderAnswer>> {
        Box::pin(std::future::ready(None))
    }

    /// A stored reply is valid and will be used. `call` has the usage that the provider counted originally. A failure ends
    /// the call and becomes its result.
    fn cached_reply_used(
        &self,
        call: ProviderCall,
        answer: ProviderAnswer,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        let _ = (call, answer);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Completes when the call must not send further requests, with the failure that becomes its result. A waiting call
    /// ends then; a request in flight continues.
    fn withdrawn(&self) -> BoxFuture<'_, Failure> {
        Box::pin(std::future::pending())
    }

    /// The position of this call in the queue of its connection.
    fn queue_key(&self) -> QueueKey {
        QueueKey::default()
    }

    /// A request starts to wait for admission.
    fn wait_started(&self) {}

    /// The request stops waiting, because it is sent or the call ends.
    fn wait_ended(&self, waited: Duration) {
        let _ = waited;
    }

    /// Called when a request has a slot on its connection, before it is sent. A failure ends the call and becomes its
    /// result.
    fn before_send<'a>(
        &'a self,
        estimate: &'a Estimate,
    ) -> BoxFuture<'a, Result<Admission, Failure>>;

    /// Completes when a request that got [`Admission::OverBudget`] may be admitted again.
    fn budget_available(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called after each exchange that [`Self::before_send`] admitted, with the answer if it is usable, before the answer is
    /// used. A failure ends the call and becomes its result. Called also when the call was dropped meanwhile.
    fn after_exchange(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>>;
}

/// Validates replies against schemas that must not be compiled in this process.
pub trait ReplyValidator: Send + Sync {
    /// Returns the violations of a JSON Schema by a JSON text, as sentences for the model.
    ///
    /// The error is the reason why the schema is unusable.
    fn check<'a>(
        &'a self,
        schema: &'a str,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>>;
}
