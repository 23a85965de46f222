//! Model providers behind one function: [`Llm::complete`], and [`Llm::embed`] beside it.
//!
//! A call goes through the gate of its connection, is announced to an observer (budgets), sent in the provider's
//! protocol, classified, and its reply checked against the wanted schema; malformed replies are asked for again.
//!
//! Invariants:
//! - **Secrets end in request headers.** No error, `Debug` output or record contains a key or a header's value.
//! - **Only parameters that somebody set are sent**, apart from the output limit that Anthropic requires.
//! - **A schema that is not plain is not used here** ([`is_plain`], [`ReplyCheck`]): guests write them, and this process
//!   holds keys.
//! - **No waiting retries.** The scheduler retries; a call asks again only for what another form or a malformed reply
//!   makes necessary.

mod complete;
mod connections;
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
mod wanted;

pub use endpoint::{CallLimits, Endpoint, ModelChoice, Protocol, Secret};
pub use failure::{Class, Failure};
pub use llm::Llm;
pub use observe::{CallObserver, Estimate, ProviderCall, ReplyCheck, Structure, Usage};
pub use plain::is_plain;
