//! Statements that read, from the pool or in a transaction.
//!
//! What awaits a driver is boxed here and in `tx`: its code then stands in this crate once, and not again in
//! each function that has a statement, and in each crate that calls one.

use std::borrow::Cow;
use std::collections::HashSet;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::AssertSqlSafe;

use crate::Error;
use crate::arg::{Arg, bind_args};
use crate::pool::{Engine, Pool};
use crate::row::{As, Cell, Record, Row};
use crate::spell::for_sqlite;
use crate::tx::{Open, Tx};

/// How many of the rows that a statement finds are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    First,
}

/// Takes rows, one after the other.
pub type Put<'p> = &'p mut (dyn FnMut(Row) -> Result<(), Error> + Send);

/// Where a statement is read from: the pool or an open transaction.
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
    ($query:expr, $executor:expr, $wanted:expr, $put:expr, $row:path) => {{
        let query = $query;
        match $wanted {
            Wanted::All => {
                let mut rows = query.fetch($executor);
                while let Some(row) = rows.try_next().await? {
                    $put($row(row))?;
                }
            }
            Wanted::First => {
                if let Some(row) = query.fetch_optional($executor).await? {
                    $put($row(row))?;
                }
            }
        }
    }};
}

impl<'s> Source<'s> {
    /// The same, for one of several statements.
    pub fn again(&mut self) -> Source<'_> {
        match self {
            Self::Pool(pool) => Source::Pool(pool),
            Self::Transaction(tx) => Source::Transaction(tx),
        }
    }

    /// Hands rows on, in the order in which they are found.
    fn each<'a>(
        self,
        sql: Cow<'static, str>,
        args: &'a [Arg<'a>],
        wanted: Wanted,
        put: Put<'a>,
    ) -> BoxFuture<'a, Result<(), Error>>
    where
        's: 'a,
    {
        Box::pin(async move {
            match self {
                Self::Pool(pool) => match pool.engine() {
                    Engine::Sqlite { reader, .. } => {
                        let query = bind_args!(for_sqlite(sql), args);
                        hand_on!(query, reader, wanted, put, Row::Sqlite);
                    }
                    Engine::Postgres(connections) => {
                        let read = async {
                            let query = bind_args!(sql, args);
                            hand_on!(query, connections, wanted, put, Row::Postgres);
                            Ok(())
                        };
                        return pool.guard(Box::pin(read)).await;
                    }
                },
                Self::Transaction(tx) => match &mut tx.open {
                    Open::Sqlite(tx) => {
                        let query = bind_args!(for_sqlite(sql), args);
                        hand_on!(query, &mut **tx, wanted, put, Row::Sqlite);
                    }
                    Open::Postgres(tx) => {
                        let query = bind_args!(sql, args);
                        hand_on!(query, &mut **tx, wanted, put, Row::Postgres);
                    }
                },
            }
            Ok(())
        })
    }
}

/// A statement and its values so far.
#[derive(Debug)]
pub struct Query<'q> {
    sql: Cow<'static, str>,
    args: Cow<'q, [Arg<'q>]>,
}

/// A statement, read by row. Its text holds nothing that came from outside: that is bound.
pub fn query<'q>(sql: impl Into<Cow<'static, str>>) -> Query<'q> {
    Query {
        sql: sql.into(),
        args: Cow::Borrowed(&[]),
    }
}

/// As [`query`], for rows of one column.
pub fn query_scalar<'q>(sql: impl Into<Cow<'static, str>>) -> Scalars<'q> {
    Scalars(query(sql))
}

impl<'q> Query<'q> {
    /// With the value of the next placeholder.
    pub fn bind(mut self, value: impl Into<Arg<'q>>) -> Self {
        self.args.to_mut().push(value.into());
        self
    }

    /// With the values of all placeholders.
    pub fn bind_all(mut self, values: &'q [Arg<'q>]) -> Self {
        self.args = values.into();
        self
    }

    /// Rows changed.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execute(self, tx: &mut Tx) -> Result<u64, Error> {
        tx.run(self.sql, &self.args).await
    }

    /// Hands rows on, in the order in which they are found.
    pub async fn each(self, source: impl Into<Source<'_>>, put: Put<'_>) -> Result<(), Error> {
        let source = source.into();
        source.each(self.sql, &self.args, Wanted::All, put).await
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
        self.each(source, put).await?;
        Ok(found)
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
        let source = source.into();
        source
            .each(self.sql, &self.args, Wanted::First, put)
            .await?;
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
    /// With the value of the next placeholder.
    pub fn bind(self, value: impl Into<Arg<'q>>) -> Self {
        Self(self.0.bind(value))
    }

    /// With the values of all placeholders.
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
    /// Rows, each column read as told.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rows(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        types: &[As],
    ) -> Result<Vec<Vec<Cell>>, Error> {
        let mut found = Vec::new();
        let put = &mut |row: Row| {
            found.push(row.cells(types)?);
            Ok(())
        };
        Source::from(self)
            .each(sql.into(), args, Wanted::All, put)
            .await?;
        Ok(found)
    }

    /// Which of these numbers, ascending, stand: asked by a statement for those from the first to the last.
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
        let rows = self
            .rows(sql, &[(*first).into(), (*last).into()], &[As::Int])
            .await?;
        rows.iter().map(|cells| cells[0].int()).collect()
    }

    /// The only integer of the only row.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn integer(&mut self, sql: &'static str, args: &[Arg<'_>]) -> Result<i64, Error> {
        let rows = self.rows(sql, args, &[As::Int]).await?;
        match rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(value)) => Ok(*value),
            _ => Ok(0),
        }
    }
}
