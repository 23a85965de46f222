//! API keys: the cached key, the caller that sent it, and the key of rate limits.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use perpend_catalog::{KeyOwner, Rights, SecretHash};
use perpend_domain::access::Scope;
use perpend_domain::time::Timestamp;

use super::basic::Credentials;

/// A cached key.
#[derive(Clone, Debug)]
pub struct KnownKey {
    pub id: String,
    pub owner: KeyOwner,
    pub(super) secret_hash: SecretHash,
    pub(super) rights: Rights,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_used_at: Option<Timestamp>,
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) owner: Owner,
    pub(super) scope: Scope,
    /// Id of the key, when only its public half was sent.
    pub(super) public_half: Option<String>,
}

/// Owner of a key.
pub(super) type Owner = KeyOwner;

impl Caller {
    /// The caller with both halves of a key.
    pub(super) fn pair(key: &KnownKey) -> Self {
        let scope = match (&key.owner, key.rights) {
            (KeyOwner::Organization(_), _) => Scope::Organization,
            (KeyOwner::Project(_), Rights::Full) => Scope::Full,
            (KeyOwner::Project(_), Rights::Read) => Scope::Read,
            (KeyOwner::Project(_), Rights::Ingest) => Scope::Ingest,
        };
        Self { owner: key.owner.clone(), scope, public_half: None }
    }
}

/// A key for counting. The public half alone, which is no secret, is counted separately from the pair.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MeteredKey {
    name: String,
    is_pair: bool,
}

impl fmt::Debug for MeteredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeteredKey").finish_non_exhaustive()
    }
}

impl MeteredKey {
    /// The key in these headers, valid or not.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let (name, is_pair) = match Credentials::parse(headers.get(AUTHORIZATION)?)? {
            Credentials::Pair { public_key, .. } => (public_key, true),
            Credentials::PublicKey(name) => (name, false),
        };
        Some(Self { name, is_pair })
    }
}
