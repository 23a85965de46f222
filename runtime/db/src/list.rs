//! Statements with values, and numbered pages, for small tables on either database.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::list::{Cursor, NumberedPage, Paging};

use crate::{Arg, Error, Pool, Record, in_transaction, query};

/// Datasets per statement.
const PER_STATEMENT: usize = 100;

/// The position before the newest row, for lists that are read from their start.
pub fn bounds(after: Option<&Cursor>) -> (i64, &str) {
    after.map_or((i64::MAX, ""), |cursor| (cursor.at.as_micros(), cursor.id.as_str()))
}

/// `FROM ... WHERE ...` with the values of its placeholders, and the order of the rows.
#[derive(Clone, Debug)]
pub struct PageQuery<'a> {
    /// Columns.
    pub select: &'a str,
    /// From the keyword `FROM` on.
    pub from: &'a str,
    /// Values of its placeholders.
    pub args: &'a [Arg<'a>],
    /// The text after `ORDER BY`. The order must be total.
    pub order: &'a str,
}

impl Pool {
    /// All rows of a statement.
    pub async fn select<R: Record>(&self, sql: &str, args: &[Arg<'_>]) -> Result<Vec<R>, Error> {
        query(sql.to_owned()).bind_all(args).fetch_all(self).await
    }

    /// The rows of one page, converted to domain types, and the total over all pages.
    pub async fn numbered<R, T>(
        &self,
        page_query: &PageQuery<'_>,
        paging: Paging,
    ) -> Result<NumberedPage<T>, Error>
    where
        R: Record,
        T: TryFrom<R, Error = Error>,
    {
        let count = format!("SELECT COUNT(*) {}", page_query.from);
        let counted: Vec<(i64,)> = self.select(&count, page_query.args).await?;
        let sql = format!(
            "SELECT {} {} ORDER BY {} LIMIT {} OFFSET {}",
            page_query.select,
            page_query.from,
            page_query.order,
            paging.limit,
            paging.offset()
        );
        let rows: Vec<R> = self.select(&sql, page_query.args).await?;
        Ok(NumberedPage {
            items: rows.into_iter().map(T::try_from).collect::<Result<_, _>>()?,
            n_total: counted.first().map_or(0, |(n,)| n.unsigned_abs()),
        })
    }

    /// Runs one writing statement in its own transaction; returns the number of changed rows.
    pub async fn change(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        Ok(in_transaction!(self, |tx| {
            query(sql.to_owned()).bind_all(args).execute(&mut tx).await?
        }))
    }

    /// Texts of each of these datasets of a project, with few statements: `one` selects the id of the dataset
    /// and a text for the dataset at a placeholder; `$1` is the project.
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
