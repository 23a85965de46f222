//! Signatures of addresses that carry their own proof.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use perpend_web::Web;
use perpend_web::problem::Problem;
use sha2::Sha256;
use tokio::sync::{OnceCell, Semaphore};

/// Name of the signing key among the installation's secrets.
const KEY_NAME: &str = "media-key";
/// Keeps a signature made here from being one anywhere else.
const DOMAIN: &[u8] = b"media/1";
/// Kibibytes of downloads that are held in memory at once.
const HELD_KIB: usize = 400 << 10;

/// Signs and checks, with a key that the installation keeps.
pub(crate) struct Signer {
    key: OnceCell<Hmac<Sha256>>,
    /// Room for the bytes of downloads, by the kibibyte. Apart from the bodies of requests: whoever sends slowly
    /// keeps no reader waiting.
    pub(super) downloads: Arc<Semaphore>,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            key: OnceCell::new(),
            downloads: Arc::new(Semaphore::new(HELD_KIB)),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    pub(super) async fn signature(
        &self,
        web: &Web,
        verb: &str,
        project: &str,
        id: &str,
        until: i64,
    ) -> Result<Hmac<Sha256>, Problem> {
        let key = self.key.get_or_try_init(|| async {
            let ids = &web.ids;
            let fresh = format!("{}{}", ids.uuid().simple(), ids.uuid().simple());
            let key = web.catalog.secret(KEY_NAME, || fresh.into_bytes()).await?;
            // HMAC takes a key of any length, an empty one included.
            let signer = Hmac::new_from_slice(&key);
            Ok::<_, perpend_sql::Error>(signer.unwrap_or_else(|_| Hmac::new(&Default::default())))
        });
        let mut signer = key.await?.clone();
        signer.update(DOMAIN);
        for part in [verb, project, id] {
            // Lengths keep parts from running into each other.
            signer.update(&(part.len() as u64).to_be_bytes());
            signer.update(part.as_bytes());
        }
        signer.update(&until.to_be_bytes());
        Ok(signer)
    }
}
