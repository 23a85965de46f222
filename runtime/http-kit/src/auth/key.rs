//! API keys: the secret that a request contains, the caller that sent it, and the key of rate limits.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use perpend_catalog::{ApiKey, KeyOwner, Rights, SecretHash};
use perpend_domain::access::Scope;
use perpend_domain::time::Timestamp;

use super::basic::Credentials;
use crate::problem::{Code, Problem};

/// The secret of a key that a request contains.
pub(super) struct MatchedSecret {
    pub(super) hash: SecretHash,
    pub(super) last_used_at: Option<Timestamp>,
    /// The end of a secret that a rotation replaced.
    replaced_until: Option<Timestamp>,
    key_expires_at: Option<Timestamp>,
}

impl MatchedSecret {
    /// The secret of the key that this one is, valid or expired.
    pub(super) fn find(key: &ApiKey, secret: &str) -> Option<Self> {
        let current = &key.made.secret_hash;
        let rotation = key.rotation.as_ref();
        let previous = rotation.map_or(current, |rotation| &rotation.previous_hash);
        // Always two comparisons: the response time does not reveal whether the key was rotated.
        let matches = [current, previous].map(|hash| hash.matches(secret));
        let key_expires_at = key.made.expires_at;
        match (matches, rotation) {
            ([true, _], _) => Some(Self {
                hash: current.clone(),
                last_used_at: key.last_used_at,
                replaced_until: None,
                key_expires_at,
            }),
            ([false, true], Some(rotation)) => Some(Self {
                hash: previous.clone(),
                last_used_at: rotation.previous_last_used_at,
                replaced_until: Some(rotation.previous_expires_at),
                key_expires_at,
            }),
            _ => None,
        }
    }

    /// The response to a request with an expired secret. Only the owner of the secret receives it.
    pub(super) fn expiry(&self, now: Timestamp) -> Option<Problem> {
        let has_ended = |end: &Timestamp| *end <= now;
        let message = if let Some(end) = self.key_expires_at.filter(has_ended) {
            format!("this key pair expired at {end}; send another one, or change its expiry")
        } else if let Some(end) = self.replaced_until.filter(has_ended) {
            format!(
                "this secret was replaced by a rotation and ended at {end}; send the new secret"
            )
        } else {
            return None;
        };
        Some(Problem::new(Code::KeyExpired, message))
    }
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
    pub(super) fn pair(key: &ApiKey) -> Self {
        let scope = match (&key.owner, key.made.rights) {
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
