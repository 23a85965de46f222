//! Statements with values, and numbered pages: what the small tables need, for either database.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Arg, Error, Pool, Record, in_transaction, query};

/// Datasets asked about in one statement.
const PER_STATEMENT: usize = 100;

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
pub struct Numbered<T> {
    /// In the order of the list.
    pub items: Vec<T>,
    /// On all pages.
    pub n_total: u64,
}

impl<T> Numbered<T> {
    /// A page of a list that is empty.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            items: Vec::new(),
            n_total: 0,
        }
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
    /// From up to `limit + 1` rows; the surplus one only says that there are more.
    pub fn cut(mut items: Vec<T>, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(at) } else { None };
        Self { items, next }
    }
}

/// The place before the newest row, for lists read from their start.
pub fn bounds(after: Option<&Cursor>) -> (i64, &str) {
    after.map_or((i64::MAX, ""), |cursor| {
        (cursor.at.as_micros(), cursor.id.as_str())
    })
}

/// The place of a row among those that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
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

/// `FROM ... WHERE ...` with the values of its placeholders, and the order of the rows.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    /// Columns.
    pub select: &'a str,
    /// From the word `FROM` on.
    pub from: &'a str,
    /// Its values.
    pub args: &'a [Arg<'a>],
    /// What follows `ORDER BY`; it has to leave no two rows equal.
    pub order: &'a str,
}

impl Pool {
    /// All rows of a statement.
    pub async fn select<R: Record>(&self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<R>, Error> {
        query(sql.to_owned()).bind_all(args).fetch_all(self).await
    }

    /// The rows of one page, turned into what callers see, and how many there are on all pages.
    pub async fn numbered<R, T>(
        &self,
        listed: &Listed<'_>,
        paging: Paging,
    ) -> Result<Numbered<T>, Error>
    where
        R: Record,
        T: TryFrom<R, Error = Error>,
    {
        let count = format!("SELECT COUNT(*) {}", listed.from);
        let counted: Vec<(i64,)> = self.select(&count, listed.args).await?;
        let sql = format!(
            "SELECT {} {} ORDER BY {} LIMIT {} OFFSET {}",
            listed.select,
            listed.from,
            listed.order,
            paging.limit,
            paging.offset()
        );
        let rows: Vec<R> = self.select(&sql, listed.args).await?;
        Ok(Numbered {
            items: rows
                .into_iter()
                .map(T::try_from)
                .collect::<Result<_, _>>()?,
            n_total: counted.first().map_or(0, |(n,)| n.unsigned_abs()),
        })
    }

    /// Runs one writing statement in a transaction of its own; the rows it changed.
    pub async fn change(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        Ok(in_transaction!(self, |tx| {
            query(sql.to_owned())
                .bind_all(args)
                .execute(&mut tx)
                .await?
        }))
    }

    /// Texts of each of these datasets of a project, from few statements over all of them: `one` selects the
    /// dataset's id and a text for the dataset at a placeholder; `$1` is the project.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn texts_of_each(
        &self,
        project: &ProjectId,
        datasets: &[&str],
        one: impl Fn(usize) -> String,
    ) -> Result<HashMap<String, Vec<String>>, Error> {
        let mut found: HashMap<String, Vec<String>> = HashMap::new();
        for some in datasets.chunks(PER_STATEMENT) {
            let parts: Vec<String> = (2..some.len() + 2).map(&one).collect();
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|id| Arg::from(*id)));
            let rows: Vec<(String, String)> =
                self.select(&parts.join(" UNION ALL "), &args).await?;
            for (dataset, text) in rows {
                found.entry(dataset).or_default().push(text);
            }
        }
        Ok(found)
    }
}
