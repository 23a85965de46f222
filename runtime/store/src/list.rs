//! Statements with values, and numbered pages: what the small tables need, for either database.

use crate::{Error, Store};
use perpend_sql::in_transaction;
use perpend_sql::{Arg, Record, query};

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

/// `FROM ... WHERE ...` with the values of its placeholders, and the order of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Listed<'a> {
    /// Columns.
    pub(crate) select: &'a str,
    /// From the word `FROM` on.
    pub(crate) from: &'a str,
    /// Its values.
    pub(crate) args: &'a [Arg<'a>],
    /// What follows `ORDER BY`; it has to leave no two rows equal.
    pub(crate) order: &'a str,
}

impl Store {
    /// All rows of a statement.
    pub(crate) async fn select<R: Record>(
        &self,
        sql: &str,
        args: &[Arg<'_>],
    ) -> Result<Vec<R>, Error> {
        query(sql.to_owned())
            .bind_all(args)
            .fetch_all(&self.pool)
            .await
    }

    /// The rows of one page, turned into what callers see, and how many there are on all pages.
    pub(crate) async fn numbered<R, T>(
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
    pub(crate) async fn change(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            query(sql.to_owned())
                .bind_all(args)
                .execute(&mut tx)
                .await?
        }))
    }
}
