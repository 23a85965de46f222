//! Calls of model providers: [`Llm::complete`] and [`Llm::embed`].
//!
//! A call passes the gate of its connection, is admitted by an observer (budgets), and is sent in the provider's protocol. Its
//! response is classified and its reply validated against the response schema; malformed replies lead to re-asks.
//!
//! Invariants:
//! - **Secrets occur only in request headers.** No error, `Debug` output or record contains a key or a header value.
//! - **Only parameters that the user or the plug-in set are sent**, except for the output limit that Anthropic requires.
//! - **Only plain schemas are compiled in this process** ([`is_plain_schema`], [`ReplyValidator`]), because guests supply
//!   schemas and this process has keys.
//! - **Waiting does not count towards the time limit.** The time limit of a request starts when it is sent.
//! - **A request that was sent is completed.** Its answer is reported to the observer even when the call was dropped.
//! - **No delayed retries.** The scheduler retries. A call repeats a request only in another form or after a malformed
//!   reply.

mod cache_key;
mod cached;
mod capabilities;
mod complete;
mod connections;
mod conversation;
mod embed;
mod endpoint;
mod extract;
mod failure;
mod gate;
mod headers;
mod llm;
mod observer;
mod params;
mod plain_schema;
mod protocol;
mod queue;
mod redact;
mod refusals;
mod rejection;
mod response_schema;

pub use cache_key::cache_key;
pub use capabilities::LearnedModel;
pub use connections::{ConnectionPause, ConnectionUsage};
pub use endpoint::{CallLimits, Endpoint, ModelSettings, Protocol, Secret};
pub use failure::{ErrorClass, Failure};
pub use llm::Llm;
pub use observer::{
    Admission, CallObserver, Estimate, Priority, ProviderAnswer, ProviderCall, QueueKey,
    ReplyValidator, StructureMethod, Usage,
};
pub use plain_schema::is_plain_schema;
