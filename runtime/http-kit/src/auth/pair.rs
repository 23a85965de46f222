//! New key pairs, random or supplied by the caller.

use perpend_catalog::{NewApiKey, NewSecret, Rights, SecretHash};
use perpend_domain::ids::{IdSource, InvalidId, PublicKey};
use perpend_domain::time::Timestamp;

/// A key pair in clear text. The secret half is not stored.
#[derive(Clone)]
pub struct KeyPair {
    /// Sent in the clear.
    pub public_key: String,
    /// Stored by the client only.
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
    pub fn random(ids: &dyn IdSource) -> Self {
        Self {
            public_key: format!("pk-perpend-{}", ids.uuid()),
            secret_key: format!("sk-perpend-{}", ids.uuid()),
        }
    }

    /// The stored form of the secret half.
    #[must_use]
    pub fn to_secret(&self, ids: &dyn IdSource) -> NewSecret {
        NewSecret {
            hash: SecretHash::new(&self.secret_key, ids.uuid().into_bytes()),
            hint: hint(&self.secret_key),
        }
    }

    /// The stored form of the pair, with full rights.
    ///
    /// # Errors
    /// [`InvalidId`] for a malformed public key.
    pub fn to_key(
        &self,
        ids: &dyn IdSource,
        note: Option<String>,
        expires_at: Option<Timestamp>,
    ) -> Result<NewApiKey, InvalidId> {
        let id = ids.uuid().to_string();
        let secret = self.to_secret(ids);
        Ok(NewApiKey {
            id,
            public_key: PublicKey::to_store(&self.public_key)?,
            secret_hash: secret.hash,
            secret_hint: secret.hint,
            rights: Rights::Full,
            note,
            expires_at,
        })
    }
}

/// The last characters of a secret, at most a quarter of it.
fn hint(secret: &str) -> String {
    let n_chars = secret.chars().count();
    let tail: String = secret.chars().skip(n_chars - (n_chars / 4).min(4)).collect();
    format!("…{tail}")
}
