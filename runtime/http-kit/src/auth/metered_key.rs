//! The key that rate limits and memory of a request are counted by.

use axum::http::{Extensions, HeaderMap};

use super::caller::identify;
use super::key::MeteredKey;
use crate::Web;
use crate::admission::{Account, AccountOwner};
use crate::client_address::ClientAddress;

// A bearer token may be a secret.

/// The key in these headers if it is valid.
pub(crate) async fn metered_key(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Option<MeteredKey> {
    // The guard of the handler counts and logs a failure.
    identify(web, client, headers).await.ok()?;
    MeteredKey::from_headers(headers)
}

/// Charges the memory of a request to its key. Only for authenticated requests: otherwise a client without the key could
/// use up its share.
pub(super) fn charge_to_key(extensions: &Extensions, headers: &HeaderMap) {
    if let (Some(account), Some(key)) = (Account::of(extensions), MeteredKey::from_headers(headers))
    {
        account.belongs_to(AccountOwner::Key(key));
    }
}
