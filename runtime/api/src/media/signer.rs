//! Signatures of URLs.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use perpend_http_client::Vault;
use sha2::Sha256;
use tokio::sync::Semaphore;

/// Context of the derivation of the signing key.
const PURPOSE: &str = "media links";
/// Domain separation of the signatures.
const DOMAIN: &[u8] = b"media/1";
/// Memory limit of downloads in KiB. The largest uploaded medium has 100 MiB.
pub(super) const HELD_KIB: u32 = 128 << 10;

/// Signs URLs.
pub(crate) struct Signer {
    key: Hmac<Sha256>,
    /// Memory of downloads, one permit per KiB. Separate from the memory of request bodies: a slow sender
    /// must not block downloads.
    pub(super) downloads: Arc<Semaphore>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    /// Derives the key from that of the installation; it is not stored.
    pub(crate) fn new(vault: &Vault) -> Self {
        // HMAC accepts keys of any length.
        let key = Hmac::new_from_slice(&vault.derive(PURPOSE));
        Self {
            key: key.unwrap_or_else(|_| Hmac::new(&Default::default())),
            downloads: Arc::new(Semaphore::new(HELD_KIB as usize)),
        }
    }

    pub(super) fn signature(
        &self,
        verb: &str,
        project: &str,
        id: &str,
        until: i64,
    ) -> Hmac<Sha256> {
        let mut signer = self.key.clone();
        signer.update(DOMAIN);
        for part in [verb, project, id] {
            // Length prefixes make the parts unambiguous.
            signer.update(&(part.len() as u64).to_be_bytes());
            signer.update(part.as_bytes());
        }
        signer.update(&until.to_be_bytes());
        signer
    }
}
