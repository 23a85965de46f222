//! Rows of either database, and their columns.

use sqlx::{FromRow, Row as _, ValueRef as _};
use sqlx_postgres::PgRow;
use sqlx_sqlite::SqliteRow;

use crate::Error;

/// A column of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Int(i64),
    Float(f64),
    Text(String),
    Blob(Vec<u8>),
    Null,
}

/// Columns a row is read as.
#[derive(Clone, Copy, Debug)]
pub enum As {
    Int,
    Float,
    Text,
    Blob,
}

/// A row as the driver gives it.
#[derive(Debug)]
pub enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// What a row of either database can be read as.
pub trait Record: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send {}

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
    pub(crate) fn read<R: Record>(&self) -> Result<R, Error> {
        Ok(match self {
            Self::Sqlite(row) => R::from_row(row)?,
            Self::Postgres(row) => R::from_row(row)?,
        })
    }

    /// Each column read as told.
    ///
    /// # Errors
    /// When a column is of another type.
    pub fn cells(&self, types: &[As]) -> Result<Vec<Cell>, Error> {
        Ok(match self {
            Self::Sqlite(row) => cells!(row, types),
            Self::Postgres(row) => cells!(row, types),
        })
    }
}

impl Cell {
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(value) => *value,
            _ => 0,
        }
    }

    pub fn float(&self) -> f64 {
        match self {
            Self::Float(value) => *value,
            _ => 0.0,
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Text(value) => value,
            _ => "",
        }
    }

    pub fn blob(&self) -> &[u8] {
        match self {
            Self::Blob(value) => value,
            _ => &[],
        }
    }

    /// None when it is null.
    pub fn into_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// None when it is null.
    pub fn into_float(self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// None when it is null.
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}
