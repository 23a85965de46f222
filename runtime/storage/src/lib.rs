//! The database of a server: telemetry, catalog and ledger over the same connections, and what is done in several of
//! them at once.
//!
//! Invariants of all four rooms:
//! - **A tenant is always named.** Every function that touches tenant data takes a [`ProjectId`], and its
//!   statement carries it; there is no other way to ask.
//! - **Returned means durable.** When a write returns `Ok`, it survives power loss.
//! - **Twice is once.** Every write is idempotent under retries, duplicates and any order.
//! - **Rows are private.** Callers see domain types; what a row cannot be turned into is
//!   [`Error::Inconsistent`], never a panic.
//!
//! [`ProjectId`]: perpend_domain::ids::ProjectId

pub mod backup;
mod sweep;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod transactions;

pub use sweep::Swept;
pub use transactions::Matched;

use futures_util::future::BoxFuture;
use perpend_catalog::Catalog;
use perpend_db::{DatabaseUrl, Error, Older, Options, Pool, query_scalar};
use perpend_domain::time::Timestamp;
use perpend_executions::Ledger;
use perpend_telemetry::Telemetry;

/// The database: its three rooms over the same connections, cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    /// What was sent, and what it was scored.
    pub telemetry: Telemetry,
    /// What people set up.
    pub catalog: Catalog,
    /// What is to be evaluated, and what became of it.
    pub ledger: Ledger,
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
        Box::pin(Self::open_with(url, options, Older::Migrate))
    }

    /// As [`Store::open`], beside a server that may be running: an older schema is left as it is.
    ///
    /// # Errors
    /// As [`Store::open`], and [`Error::TooOld`].
    pub fn open_beside_server<'a>(
        url: &'a DatabaseUrl,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self, Error>> {
        Box::pin(Self::open_with(url, options, Older::Refuse))
    }

    async fn open_with(url: &DatabaseUrl, options: &Options, older: Older) -> Result<Self, Error> {
        let pool = Pool::open(url, options).await?;
        perpend_db::migrate(&pool, perpend_db::STEPS, older).await?;
        Ok(Self::over(pool))
    }

    fn over(pool: Pool) -> Self {
        Self {
            telemetry: Telemetry::start(&pool),
            catalog: Catalog::new(&pool),
            ledger: Ledger::new(&pool),
            pool,
        }
    }

    /// Takes no more batches, writes those it has taken, and closes all connections.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.telemetry.close().await;
            self.pool.close().await;
        })
    }

    /// Succeeds when the database takes writes.
    ///
    /// # Errors
    /// When a write fails.
    pub fn prove_writes(&self, now: Timestamp) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.pool.prove_writes(now))
    }

    /// Answers when the database does.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        let _: i64 = query_scalar("SELECT CAST(1 AS BIGINT)").fetch_one(&self.pool).await?;
        Ok(())
    }
}
