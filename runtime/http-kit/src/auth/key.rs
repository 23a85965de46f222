//! Keys: what is known of one, what a caller who shows one is, and what requests are counted by.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use perpend_catalog::{KeyOwner, Rights, SecretHash};
use perpend_domain::access::Scope;
use perpend_domain::time::Timestamp;

use super::basic::Credentials;

/// What a key is remembered by.
#[derive(Clone, Debug)]
pub struct KnownKey {
    pub id: String,
    pub owner: KeyOwner,
    pub(super) secret_hash: SecretHash,
    pub(super) rights: Rights,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) last_used_at: Option<Timestamp>,
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) owner: Owner,
    pub(super) scope: Scope,
    /// Id of the key whose public half is all that was shown.
    pub(super) public_half: Option<String>,
}

/// What a key belongs to.
pub(super) type Owner = KeyOwner;

impl Caller {
    /// Of a whole pair.
    pub(super) fn pair(key: &KnownKey) -> Self {
        let scope = match (&key.owner, key.rights) {
            (KeyOwner::Organization(_), _) => Scope::Organization,
            (KeyOwner::Project(_), Rights::Full) => Scope::Full,
            (KeyOwner::Project(_), Rights::Ingest) => Scope::Ingest,
        };
        Self { owner: key.owner.clone(), scope, public_half: None }
    }
}

/// A key: the public half alone, which anybody may know, counts apart from its pair.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CountedKey {
    name: String,
    is_pair: bool,
}

impl fmt::Debug for CountedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountedKey").finish_non_exhaustive()
    }
}

impl CountedKey {
    /// The key in these headers, valid or not.
    pub(super) fn shown(headers: &HeaderMap) -> Option<Self> {
        let (name, is_pair) = match Credentials::parse(headers.get(AUTHORIZATION)?)? {
            Credentials::Pair { public_key, .. } => (public_key, true),
            Credentials::PublicKey(name) => (name, false),
        };
        Some(Self { name, is_pair })
    }
}
