//! Encryption of secrets that must be read again, such as keys of model providers. The key is not in the database.
//!
//! XChaCha20-Poly1305, because its nonces are long enough to be random. The owner is authenticated as associated data, so
//! that a ciphertext cannot be moved to another owner.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use perpend_domain::ids::IdSource;
use sha2::{Digest as _, Sha256};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// A key is invalid, or a secret cannot be decrypted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a key.
    #[error("a key must be 32 bytes in base64, such as the output of `openssl rand -base64 32`")]
    InvalidKey,
    /// Encrypted with another key or for another owner, or damaged.
    #[error("the secret cannot be decrypted: it was encrypted with another key, or is damaged")]
    Unreadable,
}

/// Encrypts and decrypts, and derives keys for other purposes.
#[derive(Clone)]
pub struct Vault {
    cipher: XChaCha20Poly1305,
    derive: Hmac<Sha256>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

/// Parses a key: 32 bytes in base64.
///
/// # Errors
/// [`Error::InvalidKey`] for any other text.
pub fn parse_key(text: &str) -> Result<[u8; KEY_BYTES], Error> {
    let bytes = STANDARD.decode(text.trim()).ok();
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.ok_or(Error::InvalidKey)
}

/// Generates a key. It is unpredictable when the ids of `ids` are random.
pub fn random_key(ids: &dyn IdSource) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    // Four times 122 random bits.
    for _ in 0..4 {
        hash.update(ids.uuid().as_bytes());
    }
    hash.finalize().into()
}

impl Vault {
    /// A vault with this key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        // HMAC takes a key of any length.
        let derive = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key);
        Self {
            cipher: XChaCha20Poly1305::new(key.into()),
            derive: derive.unwrap_or_else(|_| hmac::KeyInit::new(&Default::default())),
        }
    }

    /// Derives a key for one purpose. It is the same for every server with this key, is not stored, and reveals nothing
    /// about other keys.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        let mut derive = self.derive.clone();
        derive.update(b"perpend/derive/1 ");
        derive.update(purpose.as_bytes());
        derive.finalize().into_bytes().into()
    }

    /// Encrypts a secret for this owner.
    ///
    /// # Errors
    /// When the secret is longer than the cipher allows, which no request can be.
    pub fn seal(&self, owner: &str, secret: &str, ids: &dyn IdSource) -> Result<Vec<u8>, Error> {
        let random = random_key(ids);
        let nonce = &random[..NONCE_BYTES];
        let payload = Payload { msg: secret.as_bytes(), aad: owner.as_bytes() };
        let sealed = self.cipher.encrypt(XNonce::from_slice(nonce), payload);
        let sealed = sealed.map_err(|_| Error::Unreadable)?;
        Ok([nonce, &sealed].concat())
    }

    /// Decrypts the output of [`Self::seal`] for this owner.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for anything else.
    pub fn unseal(&self, owner: &str, sealed: &[u8]) -> Result<String, Error> {
        let (nonce, body) = sealed.split_at_checked(NONCE_BYTES).ok_or(Error::Unreadable)?;
        let payload = Payload { msg: body, aad: owner.as_bytes() };
        let plain = self.cipher.decrypt(XNonce::from_slice(nonce), payload);
        let plain = plain.map_err(|_| Error::Unreadable)?;
        String::from_utf8(plain).map_err(|_| Error::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct RandomIds;

    impl IdSource for RandomIds {
        fn uuid(&self) -> uuid::Uuid {
            uuid::Uuid::new_v4()
        }
    }

    #[test]
    fn a_secret_can_be_decrypted_only_for_its_owner() {
        let vault = Vault::new(&[7; KEY_BYTES]);
        let sealed = vault.seal("ours", "sk-secret", &RandomIds).unwrap();
        assert_eq!(vault.unseal("ours", &sealed).unwrap(), "sk-secret");
        assert!(!sealed.windows(9).any(|part| part == b"sk-secret"));
        assert_ne!(sealed, vault.seal("ours", "sk-secret", &RandomIds).unwrap());
        let mut damaged = sealed.clone();
        damaged[NONCE_BYTES] ^= 1;
        assert!(vault.unseal("ours", &damaged).is_err());
        assert!(vault.unseal("theirs", &sealed).is_err());
        assert!(vault.unseal("ours", &sealed[..10]).is_err());
        assert!(Vault::new(&[8; KEY_BYTES]).unseal("ours", &sealed).is_err());
    }
}
