//! Keys as rate limits count them.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use super::{Credentials, authenticate};
use crate::App;

/// A key: the public half alone, which anybody may know, counts apart from its pair.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CountedKey {
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
pub(crate) async fn counted_key(app: &App, headers: &HeaderMap) -> Option<CountedKey> {
    authenticate(app, headers).await.ok()?;
    let (name, is_pair) = match Credentials::parse(headers.get(AUTHORIZATION)?)? {
        Credentials::Pair { public_key, .. } => (public_key, true),
        Credentials::PublicKey(name) => (name, false),
    };
    Some(CountedKey { name, is_pair })
}
