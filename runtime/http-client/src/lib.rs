//! HTTP requests to user-supplied URLs, and encryption of the credentials for them.
//!
//! Invariants:
//! - **No server-side request forgery.** Requests go to public addresses, and to private ones only when the operator
//!   allowed the host or the range ([`OutboundClient`]).
//! - **Redirects do not leak secrets.** A redirect to another origin drops every secret header ([`PostRequest`]).
//! - **Secrets are stored encrypted.** Each is bound to its owner, and the key is not in the database ([`Vault`]).

mod http;
mod post;
mod signature;
mod vault;

pub use http::OutboundClient;
pub use post::{Header, PostError, PostRequest, PostResponse, check_address};
pub use signature::signature;
pub use vault::{Error, Vault, parse_key, random_key};
