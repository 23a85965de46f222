//! Signatures of addresses that carry their own proof.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use perpend_http_client::Vault;
use sha2::Sha256;
use tokio::sync::Semaphore;

/// Names the signing key among those that are derived from the key of the installation.
const PURPOSE: &str = "media links";
/// Keeps a signature made here from being one anywhere else.
const DOMAIN: &[u8] = b"media/1";
/// Kibibytes of downloads that are held in memory at once. The largest medium that is uploaded has 100 MiB.
pub(super) const HELD_KIB: u32 = 128 << 10;

/// Signs and checks.
pub(crate) struct Signer {
    key: Hmac<Sha256>,
    /// Room for the bytes of downloads, by the kibibyte. Apart from the bodies of requests: whoever sends slowly
    /// keeps no reader waiting.
    pub(super) downloads: Arc<Semaphore>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    /// With a key that is derived from that of the installation, so that the database holds none.
    pub(crate) fn new(vault: &Vault) -> Self {
        // HMAC takes a key of any length.
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
            // Lengths keep parts from running into each other.
            signer.update(&(part.len() as u64).to_be_bytes());
            signer.update(part.as_bytes());
        }
        signer.update(&until.to_be_bytes());
        signer
    }
}
