//! The way to the outside: HTTP to addresses that users name, and the secrets that such addresses ask for.
//!
//! Invariants:
//! - **No request of a user reaches the neighbours.** An address that is not public is spoken to only where the
//!   operator named its host ([`Outbound`]).
//! - **A secret does not travel on.** A redirect to another origin loses every secret header ([`Post`]).
//! - **A secret is stored sealed.** It opens for its owner alone, with a key that is not in the database ([`Vault`]).

mod http;
mod post;
mod vault;

pub use http::Outbound;
pub use post::{Answer, Header, Post, PostError, check_address};
pub use vault::{Error, Vault, fresh_key, parse_key};
