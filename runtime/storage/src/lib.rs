//! The database of a server: telemetry, catalog and executions over the same connections, and operations on
//! several of them.
//!
//! Invariants of all these crates:
//! - **Tenants are explicit.** Every function on tenant data takes a [`ProjectId`], which is part of its
//!   statement; there is no other access.
//! - **Returned means durable.** When a write returns `Ok`, it survives power loss.
//! - **Idempotent.** Every write tolerates retries, duplicates and any order.
//! - **Rows are private.** Callers get domain types. A row that cannot be converted is
//!   [`Error::Inconsistent`], never a panic.
//!
//! [`ProjectId`]: perpend_domain::ids::ProjectId

mod backtests;
pub mod backup;
mod changed_outputs;
mod compared_runs;
mod comparisons;
mod experiments;
mod people;
mod score_analytics;
mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod transactions;

pub use compared_runs::{CompareRunsError, ComparedRuns};
pub use comparisons::ComparisonQuery;
pub use perpend_telemetry::Bounds;
pub use score_analytics::{ScoreAnalyticsQuery, ScoreThresholdQuery};
pub use sweep::SweepReport;
pub use transactions::{ItemsWrite, MatchOutcome};

use std::sync::Arc;

use compared_runs::ComparisonCache;
use futures_util::future::BoxFuture;
use perpend_catalog::Catalog;
use perpend_db::{DatabaseUrl, Error, MigrationMode, Options, Pool, query_scalar};
use perpend_domain::time::Timestamp;
use perpend_executions::Ledger;
use perpend_telemetry::Telemetry;

/// The database: its three stores over the same connections, cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    /// Traces, observations, sessions, scores and media.
    pub telemetry: Telemetry,
    /// Configuration.
    pub catalog: Catalog,
    /// Executions and their outcomes.
    pub ledger: Ledger,
    comparisons: Arc<ComparisonCache>,
    pool: Pool,
}

impl Store {
    /// Opens the database, creating and migrating it as needed.
    ///
    /// # Errors
    /// When it cannot be opened, is newer than this program, or a migration fails.
    pub fn open<'a>(
        url: &'a DatabaseUrl,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self, Error>> {
        Box::pin(Self::open_with(url, options, MigrationMode::Migrate))
    }

    /// As [`Store::open`], for a process next to a running server: an older schema is not migrated.
    ///
    /// # Errors
    /// As [`Store::open`], and [`Error::TooOld`].
    pub fn open_next_to_server<'a>(
        url: &'a DatabaseUrl,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self, Error>> {
        Box::pin(Self::open_with(url, options, MigrationMode::Refuse))
    }

    async fn open_with(
        url: &DatabaseUrl,
        options: &Options,
        mode: MigrationMode,
    ) -> Result<Self, Error> {
        let pool = Pool::open(url, options).await?;
        perpend_db::migrate(&pool, perpend_db::STEPS, mode).await?;
        Ok(Self::over(pool))
    }

    fn over(pool: Pool) -> Self {
        Self {
            telemetry: Telemetry::start(&pool),
            catalog: Catalog::new(&pool),
            ledger: Ledger::new(&pool),
            comparisons: Arc::default(),
            pool,
        }
    }

    /// Refuses new batches, writes the queued ones, and closes all connections.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.telemetry.close().await;
            self.pool.close().await;
        })
    }

    /// Succeeds if the database accepts writes.
    ///
    /// # Errors
    /// When a write fails.
    pub fn prove_writes(&self, now: Timestamp) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.pool.prove_writes(now))
    }

    /// Bytes of the database, without the log of SQLite.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn database_bytes(&self) -> Result<u64, Error> {
        let size = match self.pool.is_postgres() {
            true => "SELECT pg_database_size(current_database())",
            false => {
                "SELECT CAST(page_count * page_size AS BIGINT) FROM pragma_page_count(), pragma_page_size()"
            }
        };
        let n: i64 = query_scalar(size).fetch_one(&self.pool).await?;
        Ok(n.unsigned_abs())
    }

    /// Succeeds if the database answers.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn ping(&self) -> Result<(), Error> {
        let _: i64 = query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(&self.pool).await?;
        Ok(())
    }
}
