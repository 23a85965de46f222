//! One way to bind and execute for both drivers.
//!
//! What awaits a driver is boxed here: its code then stands in this crate once, and not again in each
//! function that has a statement, and in each crate that calls one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::{AssertSqlSafe, FromRow, Row as _, Transaction, ValueRef as _};
use sqlx_postgres::{PgRow, Postgres};
use sqlx_sqlite::{Sqlite, SqliteRow};

use crate::Error;
use crate::pool::Pool;
use crate::spell::for_sqlite;

/// A value for a placeholder. Nulls have a type: PostgreSQL wants to know.
#[derive(Clone, Debug)]
pub(crate) enum Arg<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<Cow<'a, str>>),
    Blob(Option<Cow<'a, [u8]>>),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<i32> for Arg<'_> {
    fn from(value: i32) -> Self {
        Self::Int(Some(value.into()))
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Arg<'_> {
    fn from(value: f64) -> Self {
        Self::Float(Some(value))
    }
}

impl From<Option<f64>> for Arg<'_> {
    fn from(value: Option<f64>) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(storable(value)))
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(value: &'a String) -> Self {
        value.as_str().into()
    }
}

impl From<String> for Arg<'_> {
    fn from(value: String) -> Self {
        let clean = match storable(&value) {
            Cow::Owned(clean) => Some(clean),
            Cow::Borrowed(_) => None,
        };
        Self::Text(Some(clean.unwrap_or(value).into()))
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value.map(storable))
    }
}

impl<'a> From<&'a Option<String>> for Arg<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl From<Option<String>> for Arg<'_> {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Text(None), Self::from)
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(Some(value.into()))
    }
}

impl From<Vec<u8>> for Arg<'_> {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(Some(value.into()))
    }
}

/// PostgreSQL keeps no NUL in text. Both databases show the replacement character instead, so that what
/// one plug-in or client writes does not decide whether a whole batch can be stored.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.as_bytes().contains(&0) {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// Binds values in order, for either driver.
macro_rules! bind_args {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($sql));
        for arg in $args {
            query = match arg {
                Arg::Int(value) => query.bind(*value),
                Arg::Float(value) => query.bind(*value),
                Arg::Text(value) => query.bind(value.as_deref()),
                Arg::Blob(value) => query.bind(value.as_deref()),
            };
        }
        query
    }};
}

/// A column of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Int(i64),
    Float(f64),
    Text(String),
    Blob(Vec<u8>),
    Null,
}

/// Columns a row is read as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum As {
    Int,
    Float,
    Text,
    Blob,
}

/// A row as the driver gives it.
#[derive(Debug)]
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// What a row of either database can be read as.
pub(crate) trait Record:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send
{
}

impl<T> Record for T where T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send {}

macro_rules! cells {
    ($row:expr, $types:expr) => {{
        let mut cells = Vec::with_capacity($types.len());
        for (at, kind) in $types.iter().enumerate() {
            let is_null = $row.try_get_raw(at)?.is_null();
            cells.push(match (is_null, kind) {
                (true, _) => Cell::Null,
                (_, As::Int) => Cell::Int($row.try_get(at)?),
                (_, As::Float) => Cell::Float($row.try_get(at)?),
                (_, As::Text) => Cell::Text($row.try_get(at)?),
                (_, As::Blob) => Cell::Blob($row.try_get(at)?),
            });
        }
        cells
    }};
}

impl Row {
    fn read<R: Record>(&self) -> Result<R, Error> {
        Ok(match self {
            Self::Sqlite(row) => R::from_row(row)?,
            Self::Postgres(row) => R::from_row(row)?,
        })
    }

    /// Each column read as told.
    pub(crate) fn cells(&self, types: &[As]) -> Result<Vec<Cell>, Error> {
        Ok(match self {
            Self::Sqlite(row) => cells!(row, types),
            Self::Postgres(row) => cells!(row, types),
        })
    }
}

/// How many of the rows that a statement finds are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    First,
}

/// Takes rows, one after the other.
pub(crate) type Put<'p> = &'p mut (dyn FnMut(Row) -> Result<(), Error> + Send);

/// Where a statement is read from: the pool or an open transaction.
#[derive(Debug)]
pub(crate) enum Source<'s> {
    Pool(&'s Pool),
    Transaction(&'s mut Db),
}

impl<'s> From<&'s Pool> for Source<'s> {
    fn from(pool: &'s Pool) -> Self {
        Self::Pool(pool)
    }
}

impl<'s> From<&'s mut Db> for Source<'s> {
    fn from(db: &'s mut Db) -> Self {
        Self::Transaction(db)
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
    pub(crate) fn again(&mut self) -> Source<'_> {
        match self {
            Self::Pool(pool) => Source::Pool(pool),
            Self::Transaction(db) => Source::Transaction(db),
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
                Self::Pool(Pool::Sqlite { reader, .. }) => {
                    let query = bind_args!(for_sqlite(sql), args);
                    hand_on!(query, reader, wanted, put, Row::Sqlite);
                }
                Self::Pool(Pool::Postgres(pool)) => {
                    let query = bind_args!(sql, args);
                    hand_on!(query, pool, wanted, put, Row::Postgres);
                }
                Self::Transaction(Db::Sqlite(tx)) => {
                    let query = bind_args!(for_sqlite(sql), args);
                    hand_on!(query, &mut **tx, wanted, put, Row::Sqlite);
                }
                Self::Transaction(Db::Postgres(tx)) => {
                    let query = bind_args!(sql, args);
                    hand_on!(query, &mut **tx, wanted, put, Row::Postgres);
                }
            }
            Ok(())
        })
    }
}

/// A statement and its values so far.
#[derive(Debug)]
pub(crate) struct Query<'q> {
    sql: Cow<'static, str>,
    args: Cow<'q, [Arg<'q>]>,
}

/// A statement, read by row. Its text holds nothing that came from outside: that is bound.
pub(crate) fn query<'q>(sql: impl Into<Cow<'static, str>>) -> Query<'q> {
    Query {
        sql: sql.into(),
        args: Cow::Borrowed(&[]),
    }
}

/// As [`query`], for rows of one column.
pub(crate) fn query_scalar<'q>(sql: impl Into<Cow<'static, str>>) -> Scalars<'q> {
    Scalars(query(sql))
}

impl<'q> Query<'q> {
    /// With the value of the next placeholder.
    pub(crate) fn bind(mut self, value: impl Into<Arg<'q>>) -> Self {
        self.args.to_mut().push(value.into());
        self
    }

    /// With the values of all placeholders.
    pub(crate) fn bind_all(mut self, values: &'q [Arg<'q>]) -> Self {
        self.args = values.into();
        self
    }

    /// Rows changed.
    pub(crate) async fn execute(self, db: &mut Db) -> Result<u64, Error> {
        db.run(self.sql, &self.args).await
    }

    /// Hands rows on, in the order in which they are found.
    pub(crate) async fn each(
        self,
        source: impl Into<Source<'_>>,
        put: Put<'_>,
    ) -> Result<(), Error> {
        let source = source.into();
        source.each(self.sql, &self.args, Wanted::All, put).await
    }

    /// All rows.
    pub(crate) async fn fetch_all<R: Record>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<Vec<R>, Error> {
        let mut found = Vec::new();
        let put = &mut |row: Row| {
            found.push(row.read()?);
            Ok(())
        };
        self.each(source, put).await?;
        Ok(found)
    }

    /// The first row.
    pub(crate) async fn fetch_optional<R: Record>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<Option<R>, Error> {
        let mut found = None;
        let put = &mut |row: Row| {
            found = Some(row.read()?);
            Ok(())
        };
        let source = source.into();
        source
            .each(self.sql, &self.args, Wanted::First, put)
            .await?;
        Ok(found)
    }

    /// The first row of a statement that always has one.
    pub(crate) async fn fetch_one<R: Record>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<R, Error> {
        let found = self.fetch_optional(source).await?;
        found.ok_or(Error::Sql(sqlx::Error::RowNotFound))
    }
}

/// A [`Query`] whose rows have one column.
#[derive(Debug)]
pub(crate) struct Scalars<'q>(Query<'q>);

impl<'q> Scalars<'q> {
    /// With the value of the next placeholder.
    pub(crate) fn bind(self, value: impl Into<Arg<'q>>) -> Self {
        Self(self.0.bind(value))
    }

    /// With the values of all placeholders.
    pub(crate) fn bind_all(self, values: &'q [Arg<'q>]) -> Self {
        Self(self.0.bind_all(values))
    }

    /// The value of each row.
    pub(crate) async fn fetch_all<T>(self, source: impl Into<Source<'_>>) -> Result<Vec<T>, Error>
    where
        (T,): Record,
    {
        let rows: Vec<(T,)> = self.0.fetch_all(source).await?;
        Ok(rows.into_iter().map(|(value,)| value).collect())
    }

    /// The value of the first row.
    pub(crate) async fn fetch_optional<T>(
        self,
        source: impl Into<Source<'_>>,
    ) -> Result<Option<T>, Error>
    where
        (T,): Record,
    {
        let row: Option<(T,)> = self.0.fetch_optional(source).await?;
        Ok(row.map(|(value,)| value))
    }

    /// The value of the first row of a statement that always has one.
    pub(crate) async fn fetch_one<T>(self, source: impl Into<Source<'_>>) -> Result<T, Error>
    where
        (T,): Record,
    {
        let (value,): (T,) = self.0.fetch_one(source).await?;
        Ok(value)
    }
}

/// A write transaction. Dropped before it is committed, it is undone.
#[derive(Debug)]
pub(crate) enum Db {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Db {
    pub(crate) fn begin(pool: &Pool) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(async move {
            Ok(match pool {
                // IMMEDIATE: a reader that turns writer halfway would fail instead of wait.
                Pool::Sqlite { writer, .. } => {
                    Self::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?)
                }
                Pool::Postgres(pool) => Self::Postgres(pool.begin().await?),
            })
        })
    }

    pub(crate) fn commit(self) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            match self {
                Self::Sqlite(tx) => tx.commit().await?,
                Self::Postgres(tx) => tx.commit().await?,
            }
            Ok(())
        })
    }

    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    fn run<'a>(
        &'a mut self,
        sql: Cow<'static, str>,
        args: &'a [Arg<'a>],
    ) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(async move {
            Ok(match self {
                Self::Sqlite(tx) => {
                    let query = bind_args!(for_sqlite(sql), args);
                    query.execute(&mut **tx).await?.rows_affected()
                }
                Self::Postgres(tx) => {
                    let query = bind_args!(sql, args);
                    query.execute(&mut **tx).await?.rows_affected()
                }
            })
        })
    }

    /// Executes statements without values that one text holds.
    pub(crate) fn run_script(&mut self, sql: String) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let script = sqlx::raw_sql(AssertSqlSafe(sql));
            match self {
                Self::Sqlite(tx) => script.execute(&mut **tx).await.map(|_| ())?,
                Self::Postgres(tx) => script.execute(&mut **tx).await.map(|_| ())?,
            }
            Ok(())
        })
    }

    /// Rows changed.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<u64, Error> {
        self.run(sql.into(), args).await
    }

    /// Rows, each column read as told.
    pub(crate) async fn rows(
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

    /// Executes a statement for all rows, in their order; how many it changed. `push` appends the values
    /// of one row.
    pub(crate) async fn execute_for<'r, T>(
        &mut self,
        statement: &'static Sized,
        rows: &'r [T],
        push: impl Fn(&mut Vec<Arg<'r>>, &'r T),
    ) -> Result<u64, Error> {
        let mut n_changed = 0;
        let mut rest = rows;
        while !rest.is_empty() {
            let (changed, later) = self.execute_some(statement, &[], rest, &push).await?;
            n_changed += changed;
            rest = later;
        }
        Ok(n_changed)
    }

    /// Executes a statement for the first of some rows, at least one; how many it changed, and the rows
    /// that are left. `first` are the values before those of the rows.
    pub(crate) async fn execute_some<'r, T>(
        &mut self,
        statement: &'static Sized,
        first: &[Arg<'r>],
        rows: &'r [T],
        push: impl Fn(&mut Vec<Arg<'r>>, &'r T),
    ) -> Result<(u64, &'r [T]), Error> {
        let (sql, n) = statement.for_some_of(rows.len());
        let (chunk, later) = rows.split_at(n.min(rows.len()));
        let Some(last) = chunk.last() else {
            return Ok((0, later));
        };
        let mut args = first.to_vec();
        chunk.iter().for_each(|row| push(&mut args, row));
        let n_of_row = (args.len() - first.len()) / chunk.len();
        args.reserve_exact((n - chunk.len()) * n_of_row);
        (chunk.len()..n).for_each(|_| push(&mut args, last));
        Ok((self.execute(sql, &args).await?, later))
    }

    /// Which of these numbers, ascending, stand: asked by a statement for those from the first to the last.
    pub(crate) async fn numbers_among(
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
        Ok(rows.iter().map(|cells| cells[0].int()).collect())
    }

    /// The only integer of the only row.
    pub(crate) async fn integer(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<i64, Error> {
        let rows = self.rows(sql, args, &[As::Int]).await?;
        match rows.first().and_then(|row| row.first()) {
            Some(Cell::Int(value)) => Ok(*value),
            _ => Ok(0),
        }
    }
}

impl Cell {
    pub(crate) fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            _ => 0,
        }
    }

    pub(crate) fn float(&self) -> f64 {
        match self {
            Self::Float(value) => *value,
            _ => 0.0,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(value) => value,
            _ => "",
        }
    }

    pub(crate) fn blob(&self) -> &[u8] {
        match self {
            Self::Blob(value) => value,
            _ => &[],
        }
    }

    /// None when it is null.
    pub(crate) fn into_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// None when it is null.
    pub(crate) fn into_float(self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// None when it is null.
    pub(crate) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

/// Rows per statement, descending: few sizes, so that all of them stay prepared.
const SIZES: [usize; 9] = [256, 128, 64, 32, 16, 8, 4, 2, 1];

/// One statement in every size.
pub(crate) struct Sized {
    texts: [OnceLock<String>; SIZES.len()],
    build: fn(usize) -> String,
    /// The same row again changes nothing.
    is_repeatable: bool,
}

impl Sized {
    pub(crate) const fn new(build: fn(usize) -> String) -> Self {
        Self {
            texts: [const { OnceLock::new() }; SIZES.len()],
            build,
            is_repeatable: false,
        }
    }

    /// One that a row may be given to more than once. Then a larger statement serves a few rows less, and
    /// a batch needs fewer of them.
    pub(crate) const fn repeatable(build: fn(usize) -> String) -> Self {
        Self {
            texts: [const { OnceLock::new() }; SIZES.len()],
            build,
            is_repeatable: true,
        }
    }

    /// The statement for as many as possible of `n` rows, and how many that is.
    pub(crate) fn for_up_to(&'static self, n: usize) -> (&'static str, usize) {
        let at = SIZES.iter().position(|size| *size <= n);
        self.at(at.unwrap_or(SIZES.len() - 1))
    }

    /// The statement for the first of `n` rows, and how many it takes: more than there are, where few
    /// repeats spare statements.
    fn for_some_of(&'static self, n: usize) -> (&'static str, usize) {
        let larger = SIZES.iter().rposition(|size| n <= *size);
        match larger.filter(|at| self.is_repeatable && 3 * SIZES[*at] <= 4 * n) {
            Some(at) => self.at(at),
            None => self.for_up_to(n),
        }
    }

    fn at(&'static self, at: usize) -> (&'static str, usize) {
        let text = self.texts[at].get_or_init(|| (self.build)(SIZES[at]));
        (text, SIZES[at])
    }
}

/// `($1, $2), ($3, $4)` from `$first` on.
pub(crate) fn value_rows(n_rows: usize, n_columns: usize, first: usize) -> String {
    let mut sql = String::with_capacity(n_rows * n_columns * 7);
    for row in 0..n_rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..n_columns {
            if column > 0 {
                sql.push_str(", ");
            }
            sql.push('$');
            sql.push_str(&(first + row * n_columns + column).to_string());
        }
        sql.push(')');
    }
    sql
}

/// `$1, $2, $3` from `$first` on.
pub(crate) fn value_list(n: usize, first: usize) -> String {
    let list: Vec<String> = (first..first + n).map(|at| format!("${at}")).collect();
    list.join(", ")
}
