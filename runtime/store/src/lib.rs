//! Every SQL statement of Perpend, on SQLite and on PostgreSQL.
//!
//! Invariants:
//! - **A tenant is always named.** Every function that touches tenant data takes a [`ProjectId`], and its
//!   statement carries it; there is no other way to ask.
//! - **Returned means durable.** When a write returns `Ok`, it survives power loss.
//! - **Twice is once.** Every write is idempotent under retries, duplicates and any order.
//! - **Rows are private.** Callers see domain types; what a row cannot be turned into is
//!   [`Error::Inconsistent`], never a panic.
//!
//! [`ProjectId`]: perpend_domain::ids::ProjectId

pub mod backup;
pub mod blob_exports;
pub mod catalog;
pub mod comments;
pub mod connections;
pub mod dashboards;
pub mod datasets;
mod db;
pub mod evaluation;
mod filter_sql;
mod list;
pub mod media;
pub mod metrics;
mod migrate;
mod models;
mod numbers;
mod pool;
pub mod prompts;
pub mod queues;
mod score_configs;
pub mod scores;
pub mod sealed;
pub mod sessions;
pub mod skills;
mod spell;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use list::{Numbered, Paging};
pub use pool::{DatabaseUrl, InvalidDatabaseUrl, Options};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use migrate::Older;
use pool::Pool;

/// The database, cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: Pool,
    writer: Arc<telemetry::Writer>,
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The project has no such row.
    #[error("no such row in this project")]
    NotFound,
    /// A row with this identity stands already and differs, or a state forbids the change.
    #[error("conflict: {0}")]
    Conflict(&'static str),
    /// Something else has this name, and only one may have it.
    #[error("the name is taken: {0}")]
    NameTaken(&'static str),
    /// The store cannot take more now; the caller may try again later.
    #[error("the store cannot take the write now: {0}")]
    Unavailable(String),
    /// A name or an id is longer than an index can hold.
    #[error("a name or an id is too long")]
    TooLong,
    /// Another transaction was in the way of this one, which was undone; the caller may try again at once.
    #[error("another transaction was in the way: {0}")]
    Collision(String),
    /// The database failed.
    #[error("database: {0}")]
    Sql(#[source] sqlx::Error),
    /// A stored value is not what this version writes.
    #[error("stored {what} is inconsistent: {detail}")]
    Inconsistent {
        /// Which kind of row.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// The database was made by an older version, whose server may be running.
    #[error(
        "the database has schema version {found}, this program writes {known}: start the server of this version \
         first, which brings the database up to date"
    )]
    TooOld {
        /// In the database.
        found: i64,
        /// Of this program.
        known: i64,
    },
    /// The database was made by a newer version.
    #[error("the database has schema version {found}, this program knows up to {known}")]
    TooNew {
        /// In the database.
        found: i64,
        /// Of this program.
        known: i64,
    },
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if pool::is_too_long(&error) {
            Self::TooLong
        } else if pool::is_collision(&error) {
            Self::Collision(error.to_string())
        } else if pool::is_passing(&error) {
            // A full disk, a lock held elsewhere, a lost connection: the same write may succeed later.
            Self::Unavailable(error.to_string())
        } else {
            Self::Sql(error)
        }
    }
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
        migrate::run(&pool, older).await?;
        let writer = telemetry::Writer::start(&pool);
        Ok(Self { pool, writer })
    }

    /// Takes no more batches, writes those it has taken, and closes all connections.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.writer.close().await;
            self.pool.close().await;
        })
    }

    /// Answers when the database does.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        let _: i64 = db::query_scalar("SELECT CAST(1 AS BIGINT)")
            .fetch_one(&self.pool)
            .await?;
        Ok(())
    }
}
