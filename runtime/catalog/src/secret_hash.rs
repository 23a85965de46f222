//! Hash of the secret half of a key.
//!
//! Only a salted SHA-256 of a secret is stored. A slow hash (argon2) was rejected: secrets are checked on
//! every request, and those that the server creates are random UUIDs, which cannot be guessed. A secret
//! chosen by a user must be long and random.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// Separates these digests from any other use of SHA-256 over the same text.
const SECRET_DOMAIN: &[u8] = b"api-key-secret/1\0";

/// Salt and digest of a key's secret. As text: `sha256:SALT:DIGEST` in hexadecimal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretHash {
    salt: [u8; 16],
    digest: [u8; 32],
}

/// The text is not a valid [`SecretHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret hash is sha256:SALT:DIGEST in hexadecimal")]
pub struct InvalidSecretHash;

impl SecretHash {
    /// Hashes `secret` under a random `salt`, such as the bytes of a random UUID.
    #[must_use]
    pub fn new(secret: &str, salt: [u8; 16]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(SECRET_DOMAIN);
        hasher.update(salt);
        hasher.update(secret.as_bytes());
        Self { salt, digest: hasher.finalize().into() }
    }

    /// Whether `secret` matches, in constant time.
    #[must_use]
    pub fn matches(&self, secret: &str) -> bool {
        let other = Self::new(secret, self.salt);
        let pairs = self.digest.iter().zip(&other.digest);
        let difference = pairs.fold(0, |sum, (left, right)| sum | (left ^ right));
        std::hint::black_box(difference) == 0
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.salt.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        f.write_str(":")?;
        self.digest.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl FromStr for SecretHash {
    type Err = InvalidSecretHash;

    fn from_str(raw: &str) -> Result<Self, InvalidSecretHash> {
        fn bytes<const N: usize>(hex: &str) -> Result<[u8; N], InvalidSecretHash> {
            let mut bytes = [0; N];
            if hex.len() != 2 * N || !hex.is_ascii() {
                return Err(InvalidSecretHash);
            }
            for (i, byte) in bytes.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16)
                    .map_err(|_| InvalidSecretHash)?;
            }
            Ok(bytes)
        }
        let (salt, digest) = raw
            .strip_prefix("sha256:")
            .and_then(|rest| rest.split_once(':'))
            .ok_or(InvalidSecretHash)?;
        Ok(Self { salt: bytes(salt)?, digest: bytes(digest)? })
    }
}
