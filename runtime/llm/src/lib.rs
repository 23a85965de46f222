//! Model providers behind one function: [`Llm::complete`], and [`Llm::embed`] beside it.
//!
//! A call goes through the gate of its connection, is announced to an observer (budgets), sent in the provider's
//! protocol, classified, and its reply checked against the wanted schema; malformed replies are asked for again.
//!
//! Invariants:
//! - **Secrets end in request headers.** No error, `Debug` output or record contains a key or a header's value.
//! - **Only parameters that the user or the plug-in set are sent**, apart from the output limit that Anthropic requires.
//! - **Only plain schemas are used in this process** ([`is_plain`], [`ReplyCheck`]): guests supply them, and this process
//!   holds keys.
//! - **No delayed retries.** The scheduler retries. A call repeats a request only in another form or after a malformed
//!   reply.

mod asked;
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
mod plain;
mod protocol;
mod reject;
mod stored;
mod wanted;

pub use asked::asked;
pub use endpoint::{CallLimits, Endpoint, ModelChoice, Protocol, Secret};
pub use failure::{Class, Failure};
pub use llm::Llm;
pub use observe::{Answered, CallObserver, Estimate, ProviderCall, ReplyCheck, Structure, Usage};
pub use plain::is_plain;
