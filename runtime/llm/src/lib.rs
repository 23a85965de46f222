//! Model providers behind one function: [`Llm::complete`], and [`Llm::embed`] beside it.
//!
//! A call goes through the gate of its connection, is announced to an observer (budgets), sent in the provider's
//! protocol, classified, and its reply checked against the wanted schema; malformed replies are asked for again.
//!
//! Invariants:
//! - **Secrets end in request headers.** No error, `Debug` output or record contains a key or a header's value.
//! - **Only parameters that the user or the plug-in set are sent**, apart from the output limit that Anthropic requires.
//! - **Only plain schemas are used in this process** ([`is_plain_schema`], [`ReplyValidator`]): guests supply them, and this process
//!   holds keys.
//! - **Waiting costs a call nothing.** The time limit of a request starts when it is sent.
//! - **A request that was sent is followed to its end.** Its answer is reported to the observer, also when the call that
//!   wanted it is gone.
//! - **No delayed retries.** The scheduler retries. A call repeats a request only in another form or after a malformed
//!   reply.

mod cache_key;
mod complete;
mod connections;
mod conversation;
mod embed;
mod endpoint;
mod extract;
mod failure;
mod gate;
mod headers;
mod learnt;
mod llm;
mod observe;
mod params;
mod plain_schema;
mod protocol;
mod queue;
mod redact;
mod refusals;
mod reject;
mod stored;
mod wanted;

pub use cache_key::cache_key;
pub use connections::{ConnectionPause, ConnectionUsage};
pub use endpoint::{CallLimits, Endpoint, ModelSettings, Protocol, Secret};
pub use failure::{ErrorClass, Failure};
pub use llm::Llm;
pub use observe::{
    Admission, CallObserver, Estimate, Priority, ProviderAnswer, ProviderCall, QueueKey,
    ReplyValidator, StructureMethod, Usage,
};
pub use plain_schema::is_plain_schema;
