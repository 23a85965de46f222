//! One way to bind and execute for both drivers, inside a transaction.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::OnceLock;

use sqlx::{Row as _, ValueRef as _};
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqliteConnection;

use crate::Error;
use crate::spell::Spell as _;

/// A value for a placeholder. Nulls have a type: PostgreSQL wants to know.
#[derive(Clone, Debug)]
pub(crate) enum Arg<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<Cow<'a, str>>),
    Blob(Option<&'a [u8]>),
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
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

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value.map(storable))
    }
}

impl<'a> From<&'a [u8]> for Arg<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(Some(value))
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
    ($query:expr, $args:expr) => {{
        let mut query = $query;
        for arg in $args {
            query = match arg {
                $crate::db::Arg::Int(value) => query.bind(*value),
                $crate::db::Arg::Float(value) => query.bind(*value),
                $crate::db::Arg::Text(value) => query.bind(value.as_deref()),
                $crate::db::Arg::Blob(value) => query.bind(*value),
            };
        }
        query
    }};
}
pub(crate) use bind_args;

/// A column of a row read in a transaction.
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

/// A connection inside a transaction: `(&mut *tx).into()` with either driver.
#[derive(Debug)]
pub(crate) enum Db<'t> {
    Sqlite(&'t mut SqliteConnection),
    Postgres(&'t mut PgConnection),
}

impl<'t> From<&'t mut SqliteConnection> for Db<'t> {
    fn from(connection: &'t mut SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}

impl<'t> From<&'t mut PgConnection> for Db<'t> {
    fn from(connection: &'t mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

impl Db<'_> {
    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Rows changed.
    pub(crate) async fn execute(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
    ) -> Result<u64, Error> {
        Ok(match self {
            Self::Sqlite(db) => bind_args!(sqlx::query(db.spell(sql)), args)
                .execute(&mut **db)
                .await?
                .rows_affected(),
            Self::Postgres(db) => bind_args!(sqlx::query(db.spell(sql)), args)
                .execute(&mut **db)
                .await?
                .rows_affected(),
        })
    }

    /// Rows, each column read as told.
    pub(crate) async fn rows(
        &mut self,
        sql: &'static str,
        args: &[Arg<'_>],
        types: &[As],
    ) -> Result<Vec<Vec<Cell>>, Error> {
        let mut found = Vec::new();
        match self {
            Self::Sqlite(db) => {
                for row in bind_args!(sqlx::query(db.spell(sql)), args)
                    .fetch_all(&mut **db)
                    .await?
                {
                    found.push(cells!(row, types));
                }
            }
            Self::Postgres(db) => {
                for row in bind_args!(sqlx::query(db.spell(sql)), args)
                    .fetch_all(&mut **db)
                    .await?
                {
                    found.push(cells!(row, types));
                }
            }
        }
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
