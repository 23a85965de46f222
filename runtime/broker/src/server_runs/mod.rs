//! Executes runs of experiments: calls a model or an endpoint of the user's application for each item of a dataset, and
//! writes the trace of each result.
//!
//! Invariants:
//! - **One path to models.** Calls go through [`Models`], like those of evaluators: connections, limits, prices and
//!   budgets apply.
//! - **An answer is stored before it is used.** A process that takes over a run asks nothing again whose answer is
//!   stored; ids of traces and observations are derived, so that writing a trace again changes nothing.

mod call;
mod conversation;
mod driver;
mod endpoint;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use perpend_db::Error;
use perpend_domain::time::Clock;
use perpend_http_client::{OutboundClient, Vault};
use perpend_scheduler::Scheduler;
use perpend_storage::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::broker::Models;
use driver::Driver;

pub use conversation::completion_request;

/// The name of the job that executes runs.
pub const JOB: &str = "server_runs";
/// Interval of looks for new runs and for changes of their state.
const POLL: Duration = Duration::from_millis(250);
/// A process that does not renew its lease for this time is taken for dead.
const LEASE_MS: i64 = 60_000;

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
    /// Woken when traces are written, so that rules score them.
    pub scheduler: Scheduler,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl RunEngine {
    /// Takes over the runs that no process drives and drives them, including those that are started meanwhile, until none
    /// is left or `shutdown`. Returns the number of results.
    ///
    /// # Errors
    /// When runs cannot be claimed.
    pub async fn run(&self, shutdown: &CancellationToken) -> Result<u64, Error> {
        let mut drivers = JoinSet::new();
        let mut n_results = 0;
        loop {
            if !shutdown.is_cancelled() {
                self.start(&mut drivers, shutdown).await?;
            }
            if drivers.is_empty() {
                return Ok(n_results);
            }
            let ended = tokio::select! {
                ended = drivers.join_next() => ended,
                () = tokio::time::sleep(POLL) => None,
            };
            match ended {
                Some(Ok(n)) => n_results += n,
                Some(Err(error)) => tracing::error!(%error, "the driver of a run failed"),
                None => {}
            }
        }
    }

    async fn start(
        &self,
        drivers: &mut JoinSet<u64>,
        shutdown: &CancellationToken,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        if !self.store.ledger.has_free_runs(now).await? {
            return Ok(());
        }
        for run in self.store.ledger.claim_runs(now.plus_millis(LEASE_MS), now).await? {
            let (engine, shutdown) = (self.clone(), shutdown.clone());
            drivers.spawn(async move {
                let driver = Driver::new(engine, run).await;
                match driver {
                    Ok(driver) => Arc::new(driver).drive(&shutdown).await,
                    // The lease ends, and the run is taken over again.
                    Err(error) => {
                        let error: &dyn std::error::Error = &error;
                        tracing::error!(error, "a run cannot start");
                        0
                    }
                }
            });
        }
        Ok(())
    }
}
