//! Takes over the runs that no process drives.

use std::sync::Arc;
use std::time::Duration;

use perpend_db::Error;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::engine::{LEASE_MS, POLL, RunEngine};

/// Interval of checks for rules of ended runs.
const RULES: Duration = Duration::from_secs(60);

impl RunEngine {
    /// Takes over the runs that no process drives and drives them, including those that are started meanwhile, until none
    /// is left or `shutdown`. Returns the number of results.
    ///
    /// # Errors
    /// When runs cannot be claimed.
    pub async fn run(&self, shutdown: &CancellationToken) -> Result<u64, Error> {
        let mut drivers = JoinSet::new();
        let mut n_results = 0;
        let mut rules_at = Instant::now();
        self.disable_rules().await;
        loop {
            if RULES <= rules_at.elapsed() {
                rules_at = Instant::now();
                self.disable_rules().await;
            }
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
