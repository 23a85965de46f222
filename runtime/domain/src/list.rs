//! Lists that are read in parts: by numbered page, behind a cursor, or by the time of the last change.

use serde::{Deserialize, Serialize, Serializer};

use crate::time::Timestamp;

/// Which part of a list that is read by page.
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
    /// On all pages.
    pub n_total: u64,
}

impl<T> NumberedPage<T> {
    /// A page of a list that is empty.
    #[must_use]
    pub const fn empty() -> Self {
        Self { items: Vec::new(), n_total: 0 }
    }
}

/// Where a list that runs from the newest to the oldest goes on: after this row. Rows of equal time are
/// ordered by id, so none is repeated or left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Time of the last row seen.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

/// A part of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Set when there are more.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// From up to `limit + 1` rows, or from fewer where the rest `is_cut` off because these are large.
    pub fn part(items: Vec<T>, is_cut: bool, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        match is_cut {
            true => Self { next: items.last().map(at), items },
            false => Self::cut(items, limit, at),
        }
    }

    /// From up to `limit + 1` rows; the surplus one only says that there are more.
    pub fn cut(mut items: Vec<T>, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(at) } else { None };
        Self { items, next }
    }
}

/// The place of a row among those that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCursor {
    /// When.
    #[serde(serialize_with = "to_the_microsecond")]
    pub at: Timestamp,
    /// Among those of the same time.
    pub key: String,
}

/// Cut to milliseconds, as the API shows times, the rows of the last one would be read again.
fn to_the_microsecond<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_iso_micros())
}

/// A time, and a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeWindow {
    /// Inclusive; from the beginning where it is absent.
    pub from: Option<Timestamp>,
    /// Exclusive.
    pub to: Timestamp,
}
