//! Statements that read, from the pool or in a transaction.
//!
//! Futures of a driver are boxed here and in `tx`, so that their code is compiled once in this crate, and not
//! again in each function with a statement and in each calling crate.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::AssertSqlSafe;
use sqlx::pool::PoolConnection;
use sqlx_sqlite::Sqlite;

use crate::Error;
use crate::arg::{Arg, bind_args};
use crate::pool::{Engine, Pool};
use crate::reading::Reading;
use crate::row::{Cell, ColumnType, Record, Row};
use crate::spell::for_sqlite;
use crate::tx::{Open, Tx};

/// Number of rows to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchLimit {
    All,
    First,
}

/// Handling of rows that were passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// The request holds them in memory.
    Kept,
    Dropped,
}

/// Consumer of rows, called for one row at a time.
pub type RowSink<'p> = &'p mut (dyn FnMut(Row) -> Result<(), Error> + Send);

/// Source of a read: the pool or an open transaction.
#[derive(Debug)]
pub enum Source<'s> {
    Pool(&'s Pool),
    Transaction(&'s mut Tx),
}

impl<'s> From<&'s Pool> for Source<'s> {
    fn from(pool: &'s Pool) -> Self {
        Self::Pool(pool)
    }
}

impl<'s> From<&'s mut Tx> for Source<'s> {
    fn from(tx: &'s mut Tx) -> Self {
        Self::Transaction(tx)
    }
}

macro_rules! hand_on {
    ($query:expr, $executor:expr, $limit:expr, $put:expr, $row:path) => {{
        let query = $query;
        match $limit {
            FetchLimit::All => {
                let mut rows = query.fetch($executor);
                while let Some(row) = rows.try_next().await? {
                    $put($row(row))?;
                }
            }
            FetchLimit::First => {
                if let Some(row) = query.fetch_optional($executor).await? {
                    $put($row(row))?;
                }
            }
        }
    }};
}

/// Memory of a row in addition to its texts and blobs.
const ROW_BYTES: usize = 128;

impl<'s> Source<'s> {
    /// Reborrows the source for one of several statements.
    pub fn again(&mut self) -> Source<'_> {
        match self {
            Self::Pool(pool) => Source::Pool(pool),
            Self::Transaction(tx) => Source::Transaction(tx),
        }
    }

    /// Passes rows on, in the order in which they are found.
    fn each<'a>(
        self,
        sql: Cow<'static, str>,
        args: &'a [Arg<'a>],
        (limit, rows): (FetchLimit, Rows),
        put: RowSink<'a>,
    ) -> BoxFuture<'a, Result<(), Error>>
    where
        's: 'a,
    {
        Box::pin(async move {
            match self {
                Self::Pool(pool) => {
                    let read = from_pool(pool, sql, args, (limit, rows), put);
                    return pool.guard(Box::pin(read)).await;
                }
                Self::Transaction(tx) => {
                    let writes = tx.writes.clone();
                    let is_write = sql.contains("RETURNING");
                    let mut n_rows = 0_u64;
                    let mut put = |row: Row| {
                        n_rows += 1;
                        put(row)
                    };
                    let done = async {
                        match &mut tx.open {
                            Open::Sqlite(tx) => {
                                let query = bind_args!(for_sqlite(sql), args);
                                hand_on!(query, &mut **tx, limit, put, Row::Sqlite);
                            }
                            Open::Postgres(tx) => {
                                let query = bind_args!(sql, args);
                                hand_on!(query, &mut **tx, limit, put, Row::Postgres);
                            }
                        }
                        Ok(())
                    };
                    let done: Result<(), Error> = done.await;
                    tx.has_changed |= is_write && 0 < n_rows;
                    writes.note(done)
                }
            }
        })
    }
}

/// Reads with a connection of the pool, within the limits of the current request.
async fn from_pool<'a>(
    pool: &Pool,
    sql: Cow<'static, str>,
    args: &'a [Arg<'a>],
    (limit, rows): (FetchLimit, Rows),
    put: RowSink<'a>,
) -> Result<(), Error> {
    let Some(reading) = Reading::current() else {
        let _turn = pool.turn(None).await?;
        match pool.engine() {
            Engine::Sqlite { reader, .. } => {
                let query = bind_args!(for_sqlite(sql), args);
                hand_on!(query, reader, limit, put, Row::Sqlite);
            }
            Engine::Postgres(pool) => {
                let query = bind_args!(sql, args);
                hand_on!(query, pool, limit, put, Row::Postgres);
            }
        }
        return Ok(());
    };
    let _turn = pool.turn(Some(&reading)).await?;
    let mut put = |row: Row| {
        let n_bytes = row.n_bytes() + ROW_BYTES;
        reading.charge(n_bytes)?;
        let taken = put(row);
        if rows == Rows::Dropped {
            reading.give_back(n_bytes);
        }
        taken
    };
    let statement = async {
        match pool.engine() {
            Engine::Sqlite { reader, .. } => {
                let mut statement = Interruptible::new(reader.acquire().await?);
                statement.end_at(reading.deadline()).await?;
                let query = bind_args!(for_sqlite(sql), args);
                let connection = &mut *statement.connection;
                hand_on!(query, connection, limit, put, Row::Sqlite);
                statement.is_done();
            }
            Engine::Postgres(all) => {
                let connection = pool.limited().unwrap_or(all).acquire().await?;
                let mut statement = Interruptible::new(connection);
                let query = bind_args!(sql, args);
                let connection = &mut *statement.connection;
                hand_on!(query, connection, limit, put, Row::Postgres);
                statement.is_done();
            }
        }
        Ok(())
    };
    match tokio::time::timeout(reading.remaining()?, statement).await {
        // Interrupted: the database reports another reason.
        Ok(Err(_)) | Err(_) if reading.remaining().is_err() => Err(Error::TooSlow),
        Ok(done) => done,
        Err(_) => Err(Error::TooSlow),
    }
}

/// State of a statement, for the thread that executes it.
const RUNNING: u8 = 0;
const DONE: u8 = 1;
const DROPPED: u8 = 2;

/// A running statement. Dropped before its end, it is interrupted and the connection is closed, so that the
/// next statement cannot see its state.
struct Interruptible<D: sqlx::Database> {
    connection: PoolConnection<D>,
    state: Arc<AtomicU8>,
}

impl<D: sqlx::Database> Interruptible<D> {
    fn new(connection: PoolConnection<D>) -> Self {
        Self { connection, state: Arc::new(AtomicU8::new(RUNNING)) }
    }

    fn is_done(&self) {
        self.state.store(DONE, Ordering::Relaxed);
    }
}

impl Interruptible<Sqlite> {
    /// Ends the statement at the deadline. The handler stays on the connection until the next request
    /// replaces it.
    async fn end_at(&mut self, deadline: Instant) -> Result<(), Error> {
        /// Instructions of SQLite's virtual machine between two checks: less than a millisecond.
        const EVERY: i32 = 10_000;
        let state = Arc::clone(&self.state);
        let mut handle = self.connection.lock_handle().await?;
        handle.set_progress_handler(EVERY, move || match state.load(Ordering::Relaxed) {
            RUNNING => Instant::now() < deadline,
            state => state == DONE,
        });
        Ok(())
    }
}

impl<D: sqlx::Database> Drop for Interruptible<D> {
    fn drop(&mut self) {
        let running =
            self.state.compare_exchange(RUNNING, DROPPED, Ordering::Relaxed, Ordering::Relaxed);
        if running.is_ok() {
            self.connection.close_on_drop();
        }
    }
}

/// A statement with the values bound so far.
#[derive(Debug)]
pub struct Query<'q> {
    sql: Cow<'static, str>,
    args: Cow<'q, [Arg<'q>]>,
}

/// A statement, read row by row. Its text contains no external input: that is bound.
pub fn query<'q>(sql: impl Into<Cow<'static, str>>) -> Query<'q> {
    Query { sql: sql.into(), args: Cow::Borrowed(&[]) }
}

/// As [`query`], for rows of one column.
pub fn query_scalar<'q>(sql: impl Into<Cow<'static, str>>) -> Scalars<'q> {
    Scalars(query(sql))
}

impl<'q> Query<'q> {
    /// Binds the value of the next placeholder.
    pub fn bind(mut self, value: impl Into<Arg<'q>>) -> Self {
        self.args.to_mut().push(value.into());
        self
    }

    /// Binds the values of all placeholders.
    pub fn bind_all(mut self, values: &'q [Arg<'q>]) -> Self {
        self.args = values.into();
        self
    }

    /// Number of changed rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execute(self, tx: &mut Tx) -> Result<u64, Error> {
        tx.run(self.sql, &self.args).await
    }

    /// Passes rows on, in the order in which they are found. Their memory is charged to the request only
    /// until `put` returns: `put` charges the data that it keeps.
    pub async fn each(self, source: impl Into<Source<'_>>, put: RowSink<'_>) -> Result<(), Error> {
        let which = (FetchLimit::All, Rows::Dropped);
        source.into().each(self.sql, &self.args, which, put).await
    }

    async fn fetch(
        self,
        source: Source<'_>,
        limit: FetchLimit,
        put: RowSink<'_>,
    ) -> Result<(), Error> {
        let which = (limit, Rows::Kept);
        source.each(self.sql, &self.args, which, put).await
    }

    /// All rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_all<R: Record>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<Vec<R>, Error> {
        let mut found = Vec::new();
        let put = &mut |row: Row| {
            found.push(R::read(&row)?);
            Ok(())
        };
        self.fetch(source.into(), FetchLimit::All, put).await?;
        Ok(found)
    }

    /// The first rows: as many as have texts and blobs of at most `max_bytes` together, and at least one.
    /// `true` if there are more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_up_to<R: Record>(
        self,
        source: impl Into<Source<'_>>,
        max_bytes: usize,
    ) -> Result<(Vec<R>, bool), Error> {
        let (mut found, mut n_bytes, mut is_cut) = (Vec::new(), 0_usize, false);
        let put = &mut |row: Row| {
            n_bytes = n_bytes.saturating_add(row.n_bytes());
            is_cut = max_bytes < n_bytes && !found.is_empty();
            if is_cut {
                return Err(Error::AnswerTooLarge);
            }
            found.push(R::read(&row)?);
            Ok(())
        };
        match self.fetch(source.into(), FetchLimit::All, put).await {
            Err(Error::AnswerTooLarge) if is_cut => {}
            other => other?,
        }
        Ok((found, is_cut))
    }

    /// The first row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_optional<R: Record>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<Option<R>, Error> {
        let mut found = None;
        let put = &mut |row: Row| {
            found = Some(R::read(&row)?);
            Ok(())
        };
        self.fetch(source.into(), FetchLimit::First, put).await?;
        Ok(found)
    }

    /// The first row of a statement that always has one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_one<R: Record>(self, source: impl Into<Source<'_>>) -> Result<R, Error> {
        let found = self.fetch_optional(source).await?;
        found.ok_or(Error::Sql(sqlx::Error::RowNotFound))
    }
}

/// A [`Query`] whose rows have one column.
#[derive(Debug)]
pub struct Scalars<'q>(Query<'q>);

impl<'q> Scalars<'q> {
    /// Binds the value of the next placeholder.
    pub fn bind(self, value: impl Into<Arg<'q>>) -> Self {
        Self(self.0.bind(value))
    }

    /// Binds the values of all placeholders.
    pub fn bind_all(self, values: &'q [Arg<'q>]) -> Self {
        Self(self.0.bind_all(values))
    }

    /// The value of each row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_all<T>(self, source: impl Into<Source<'_>>) -> Result<Vec<T>, Error>
    where
        (T,): Record,
    {
        let rows: Vec<(T,)> = self.0.fetch_all(source).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// The value of the first row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_optional<T>(self, source: impl Into<Source<'_>>) -> Result<Option<T>, Error>
    where
        (T,): Record,
    {
        let row: Option<(T,)> = self.0.fetch_optional(source).await?;
        Ok(row.map(|(value,)| value))
    }

    /// The value of the first row of a statement that always has one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn fetch_one<T>(self, source: impl Into<Source<'_>>) -> Result<T, Error>
    where
        (T,): Record,
    {
        let (value,): (T,) = self.0.fetch_one(source).await?;
        Ok(value)
    }
}

impl Tx {
    /// Rows, with the given type per column.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rows(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        types: &[ColumnType],
    ) -> Result<Vec<Vec<Cell>>, Error> {
        let mut found = Vec::new();
        let put = &mut |row: Row| {
            found.push(row.cells(types)?);
            Ok(())
        };
        Source::from(self).each(sql.into(), args, (FetchLimit::All, Rows::Kept), put).await?;
        Ok(found)
    }

    /// The existing ones of these numbers, ascending, from one statement over the range from the first to the
    /// last.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn numbers_among(
        &mut self,
        sql: &'static str,
        numbers: &[i64],
    ) -> Result<HashSet<i64>, Error> {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
            return Ok(HashSet::new());
        };
        let rows = self.rows(sql, &[(*first).into(), (*last).into()], &[ColumnType::Int]).await?;
        rows.iter().map(|cells| cells[0].int()).collect()
    }

    /// The only integer of the only row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn integer(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, Error> {
        let rows = self.rows(sql, args, &[ColumnType::Int]).await?;
        match rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(value)) => Ok(*value),
            _ => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reading::tests::Budget;
    use crate::{DatabaseUrl, Options};

    async fn open() -> (tempfile::TempDir, Pool) {
        let folder = tempfile::tempdir().unwrap();
        let url = DatabaseUrl::Sqlite(folder.path().join("test.db"));
        let options = Options { n_readers: 2, ..Options::default() };
        let pool = Pool::open(&url, &options).await.unwrap();
        (folder, pool)
    }

    const ENDLESS: &str =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n";
    const MANY: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) \
        SELECT printf('%.*c', 1000, 'x') FROM n";

    #[tokio::test]
    async fn a_statement_of_a_request_ends_at_its_deadline_and_leaves_the_connection_usable() {
        let (_folder, pool) = open().await;
        for _ in 0..3 {
            let reading = Reading::new(Budget::new(1 << 20), Duration::from_millis(50));
            let ended = reading.scope(query_scalar(ENDLESS).fetch_all::<i64>(&pool)).await;
            assert!(matches!(ended, Err(Error::TooSlow)), "{ended:?}");
        }
        let one: i64 = query_scalar("SELECT 1").fetch_one(&pool).await.unwrap();
        assert_eq!(one, 1);
    }

    #[tokio::test]
    async fn a_statement_that_is_dropped_is_interrupted() {
        let (_folder, pool) = open().await;
        // More than there are connections: otherwise all of them would be held.
        for _ in 0..4 {
            let reading = Reading::new(Budget::new(1 << 20), Duration::from_secs(3_600));
            let endless = reading.scope(query_scalar(ENDLESS).fetch_all::<i64>(&pool));
            let cut = tokio::time::timeout(Duration::from_millis(20), endless).await;
            assert!(cut.is_err());
        }
        let one: i64 = query_scalar("SELECT 1").fetch_one(&pool).await.unwrap();
        assert_eq!(one, 1);
    }

    #[tokio::test]
    async fn rows_are_charged_to_the_request_while_it_holds_them() {
        let (_folder, pool) = open().await;
        let budget = Budget::new(20_000);
        let reading = Reading::new(budget.clone(), Duration::from_secs(3_600));
        reading
            .scope(async {
                let all = query_scalar(MANY).fetch_all::<String>(&pool).await;
                assert!(matches!(all, Err(Error::AnswerTooLarge)));
                Reading::current().unwrap().shrink_to(0);
                let mut n_rows = 0;
                let put = &mut |_: Row| {
                    n_rows += 1;
                    Ok(())
                };
                query(MANY).each(&pool, put).await.unwrap();
                assert_eq!((n_rows, budget.used()), (50, 0));
                let (some, is_cut): (Vec<(String,)>, bool) =
                    query(MANY).fetch_up_to(&pool, 3_500).await.unwrap();
                assert_eq!((some.len(), is_cut), (3, true));
            })
            .await;
    }
}
