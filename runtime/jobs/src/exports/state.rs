//! What exports work with.

use std::sync::Arc;

use perpend_catalog::Prices;
use perpend_domain::ids::IdSource;
use perpend_domain::time::Clock;
use perpend_http_client::{OutboundClient, Vault};
use perpend_storage::Store;

/// What exports work with; cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// What is exported, and where to.
    pub store: Store,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where fresh ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Prices of models.
    pub prices: Arc<Prices>,
    /// Opens the keys of buckets.
    pub vault: Vault,
    /// The way to the buckets.
    pub outbound: OutboundClient,
    /// A file that is larger is followed by another, bytes before compression.
    pub max_file_bytes: usize,
}
