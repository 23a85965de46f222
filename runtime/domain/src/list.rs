//! Pagination: by page number, by cursor, or by the time of the last change.

use serde::{Deserialize, Serialize, Serializer};

use crate::time::Timestamp;

/// A page number and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// From 1.
    pub page: u32,
    /// Rows per page.
    pub limit: u32,
}

impl Default for Paging {
    fn default() -> Self {
        Self { page: 1, limit: 50 }
    }
}

impl Paging {
    /// Rows before this page.
    #[must_use]
    pub const fn offset(self) -> u64 {
        (self.page.saturating_sub(1) as u64) * self.limit as u64
    }
}

/// A numbered page.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberedPage<T> {
    /// In the order of the list.
    pub items: Vec<T>,
    /// Total number on all pages.
    pub n_total: u64,
}

impl<T> NumberedPage<T> {
    /// The page of an empty list.
    #[must_use]
    pub const fn empty() -> Self {
        Self { items: Vec::new(), n_total: 0 }
    }
}

/// The position after a row in a list from newest to oldest. Rows of equal time are ordered by id, so that none is repeated
/// or skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Time of the last row.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

/// A page of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page; absent on the last page.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// From up to `limit + 1` rows; from fewer if `is_cut`, when the size limit ended the page early.
    pub fn part(items: Vec<T>, is_cut: bool, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        match is_cut {
            true => Self { next: items.last().map(at), items },
            false => Self::cut(items, limit, at),
        }
    }

    /// From up to `limit + 1` rows; the extra row shows that there is a next page.
    pub fn cut(mut items: Vec<T>, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(at) } else { None };
        Self { items, next }
    }
}

/// The position after a row in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCursor {
    /// Time of the change.
    #[serde(serialize_with = "to_the_microsecond")]
    pub at: Timestamp,
    /// Tie-breaker among changes of the same time.
    pub key: String,
}

/// With milliseconds, the precision of the API, the last rows would be read again.
fn to_the_microsecond<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_iso_micros())
}

/// A range of change times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeWindow {
    /// Inclusive; unbounded when absent.
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub to: Timestamp,
}
