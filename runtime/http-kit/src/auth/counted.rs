//! Keys as rate limits and memory are counted by.

use axum::http::{Extensions, HeaderMap};

use super::caller::identify;
use super::key::CountedKey;
use crate::Web;
use crate::admission::{Account, Holder};
use crate::client_address::ClientAddress;

// What comes as a bearer may be a secret.

/// The key in these headers, when it is valid.
pub(crate) async fn counted_key(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Option<CountedKey> {
    // A failure is counted and logged when the handler asks.
    identify(web, client, headers).await.ok()?;
    CountedKey::shown(headers)
}

/// Charges the memory of a request to its key. Only for requests that were authenticated: else anybody could fill
/// the share of a key.
pub(super) fn charge_to_key(extensions: &Extensions, headers: &HeaderMap) {
    if let (Some(account), Some(key)) = (Account::of(extensions), CountedKey::shown(headers)) {
        account.belongs_to(Holder::Key(key));
    }
}
