//! Keys as rate limits and memory are counted by.

use std::fmt;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap};

use super::Credentials;
use super::caller::identify;
use crate::Web;
use crate::admission::{Account, Holder};
use crate::client_address::ClientAddress;

/// A key: the public half alone, which anybody may know, counts apart from its pair.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CountedKey {
    name: String,
    is_pair: bool,
}

// What comes as a bearer may be a secret.
impl fmt::Debug for CountedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedKey").finish_non_exhaustive()
    }
}

/// The key in these headers, when it is valid.
pub async fn counted_key(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Option<CountedKey> {
    // A failure is counted and logged when the handler asks.
    identify(web, client, headers).await.ok()?;
    CountedKey::shown(headers)
}

impl CountedKey {
    /// The key in these headers, valid or not.
    fn shown(headers: &HeaderMap) -> Option<Self> {
        let (name, is_pair) = match Credentials::parse(headers.get(AUTHORIZATION)?)? {
            Credentials::Pair { public_key, .. } => (public_key, true),
            Credentials::PublicKey(name) => (name, false),
        };
        Some(Self { name, is_pair })
    }
}

/// Charges the memory of a request to its key. Only for requests that were authenticated: else anybody could fill
/// the share of a key.
pub(super) fn charge_to_key(extensions: &Extensions, headers: &HeaderMap) {
    if let (Some(account), Some(key)) = (Account::of(extensions), CountedKey::shown(headers)) {
        account.belongs_to(Holder::Key(key));
    }
}
