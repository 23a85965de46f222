//! Pagination: by page number, by cursor, or by the time of the last change.

use serde::{Deserialize, Serialize, Serializer};

use crate::text_search::BoundedCount;
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

/// The position after a row in the order of a list. Rows with an equal value are ordered by time, and those of equal time by id,
/// so that none is repeated or skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The value by which the list is ordered; absent if it is ordered by time, and for a row without the value.
    pub value: Option<OrderValue>,
    /// Time of the last row.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

impl Cursor {
    /// A cursor of a list from newest to oldest.
    #[must_use]
    pub fn new(at: Timestamp, id: impl Into<String>) -> Self {
        Self { value: None, at, id: id.into() }
    }
}

/// A value by which a list is ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OrderValue {
    /// Microseconds, tokens, errors.
    Whole(i64),
    /// Dollars, or the value of a score; finite.
    Real(f64),
}

/// Finite numbers are equal to themselves.
impl Eq for OrderValue {}

/// A position in the order of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPosition {
    /// The row next to the page; absent for the first page, or the last one if `is_backwards`.
    pub cursor: Option<Cursor>,
    /// Whether the page precedes the cursor.
    pub is_backwards: bool,
}

impl ListPosition {
    /// The page that follows a cursor.
    #[must_use]
    pub const fn after(cursor: Cursor) -> Self {
        Self { cursor: Some(cursor), is_backwards: false }
    }

    /// The page that precedes a cursor.
    #[must_use]
    pub const fn before(cursor: Cursor) -> Self {
        Self { cursor: Some(cursor), is_backwards: true }
    }

    /// The last page.
    #[must_use]
    pub const fn end() -> Self {
        Self { cursor: None, is_backwards: true }
    }

    /// Whether it is not the first page.
    #[must_use]
    pub const fn is_later(&self) -> bool {
        self.is_backwards || self.cursor.is_some()
    }
}

/// A page of a list that is read in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct BidirectionalPage<T> {
    /// In the order of the list.
    pub items: Vec<T>,
    /// The cursor of the first row, if others that match precede it.
    pub newer: Option<Cursor>,
    /// The cursor of the last row, if others that match follow it.
    pub older: Option<Cursor>,
    /// The cursor at which the search continues in the same direction, if it stopped before the page was full.
    pub stopped: Option<Cursor>,
    /// Rows that were tested until it stopped; absent if that is the limit of the read.
    pub n_tested: Option<u64>,
    /// Rows that were not tested, if known.
    pub n_left: u64,
    /// Number of matches before the page, if known.
    pub n_before: Option<u64>,
    /// Number of all matches, if known.
    pub total: Option<BoundedCount>,
}

impl<T> Default for BidirectionalPage<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            newer: None,
            older: None,
            stopped: None,
            n_tested: None,
            n_left: 0,
            n_before: None,
            total: None,
        }
    }
}

impl<T> BidirectionalPage<T> {
    /// From rows in the order in which they were read, which is oldest first if the position is backwards. `has_more` is set if
    /// further rows match in this direction.
    pub fn read(
        mut rows: Vec<T>,
        position: &ListPosition,
        has_more: bool,
        cursor: impl Fn(&T) -> Cursor,
    ) -> Self {
        // The position is next to a page that was read before.
        let has_others = position.cursor.is_some();
        let (has_newer, has_older) = match position.is_backwards {
            true => {
                rows.reverse();
                (has_more, has_others)
            }
            false => (has_others, has_more),
        };
        Self {
            newer: rows.first().map(&cursor).filter(|_| has_newer),
            older: rows.last().map(&cursor).filter(|_| has_older),
            items: rows,
            ..Self::default()
        }
    }

    /// The same page with other items.
    pub fn with_items<U>(self, items: Vec<U>) -> BidirectionalPage<U> {
        let Self { newer, older, stopped, n_tested, n_left, n_before, total, .. } = self;
        BidirectionalPage { items, newer, older, stopped, n_tested, n_left, n_before, total }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_newest_first_and_has_cursors_where_rows_follow() {
        let cursor = |at: &i64| Cursor::new(Timestamp::from_micros(*at), at.to_string());
        let ends = |page: &BidirectionalPage<i64>| {
            [&page.newer, &page.older].map(|end| end.as_ref().map(|end| end.id.clone()))
        };
        let first = BidirectionalPage::read(vec![9, 8], &ListPosition::default(), true, cursor);
        assert_eq!(ends(&first), [None, Some("8".to_owned())]);
        let after = ListPosition::after(cursor(&8));
        let second = BidirectionalPage::read(vec![7, 6], &after, false, cursor);
        assert_eq!(ends(&second), [Some("7".to_owned()), None]);
        let last = BidirectionalPage::read(vec![6, 7], &ListPosition::end(), true, cursor);
        assert_eq!(
            (last.items.as_slice(), ends(&last)),
            ([7, 6].as_slice(), [Some("7".to_owned()), None])
        );
        assert!(!ListPosition::default().is_later() && ListPosition::end().is_later());
    }
}
