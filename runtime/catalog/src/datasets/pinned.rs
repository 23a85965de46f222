//! Versions of items by their start.

use std::collections::HashMap;

use perpend_db::Arg;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::items::{COLUMNS, FROM, ItemVersion};
use super::row::ItemRow;
use crate::{Catalog, Error};

/// Versions per statement.
const PER_STATEMENT: usize = 50;
const LENGTHS: &str = "
    SELECT i.id, i.valid_from,
           CAST(COALESCE(octet_length(i.input), 0) + COALESCE(octet_length(i.expected_output), 0)
                + COALESCE(octet_length(i.metadata), 0) AS BIGINT)
      FROM dataset_items i WHERE i.project_id = $1";

/// The arguments of a statement about these versions, the project first, and its condition.
fn are_versions<'a>(
    project: &'a ProjectId,
    versions: &'a [(&'a str, Timestamp)],
) -> (Vec<Arg<'a>>, String) {
    let mut args: Vec<Arg<'a>> = vec![project.as_str().into()];
    let mut conditions = Vec::with_capacity(versions.len());
    for (id, start) in versions {
        let n = args.len();
        args.extend([(*id).into(), start.as_micros().into()]);
        conditions.push(format!("(i.id = ${} AND i.valid_from = ${})", n + 1, n + 2));
    }
    (args, conditions.join(" OR "))
}

impl Catalog {
    /// The versions of items with these ids and starts, in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_versions_at(
        &self,
        project: &ProjectId,
        versions: &[(&str, Timestamp)],
    ) -> Result<Vec<DatasetItem>, Error> {
        let mut found = Vec::with_capacity(versions.len());
        for some in versions.chunks(PER_STATEMENT) {
            let (args, condition) = are_versions(project, some);
            let sql = format!("SELECT {COLUMNS} {FROM} AND ({condition})");
            for row in self.pool.select::<ItemRow>(&sql, &args).await? {
                found.push(ItemVersion::try_from(row)?.item);
            }
        }
        Ok(found)
    }

    /// Lengths of the contents of versions of items, in bytes and in the order of `versions`; 0 for a version that does not
    /// exist.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_lengths(
        &self,
        project: &ProjectId,
        versions: &[(&str, Timestamp)],
    ) -> Result<Vec<usize>, Error> {
        let mut lengths: HashMap<(String, i64), usize> = HashMap::with_capacity(versions.len());
        for some in versions.chunks(PER_STATEMENT) {
            let (args, condition) = are_versions(project, some);
            let sql = format!("{LENGTHS} AND ({condition})");
            for (id, start, n) in self.pool.select::<(String, i64, i64)>(&sql, &args).await? {
                lengths.insert((id, start), usize::try_from(n).unwrap_or(0));
            }
        }
        let of = |(id, start): &(&str, Timestamp)| {
            lengths.get(&((*id).to_owned(), start.as_micros())).copied().unwrap_or(0)
        };
        Ok(versions.iter().map(of).collect())
    }

    /// The ids and the starts of the versions of the active items of a dataset as of a time, oldest item first, at most
    /// `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_starts(
        &self,
        project: &ProjectId,
        (dataset_id, at): (&str, Timestamp),
        limit: u64,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        let sql = format!(
            "SELECT i.id, i.valid_from FROM dataset_items i
              WHERE i.project_id = $1 AND i.dataset_id = $2 AND i.is_deleted = 0 AND i.status = 'ACTIVE'
                AND i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to)
              ORDER BY i.created_at, i.id LIMIT {limit}"
        );
        let args: [Arg<'_>; 3] =
            [project.as_str().into(), dataset_id.into(), at.as_micros().into()];
        let rows: Vec<(String, i64)> = self.pool.select(&sql, &args).await?;
        Ok(rows.into_iter().map(|(id, start)| (id, Timestamp::from_micros(start))).collect())
    }
}
