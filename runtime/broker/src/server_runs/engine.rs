//! Dependencies of the execution of runs.

use std::sync::Arc;
use std::time::Duration;

use perpend_domain::time::Clock;
use perpend_http_client::{OutboundClient, Vault};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

use super::memory::RunMemory;
use crate::broker::Models;

/// The name of the job that executes runs.
pub const JOB: &str = "server_runs";
/// Interval of looks for new runs and for changes of their state.
pub(super) const POLL: Duration = Duration::from_millis(250);
/// A process that does not renew its lease for this time is taken for dead.
pub(super) const LEASE_MS: i64 = 60_000;

/// Executes runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunEngine {
    /// The database.
    pub store: Store,
    /// Calls models.
    pub models: Arc<dyn Models>,
    /// Calls endpoints.
    pub outbound: OutboundClient,
    /// Decrypts the secrets of endpoints.
    pub vault: Vault,
    /// Memory of all calls.
    pub memory: RunMemory,
    /// Woken when traces are written, so that rules score them.
    pub scheduler: Scheduler,
    /// The time.
    pub clock: Arc<dyn Clock>,
}
