//! Rows of either database, and their columns.

use sqlx::{Decode, Row as _, TypeInfo as _, ValueRef as _};
use sqlx_postgres::{PgRow, PgValueRef};
use sqlx_sqlite::{Sqlite, SqliteRow, SqliteValueRef};

use crate::Error;

/// Value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Int(i64),
    Float(f64),
    Text(String),
    Blob(Vec<u8>),
    Null,
}

/// Type of a column.
#[derive(Clone, Copy, Debug)]
pub enum ColumnType {
    Int,
    Float,
    Text,
    Blob,
}

/// A row of a driver.
#[derive(Debug)]
pub enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// Reference to a column of a row.
#[derive(Clone, Copy, Debug)]
pub enum ColumnRef<'c> {
    /// By name.
    Name(&'c str),
    /// By index, from 0.
    Place(usize),
}

/// A type of columns.
pub trait Column: Sized {
    /// Reads the column.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if it has another type, is null for a type without null, or is missing.
    fn get(row: &Row, at: ColumnRef<'_>) -> Result<Self, Error>;
}

/// A type of rows: see [`record!`](crate::record).
pub trait Record: Sized + Send {
    /// Reads the row.
    ///
    /// # Errors
    /// As [`Column::get`].
    fn read(row: &Row) -> Result<Self, Error>;
}

/// The error for a stored value that this version cannot have written.
fn unreadable(at: ColumnRef<'_>, error: &sqlx::Error) -> Error {
    Error::Inconsistent { what: "column", detail: format!("{at:?}: {error}") }
}

macro_rules! columns {
    ($($type:ty),*) => {$(
        impl Column for $type {
            fn get(row: &Row, at: ColumnRef<'_>) -> Result<Self, Error> {
                let value = match (row, at) {
                    (Row::Sqlite(row), ColumnRef::Name(name)) => row.try_get(name),
                    (Row::Sqlite(row), ColumnRef::Place(place)) => row.try_get(place),
                    (Row::Postgres(row), ColumnRef::Name(name)) => row.try_get(name),
                    (Row::Postgres(row), ColumnRef::Place(place)) => row.try_get(place),
                };
                value.map_err(|error| unreadable(at, &error))
            }
        }
    )*};
}

columns!(i16, i32, i64, f64, String, Vec<u8>);
columns!(Option<i16>, Option<i32>, Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>);

macro_rules! tuples {
    ($(($($name:ident $place:literal),*))*) => {$(
        impl<$($name: Column + Send),*> Record for ($($name,)*) {
            fn read(row: &Row) -> Result<Self, Error> {
                Ok(($($name::get(row, ColumnRef::Place($place))?,)*))
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// A struct whose fields are the columns of a row, by name. A field that is a record itself has its columns
/// in the same row.
#[macro_export]
macro_rules! record {
    ($(#[$meta:meta])* $seen:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field_seen:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        $seen struct $name {
            $($(#[$field_meta])* $field_seen $field: $type),*
        }

        impl $crate::Record for $name {
            fn read(row: &$crate::Row) -> Result<Self, $crate::Error> {
                Ok(Self {
                    $($field: $crate::Column::get(row, $crate::ColumnRef::Name(stringify!($field)))?),*
                })
            }
        }

        impl $crate::Column for $name {
            fn get(row: &$crate::Row, _: $crate::ColumnRef<'_>) -> Result<Self, $crate::Error> {
                $crate::Record::read(row)
            }
        }
    };
}

macro_rules! cells {
    ($row:expr, $types:expr) => {{
        let mut cells = Vec::with_capacity($types.len());
        for (at, kind) in $types.iter().enumerate() {
            let is_null = $row.try_get_raw(at)?.is_null();
            cells.push(match (is_null, kind) {
                (true, _) => Cell::Null,
                (_, ColumnType::Int) => Cell::Int($row.try_get(at)?),
                (_, ColumnType::Float) => Cell::Float($row.try_get(at)?),
                (_, ColumnType::Text) => Cell::Text($row.try_get(at)?),
                (_, ColumnType::Blob) => Cell::Blob($row.try_get(at)?),
            });
        }
        cells
    }};
}

macro_rules! n_bytes {
    ($row:expr, $is_large:expr, $length:expr) => {
        (0..$row.len())
            .filter_map(|at| $row.try_get_raw(at).ok())
            .filter(|value| !value.is_null() && $is_large(value))
            .map($length)
            .sum()
    };
}

impl Row {
    /// Size of its texts and blobs in bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        match self {
            // The length of other types is not read: SQLite would convert the value in place.
            Self::Sqlite(row) => n_bytes!(
                row,
                |value: &SqliteValueRef<'_>| matches!(value.type_info().name(), "TEXT" | "BLOB"),
                |value| <&[u8] as Decode<Sqlite>>::decode(value).map_or(0, <[u8]>::len)
            ),
            Self::Postgres(row) => {
                n_bytes!(row, |_: &PgValueRef<'_>| true, |value: PgValueRef<'_>| {
                    value.as_bytes().map_or(0, <[u8]>::len)
                })
            }
        }
    }

    /// Reads each column with the given type.
    ///
    /// # Errors
    /// When a column has another type.
    pub fn cells(&self, types: &[ColumnType]) -> Result<Vec<Cell>, Error> {
        Ok(match self {
            Self::Sqlite(row) => cells!(row, types),
            Self::Postgres(row) => cells!(row, types),
        })
    }
}

impl Cell {
    /// # Errors
    /// When it is null, or was read with another type.
    pub fn int(&self) -> Result<i64, Error> {
        match self {
            Self::Int(value) => Ok(*value),
            _ => Err(self.unexpected("an integer")),
        }
    }

    /// # Errors
    /// When it is null, or was read with another type.
    pub fn float(&self) -> Result<f64, Error> {
        match self {
            Self::Float(value) => Ok(*value),
            _ => Err(self.unexpected("a number")),
        }
    }

    /// # Errors
    /// When it is null, or was read with another type.
    pub fn text(&self) -> Result<&str, Error> {
        match self {
            Self::Text(value) => Ok(value),
            _ => Err(self.unexpected("a text")),
        }
    }

    /// # Errors
    /// When it is null, or was read with another type.
    pub fn blob(&self) -> Result<&[u8], Error> {
        match self {
            Self::Blob(value) => Ok(value),
            _ => Err(self.unexpected("a blob")),
        }
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::Blob(_) => "a blob",
            Self::Null => "null",
        };
        Error::Inconsistent {
            what: "column",
            detail: format!("expected {expected}, found {found}"),
        }
    }

    /// `None` if it is null.
    pub fn into_int(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            _ => None,
        }
    }

    /// `None` if it is null.
    pub fn into_float(self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// `None` if it is null.
    pub fn into_text(self) -> Option<String> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_another_type_or_without_value_is_an_error_and_no_default() {
        let cells = [
            Cell::Int(1),
            Cell::Float(1.0),
            Cell::Text("1".into()),
            Cell::Blob(vec![1]),
            Cell::Null,
        ];
        for (at, cell) in cells.iter().enumerate() {
            let is_read = [
                cell.int().is_ok(),
                cell.float().is_ok(),
                cell.text().is_ok(),
                cell.blob().is_ok(),
            ];
            let only: Vec<bool> = (0..4).map(|kind| kind == at).collect();
            assert_eq!(is_read.as_slice(), only, "{cell:?}");
        }
        let error = Cell::Null.int().unwrap_err().to_string();
        assert!(error.contains("expected an integer, found null"), "{error}");
    }
}
