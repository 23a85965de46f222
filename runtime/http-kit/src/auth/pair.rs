//! Key pairs as they are made: random ones, and those that people bring along.

use perpend_catalog::{NewApiKey, Rights, SecretHash};
use perpend_domain::ids::{IdSource, InvalidId, PublicKey};
use perpend_domain::time::Timestamp;

/// A key pair that nobody can look up again.
#[derive(Clone)]
pub struct KeyPair {
    /// Sent in the clear.
    pub public_key: String,
    /// Kept by the client only.
    pub secret_key: String,
}

// The secret does not reach a log by way of `{:?}`.
impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("public_key", &self.public_key).finish_non_exhaustive()
    }
}

impl KeyPair {
    /// A random pair.
    #[must_use]
    pub fn made(ids: &dyn IdSource) -> Self {
        Self {
            public_key: format!("pk-perpend-{}", ids.uuid()),
            secret_key: format!("sk-perpend-{}", ids.uuid()),
        }
    }

    /// What is stored of the pair: a key that opens everything its owner has.
    ///
    /// # Errors
    /// [`InvalidId`] when the public key cannot be one.
    pub fn to_key(
        &self,
        ids: &dyn IdSource,
        note: Option<String>,
        expires_at: Option<Timestamp>,
    ) -> Result<NewApiKey, InvalidId> {
        Ok(NewApiKey {
            id: ids.uuid().to_string(),
            public_key: PublicKey::to_store(&self.public_key)?,
            secret_hash: SecretHash::new(&self.secret_key, ids.uuid().into_bytes()),
            secret_hint: hint(&self.secret_key),
            rights: Rights::Full,
            note,
            expires_at,
        })
    }
}

/// Enough of a secret to recognise it: its end, and never more than a quarter of it.
fn hint(secret: &str) -> String {
    let n_chars = secret.chars().count();
    let tail: String = secret.chars().skip(n_chars - (n_chars / 4).min(4)).collect();
    format!("…{tail}")
}
