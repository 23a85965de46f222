//! Dependencies of exports.

use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Clock;
use perpend_http_client::{OutboundClient, Vault};
use perpend_storage::Store;

/// Dependencies of exports; cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The database.
    pub store: Store,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Source of ids.
    pub ids: Arc<dyn IdSource>,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Decrypts the keys of buckets.
    pub vault: Vault,
    /// HTTP client for the buckets.
    pub outbound: OutboundClient,
    /// File size in bytes before compression at which the next file is started.
    pub max_file_bytes: usize,
}
