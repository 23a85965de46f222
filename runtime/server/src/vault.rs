//! Secrets that have to be read again, such as keys of model providers: encrypted with a key that is not
//! in the database (`secrets.key`, or a file beside the data made at first use).
//!
//! XChaCha20-Poly1305: its nonces are long enough to be drawn at random for ever. What a secret belongs to
//! is authenticated with it, so that a row cannot be moved under another owner.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use perpend_domain::ids::IdSource;
use sha2::{Digest as _, Sha256};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const FILE: &str = "secrets.key";

/// Why there is no vault, or a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file with the key cannot be used.
    #[error("the key file {}: {error}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The text is no key.
    #[error("a key is 32 bytes in base64; `openssl rand -base64 32` makes one")]
    InvalidKey,
    /// Another key, another owner, or damage.
    #[error("the secret cannot be read: it was written with another key, or is damaged")]
    Unreadable,
}

/// Encrypts and decrypts.
#[derive(Clone)]
pub struct Vault(XChaCha20Poly1305);

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

/// Reads a key: 32 bytes in base64.
///
/// # Errors
/// [`Error::InvalidKey`] for any other text.
pub fn parse_key(text: &str) -> Result<[u8; KEY_BYTES], Error> {
    let bytes = STANDARD.decode(text.trim()).ok();
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.ok_or(Error::InvalidKey)
}

fn random(ids: &dyn IdSource) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    // Four times 122 random bits.
    for _ in 0..4 {
        hash.update(ids.uuid().as_bytes());
    }
    hash.finalize().into()
}

impl Vault {
    /// With this key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// With the key from the settings, or that of the file in `data_dir`, which is made when it is not
    /// there.
    ///
    /// # Errors
    /// When there is no key and none can be made.
    pub fn open(key: Option<&str>, data_dir: &Path, ids: &dyn IdSource) -> Result<Self, Error> {
        if let Some(text) = key {
            return parse_key(text).map(|key| Self::new(&key));
        }
        let path = data_dir.join(FILE);
        let fault = |error| Error::File {
            path: path.clone(),
            error,
        };
        match std::fs::read_to_string(&path) {
            Ok(text) => parse_key(&text).map(|key| Self::new(&key)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = random(ids);
                write_private(&path, &STANDARD.encode(key)).map_err(fault)?;
                Ok(Self::new(&key))
            }
            Err(error) => Err(fault(error)),
        }
    }

    /// Encrypts a secret of this owner.
    ///
    /// # Errors
    /// When it is too long for the cipher, which no request is.
    pub fn seal(&self, owner: &str, secret: &str, ids: &dyn IdSource) -> Result<Vec<u8>, Error> {
        let random = random(ids);
        let nonce = &random[..NONCE_BYTES];
        let payload = Payload {
            msg: secret.as_bytes(),
            aad: owner.as_bytes(),
        };
        let sealed = self.0.encrypt(XNonce::from_slice(nonce), payload);
        let sealed = sealed.map_err(|_| Error::Unreadable)?;
        Ok([nonce, &sealed].concat())
    }

    /// Decrypts what [`Self::seal`] made for this owner.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for anything else.
    pub fn unseal(&self, owner: &str, sealed: &[u8]) -> Result<String, Error> {
        let (nonce, body) = sealed
            .split_at_checked(NONCE_BYTES)
            .ok_or(Error::Unreadable)?;
        let payload = Payload {
            msg: body,
            aad: owner.as_bytes(),
        };
        let plain = self.0.decrypt(XNonce::from_slice(nonce), payload);
        let plain = plain.map_err(|_| Error::Unreadable)?;
        String::from_utf8(plain).map_err(|_| Error::Unreadable)
    }
}

/// A new file that its owner alone can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomIds;

    #[test]
    fn a_secret_comes_back_to_its_owner_and_to_nobody_else() {
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

    #[test]
    fn a_key_is_made_once_and_read_by_nobody_else() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let first = Vault::open(None, dir.path(), &RandomIds).unwrap();
        let sealed = first.seal("o", "s", &RandomIds).unwrap();
        let again = Vault::open(None, dir.path(), &RandomIds).unwrap();
        assert_eq!(again.unseal("o", &sealed).unwrap(), "s");
        let mode = std::fs::metadata(dir.path().join(FILE))
            .unwrap()
            .permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert!(matches!(parse_key("short"), Err(Error::InvalidKey)));
    }
}
