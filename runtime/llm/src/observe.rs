//! Observers of exchanges with providers. Budgets and records of calls are built on them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::time::Timestamp;
use perpend_worker_protocol::host_call::{FinishReason, Message};
use serde_json::{Map, Value};

use crate::failure::{ErrorClass, Failure};

/// How a structured reply is asked for, best first.
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
    /// No structured reply is wanted.
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

    /// The structure of a stored name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::JsonSchema, Self::Tool, Self::JsonMode, Self::Prompt, Self::None];
        all.into_iter().find(|known| known.name() == name)
    }
}

/// Tokens that a provider counted, or an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// All tokens of the prompt, those of the cache included.
    pub input: u64,
    /// Of `input`, those read from the provider's cache.
    pub cached_input: u64,
    /// Of `input`, those written to the provider's cache.
    pub cache_creation: u64,
    /// All tokens of the reply, those of reasoning included.
    pub output: u64,
    /// Of `output`, those of reasoning.
    pub reasoning: u64,
    /// The provider counted nothing: bytes / 4 for each side.
    pub estimated: bool,
    /// The cost in US dollars, where the provider reports it.
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

/// An estimate of a request before it is sent, for reservations in budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub connection_id: String,
    pub provider: String,
    pub model: String,
    /// Bytes of the prompt / 4.
    pub input_tokens: u64,
    /// The output limit of the request; without one the model's own applies.
    pub max_output_tokens: Option<u32>,
}

/// One exchange with a provider, answered or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderCall {
    pub requested_model: String,
    /// Absent when the provider does not report it, or failed.
    pub response_model: Option<String>,
    pub method: StructureMethod,
    /// SHA-256 of the address's path and the body, in hex.
    pub request_digest: String,
    pub started_at: Timestamp,
    /// From the sending of the request to the end of its answer.
    pub latency: Duration,
    /// The place of this exchange in its call, from 1.
    pub number: u32,
    /// Re-asks for malformed replies so far.
    pub reask: u32,
    /// The provider's finish reason, or the failure. A reply that violates the schema is `Ok` here; it leads to a re-ask
    /// or to `malformed_output` as the result of the call.
    pub outcome: Result<FinishReason, (ErrorClass, String)>,
    /// Zero for an exchange without an answer.
    pub usage: Usage,
    /// The first 4 KiB of the answer's body.
    pub reply_head: String,
    /// As they were sent; none for embeddings.
    pub messages: Arc<[Message]>,
    /// Parameters of the model that were sent.
    pub params: Map<String, Value>,
    /// The text of a usable answer, or the structured part of it.
    pub reply: Option<String>,
}

/// A usable answer of a provider, as it can be kept for a call that is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// How the reply was asked for.
    pub method: StructureMethod,
    /// The body of the answer.
    pub body: String,
    /// An equal request of another call was answered so: nothing was paid for it here.
    pub is_from_cache: bool,
}

/// Which requests get the places of a connection first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// A person waits for the answer: trials, checks, preflights, manual runs.
    Interactive,
    /// Everything else.
    #[default]
    Background,
}

/// The turn of a request among those that wait for a place of its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueKey {
    pub priority: Priority,
    /// Requests of one key wait in line; the keys of one priority take turns.
    pub key: String,
}

/// Whether a request may be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is sent, with this value of the header `traceparent` (W3C Trace Context), if any.
    Send(Option<String>),
    /// It waits, without a place of the connection, until [`CallObserver::budget_available`].
    OverBudget,
}

/// Listens to the exchanges of one call.
pub trait CallObserver: Send + Sync {
    /// The `n`-th usable answer of this call, from 0, where an earlier attempt got it: it is used in place of another
    /// exchange, and costs nothing.
    fn recorded_answer(&self, n: u32) -> Option<ProviderAnswer>;

    /// The stored reply to an equal request, where one may take the place of the whole call: no connection is waited for,
    /// and nothing is announced.
    fn cached_reply(&self) -> BoxFuture<'_, Option<ProviderAnswer>> {
        Box::pin(std::future::ready(None))
    }

    /// A stored reply still fits and is used; told before anything is done with it. The usage is what the provider once
    /// counted. A failure stops the call and becomes its result.
    fn cached_reply_used(
        &self,
        call: ProviderCall,
        answer: ProviderAnswer,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        let _ = (call, answer);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends when the call must not send anything any more, with the failure that becomes its result. A call that waits for
    /// its connection stops waiting then; a request in flight goes on.
    fn withdrawn(&self) -> BoxFuture<'_, Failure> {
        Box::pin(std::future::pending())
    }

    /// The turn in which this call waits for its connection.
    fn queue_key(&self) -> QueueKey {
        QueueKey::default()
    }

    /// A request begins to wait until it may be sent.
    fn wait_started(&self) {}

    /// The request no longer waits: it is sent, or the call ends.
    fn wait_ended(&self, waited: Duration) {
        let _ = waited;
    }

    /// When a request has its place and before it is sent. A failure stops the call and becomes its result.
    fn before_send<'a>(
        &'a self,
        estimate: &'a Estimate,
    ) -> BoxFuture<'a, Result<Admission, Failure>>;

    /// Completes when a request that found [`Admission::OverBudget`] may ask for a place again.
    fn budget_available(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// After each exchange that `before` let pass, with its answer where it is usable, before anything is done with it.
    /// A failure stops the call and becomes its result. Called also when the call was dropped meanwhile.
    fn after_exchange(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>>;
}

/// Checks replies against schemas that must not be used in this process.
pub trait ReplyValidator: Send + Sync {
    /// The violations of a JSON text against a JSON Schema, as sentences for the model.
    ///
    /// An error says why the schema cannot be used.
    fn check<'a>(
        &'a self,
        schema: &'a str,
        value: &'a str,
    ) -> BoxFuture<'a, Result<Vec<String>, String>>;
}
