//! Connections to either database.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Connection as _;
use sqlx_postgres::{PgConnectOptions, PgPoolOptions};
use sqlx_sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::outage::Outage;
use crate::reading::Reading;
use crate::turns::{FairPlaces, Turn};
use crate::writes::Writes;
use crate::{Breakpoints, Error};

/// `sqlite:PATH` or `postgres://...`. Its `Display` hides the password.
#[derive(Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A database file, created if it is missing.
    Sqlite(PathBuf),
    /// A connection string in the format of libpq.
    Postgres(String),
}

/// The text is no valid database URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a database is sqlite:PATH or postgres://user:password@host:port/name")]
pub struct InvalidDatabaseUrl;

impl FromStr for DatabaseUrl {
    type Err = InvalidDatabaseUrl;

    fn from_str(raw: &str) -> Result<Self, InvalidDatabaseUrl> {
        if raw.starts_with("postgres://") || raw.starts_with("postgresql://") {
            return match PgConnectOptions::from_str(raw) {
                Ok(_) => Ok(Self::Postgres(raw.to_owned())),
                Err(_) => Err(InvalidDatabaseUrl),
            };
        }
        match raw.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path)) {
            Some(path) if !path.is_empty() => Ok(Self::Sqlite(PathBuf::from(path))),
            _ => Err(InvalidDatabaseUrl),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(raw) => match PgConnectOptions::from_str(raw) {
                Ok(options) => write!(
                    f,
                    "postgres://{}:{}/{}",
                    options.get_host(),
                    options.get_port(),
                    options.get_database().unwrap_or("")
                ),
                Err(_) => f.write_str("postgres://"),
            },
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Options of a connection pool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of connections for reading.
    pub n_readers: u32,
    /// How long a statement waits for a lock or a connection before it fails as unavailable.
    pub wait: Duration,
    /// Time limit of reads of a request; PostgreSQL then ends its statements.
    pub read_timeout: Duration,
    /// Only in tests.
    pub breakpoints: Breakpoints,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            n_readers: 4,
            wait: Duration::from_secs(5),
            read_timeout: Duration::from_secs(20),
            breakpoints: Breakpoints::default(),
        }
    }
}

/// Prepared statements per connection: more than exist.
const STATEMENTS: usize = 512;

/// Owner of statements outside of requests.
const BACKGROUND: &str = "background";
/// Lists that are tested in memory at a time, at most one per owner.
const N_SCANS: usize = 2;
/// Rows that a connection of SQLite reads ahead. They may be large, and are not counted before they are
/// received.
const ROWS_AHEAD: usize = 8;

/// Connections to a database, cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool {
    engine: Engine,
    /// Connections to PostgreSQL for reads of requests, with a time limit.
    limited: Option<sqlx_postgres::PgPool>,
    turns: FairPlaces,
    scans: FairPlaces,
    wait: Duration,
    pub(crate) breakpoints: Breakpoints,
    pub(crate) writes: Writes,
    /// Of PostgreSQL only.
    outage: Option<Arc<Outage>>,
}

/// The right to test rows in memory, until it is dropped.
#[derive(Debug)]
pub struct ScanTurn(#[expect(dead_code, reason = "held until it is dropped")] Turn);

/// The connections: SQLite has one writer and several readers, PostgreSQL one pool for both.
#[derive(Clone, Debug)]
pub enum Engine {
    Sqlite {
        reader: sqlx_sqlite::SqlitePool,
        writer: sqlx_sqlite::SqlitePool,
        /// One connection that moves pages from the log into the database, concurrently with the writer.
        checkpointer: sqlx_sqlite::SqlitePool,
    },
    Postgres(sqlx_postgres::PgPool),
}

impl Pool {
    /// For statements that differ between the databases.
    #[must_use]
    pub const fn is_postgres(&self) -> bool {
        matches!(self.engine, Engine::Postgres(_))
    }

    /// The kind of database and its connections.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Connects, and creates a missing database file.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn open(url: &DatabaseUrl, options: &Options) -> Result<Self, Error> {
        let outage = match url {
            DatabaseUrl::Sqlite(_) => None,
            DatabaseUrl::Postgres(raw) => Some(Outage::new(PgConnectOptions::from_str(raw)?)),
        };
        let limited = match url {
            DatabaseUrl::Sqlite(_) => None,
            DatabaseUrl::Postgres(raw) => Some(limited(raw, options)?),
        };
        Ok(Self {
            engine: Engine::open(url, options).await?,
            limited,
            turns: FairPlaces::new(options.n_readers as usize),
            scans: FairPlaces::new(N_SCANS),
            wait: options.wait,
            breakpoints: options.breakpoints.clone(),
            writes: Writes::default(),
            outage,
        })
    }

    /// The result of `work`, which waits for a connection; an error at once while PostgreSQL is unreachable.
    pub(crate) async fn guard<T>(&self, work: BoxFuture<'_, Result<T, Error>>) -> Result<T, Error> {
        let done = match &self.outage {
            Some(outage) => outage.guard(work).await,
            None => work.await,
        };
        self.writes.note(done)
    }

    /// The connections to PostgreSQL for reads of requests.
    pub(crate) const fn limited(&self) -> Option<&sqlx_postgres::PgPool> {
        self.limited.as_ref()
    }

    /// Waits for the right to use a connection for reading.
    pub(crate) async fn turn(&self, reading: Option<&Reading>) -> Result<Turn, Error> {
        let (owner, wait) = match reading {
            Some(reading) => (reading.owner(), self.wait.min(reading.remaining()?)),
            None => (BACKGROUND, self.wait),
        };
        let turn = tokio::time::timeout(wait, self.turns.take(owner)).await;
        turn.map_err(|_| Error::Unavailable("all connections for reading are in use".to_owned()))
    }

    /// Waits for the right to test rows in memory. To be held for one block of rows: owners take turns, and
    /// each has at most one at a time.
    ///
    /// # Errors
    /// [`Error::TooSlow`] at the deadline of the request.
    pub async fn scan_turn(&self) -> Result<ScanTurn, Error> {
        let Some(reading) = Reading::current() else {
            return Ok(ScanTurn(self.scans.take(BACKGROUND).await));
        };
        let turn = self.scans.take(reading.owner());
        let turn = tokio::time::timeout(reading.remaining()?, turn).await;
        turn.map(ScanTurn).map_err(|_| Error::TooSlow)
    }

    /// Moves committed pages from the log of SQLite into the database, unless a reader needs them. PostgreSQL
    /// does this itself.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        if let Engine::Sqlite { checkpointer, .. } = &self.engine {
            sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(checkpointer).await?;
        }
        Ok(())
    }

    pub async fn close(&self) {
        match &self.engine {
            Engine::Sqlite { reader, writer, checkpointer } => {
                checkpointer.close().await;
                reader.close().await;
                writer.close().await;
            }
            Engine::Postgres(pool) => pool.close().await,
        }
        if let Some(limited) = &self.limited {
            limited.close().await;
        }
    }
}

impl Engine {
    async fn open(url: &DatabaseUrl, options: &Options) -> Result<Self, Error> {
        match url {
            DatabaseUrl::Sqlite(path) => {
                // WAL with full sync: a commit that returned survives power loss.
                let connect = SqliteConnectOptions::new()
                    .filename(path)
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(options.wait)
                    .foreign_keys(true)
                    .row_buffer_size(ROWS_AHEAD)
                    .statement_cache_capacity(STATEMENTS);
                let pool = |n| {
                    SqlitePoolOptions::new()
                        .max_connections(n)
                        .acquire_timeout(options.wait)
                        // A file does not disconnect: a check before each use would only cost time.
                        .test_before_acquire(false)
                };
                // The writer holds the upper pages of every index that it updates. It restarts the log at 64
                // MiB, and has little to move by then: the checkpointer does that concurrently.
                let write = connect
                    .clone()
                    .pragma("cache_size", "-32768")
                    .pragma("wal_autocheckpoint", "16000")
                    // The rollback journal of a single statement is kept in memory, and not in a file.
                    // Sorting is done by readers, and by migrations (see there).
                    .pragma("temp_store", "MEMORY");
                let checkpoint = connect.clone().pragma("cache_size", "-64");
                let read = connect.pragma("cache_size", "-4096").pragma("query_only", "ON");
                // On a full disk SQLite may roll back by itself. The rollback of the driver then fails, the
                // driver assumes an open transaction forever, and refuses to begin another one.
                let writer = pool(1)
                    .before_acquire(|connection, _| {
                        Box::pin(async move { Ok(!connection.is_in_transaction()) })
                    })
                    .connect_with(write)
                    .await?;
                let reader = pool(options.n_readers).connect_lazy_with(read);
                let checkpointer = pool(1).connect_lazy_with(checkpoint);
                Ok(Self::Sqlite { reader, writer, checkpointer })
            }
            DatabaseUrl::Postgres(raw) => {
                let connect = PgConnectOptions::from_str(raw)?.statement_cache_capacity(STATEMENTS);
                let pool =
                    watched().max_connections(options.n_readers + 4).acquire_timeout(options.wait);
                match pool.connect_with(connect.clone()).await {
                    Ok(pool) => Ok(Self::Postgres(pool)),
                    Err(error) => Err(unreachable_reason(&connect, options.wait, error).await),
                }
            }
        }
    }
}

/// Connections whose server checks once a second whether its client is still connected, and otherwise ends
/// the statement. PostgreSQL before 14 has no such parameter, and some systems do not support it: then
/// nothing is set.
fn watched() -> PgPoolOptions {
    const WATCH_POSTGRES: &str = "SELECT set_config(name, '1000', false) FROM pg_settings \
        WHERE name = 'client_connection_check_interval'";
    PgPoolOptions::new().after_connect(|connection, _| {
        Box::pin(async move {
            if let Err(error) = sqlx::query(WATCH_POSTGRES).execute(&mut *connection).await {
                if error.as_database_error().is_none() {
                    return Err(error);
                }
                tracing::debug!(%error, "the server cannot look whether its clients are there");
            }
            Ok(())
        })
    })
}

/// Connections whose statements end at the time limit of a request.
fn limited(raw: &str, options: &Options) -> Result<sqlx_postgres::PgPool, Error> {
    let timeout = options.read_timeout.as_millis().to_string();
    let connect = PgConnectOptions::from_str(raw)?
        .statement_cache_capacity(STATEMENTS)
        .options([("statement_timeout", timeout)]);
    Ok(watched()
        .max_connections(options.n_readers)
        .acquire_timeout(options.wait)
        .connect_lazy_with(connect))
}

/// The reason why PostgreSQL is unreachable. A pool retries until its timeout, and then reports only that.
async fn unreachable_reason(
    connect: &PgConnectOptions,
    wait: Duration,
    error: sqlx::Error,
) -> Error {
    if !matches!(error, sqlx::Error::PoolTimedOut) {
        return Error::Sql(error);
    }
    match tokio::time::timeout(wait, sqlx_postgres::PgConnection::connect_with(connect)).await {
        Ok(Err(reason)) => Error::Sql(reason),
        Ok(Ok(_)) => error.into(),
        Err(_) => Error::Unavailable(format!("no answer within {} s", wait.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_sqlite_version_supports_concurrent_checkpoints() {
        let memory = SqlitePoolOptions::new().connect("sqlite::memory:").await;
        let version: String = sqlx::query_scalar("SELECT sqlite_version()")
            .fetch_one(&memory.unwrap())
            .await
            .unwrap();
        let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        // Before that version, a log restarted during a checkpoint could lose commits:
        // sqlite.org/wal.html#walresetbug.
        assert!(vec![3, 51, 3] <= parts, "SQLite {version}");
    }
}
