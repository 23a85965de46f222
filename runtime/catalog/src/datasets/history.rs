//! Changes of a dataset over time, and the differences of two instants.

use std::collections::HashMap;

use perpend_domain::dataset::{DatasetItem, ItemStatus};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::ItemVersion;
use super::items::{COLUMNS, FROM};
use super::row::{ChangeLogRow, DifferenceRow, ItemRow};
use crate::{Catalog, Error};
use perpend_db::{Arg, PageQuery, value_rows};
use perpend_domain::list::{NumberedPage, Paging};

/// Changes of a dataset within one minute. Items count as part of the dataset while they are active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeLogEntry {
    /// Time of the first change.
    pub first_at: Timestamp,
    /// Time of the last change: the dataset as of this time has all of them.
    pub last_at: Timestamp,
    /// Items that were created, or restored from the archive.
    pub n_added: u64,
    /// Items with a new version.
    pub n_changed: u64,
    /// Items that were deleted or archived.
    pub n_removed: u64,
    /// Versions of description, metadata and schemas.
    pub n_settings: u64,
}

/// A version of an item without its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRef {
    /// Start of its validity.
    pub valid_from: Timestamp,
    /// Status in this version.
    pub status: ItemStatus,
}

/// An item that differs between two instants. Deleted items are absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemDifference {
    /// Id of the item.
    pub id: String,
    /// Version at the first instant.
    pub before: Option<VersionRef>,
    /// Version at the second instant.
    pub after: Option<VersionRef>,
}

/// Numbers of items that differ between two instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifferenceCounts {
    /// Active at the second instant only.
    pub n_added: u64,
    /// Active at both, in different versions.
    pub n_changed: u64,
    /// Active at the first instant only.
    pub n_removed: u64,
}

/// Versions in the order of their start, each with the state before it.
const CHANGES: &str = "
    FROM (SELECT MIN(moment) AS first_at, MAX(moment) AS last_at, SUM(added) AS n_added,
                 SUM(changed) AS n_changed, SUM(removed) AS n_removed, SUM(settings) AS n_settings
            FROM (SELECT valid_from AS moment,
                         CASE WHEN is_active = 1 AND was_active = 0 THEN 1 ELSE 0 END AS added,
                         CASE WHEN is_active = 1 AND was_active = 1 THEN 1 ELSE 0 END AS changed,
                         CASE WHEN is_active = 0 AND was_active = 1 THEN 1 ELSE 0 END AS removed,
                         0 AS settings
                    FROM (SELECT valid_from, is_active,
                                 COALESCE(LAG(is_active) OVER (PARTITION BY id ORDER BY valid_from), 0) AS was_active
                            FROM (SELECT id, valid_from,
                                         CASE WHEN is_deleted = 0 AND status = 'ACTIVE' THEN 1 ELSE 0 END AS is_active
                                    FROM dataset_items
                                   WHERE project_id = $1 AND dataset_id = $2) states) versions
                  UNION ALL
                  SELECT valid_from AS moment, 0, 0, 0, 1
                    FROM dataset_versions
                   WHERE project_id = $1 AND dataset_id = $2) moments
           WHERE 0 < added + changed + removed + settings
           GROUP BY moment / 60000000) entries";

/// Items with different versions at `$3` and `$4`.
const DIFFERENCES: &str = "
    FROM (SELECT i.id AS id,
                 MAX(CASE WHEN i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to)
                          THEN i.valid_from END) AS before_at,
                 COALESCE(MAX(CASE WHEN i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to)
                                   THEN i.status END), '') AS before_status,
                 MAX(CASE WHEN i.valid_from <= $4 AND (i.valid_to IS NULL OR $4 < i.valid_to)
                          THEN i.valid_from END) AS after_at,
                 COALESCE(MAX(CASE WHEN i.valid_from <= $4 AND (i.valid_to IS NULL OR $4 < i.valid_to)
                                   THEN i.status END), '') AS after_status
            FROM dataset_items i
           WHERE i.project_id = $1 AND i.dataset_id = $2 AND i.is_deleted = 0
             AND ((i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to))
               OR (i.valid_from <= $4 AND (i.valid_to IS NULL OR $4 < i.valid_to)))
           GROUP BY i.id) d
   WHERE (before_at IS NULL OR after_at IS NULL OR before_at <> after_at)";
const IS_ACTIVE: &str = " AND (before_status = 'ACTIVE' OR after_status = 'ACTIVE')";
/// Versions per statement.
const PER_STATEMENT: usize = 100;

fn args<'a>(
    project: &'a ProjectId,
    dataset_id: &'a str,
    (before, after): (Timestamp, Timestamp),
) -> Vec<Arg<'a>> {
    vec![
        project.as_str().into(),
        dataset_id.into(),
        before.as_micros().into(),
        after.as_micros().into(),
    ]
}

impl Catalog {
    /// The log of changes of a dataset by minute, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_changes(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        paging: Paging,
    ) -> Result<NumberedPage<ChangeLogEntry>, Error> {
        let listed = PageQuery {
            select: "first_at, last_at, n_added, n_changed, n_removed, n_settings",
            from: CHANGES,
            args: &[project.as_str().into(), dataset_id.into()],
            order: "last_at DESC",
        };
        self.pool.numbered::<ChangeLogRow, _>(&listed, paging).await
    }

    /// Numbers of items of a dataset that differ between two instants.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn count_dataset_differences(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        instants: (Timestamp, Timestamp),
    ) -> Result<DifferenceCounts, Error> {
        let sql = format!(
            "SELECT COALESCE(SUM(CASE WHEN before_status <> 'ACTIVE' THEN 1 ELSE 0 END), 0),
                    COALESCE(SUM(CASE WHEN before_status = 'ACTIVE' AND after_status = 'ACTIVE'
                                      THEN 1 ELSE 0 END), 0),
                    COALESCE(SUM(CASE WHEN after_status <> 'ACTIVE' THEN 1 ELSE 0 END), 0)
             {DIFFERENCES}{IS_ACTIVE}"
        );
        let args = args(project, dataset_id, instants);
        let rows: Vec<(i64, i64, i64)> = self.pool.select(&sql, &args).await?;
        let counts = rows.first().map(|(added, changed, removed)| DifferenceCounts {
            n_added: added.unsigned_abs(),
            n_changed: changed.unsigned_abs(),
            n_removed: removed.unsigned_abs(),
        });
        Ok(counts.unwrap_or_default())
    }

    /// A page of the items that differ between two instants and are active at one of them, by id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_differences(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        instants: (Timestamp, Timestamp),
        paging: Paging,
    ) -> Result<NumberedPage<ItemDifference>, Error> {
        let from = format!("{DIFFERENCES}{IS_ACTIVE}");
        let args = args(project, dataset_id, instants);
        let listed = PageQuery {
            select: "id, before_at, before_status, after_at, after_status",
            from: &from,
            args: &args,
            order: "id",
        };
        self.pool.numbered::<DifferenceRow, _>(&listed, paging).await
    }

    /// The items that differ between two instants in any status, after an id, in the order of their ids.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn some_dataset_differences(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        instants: (Timestamp, Timestamp),
        after: &str,
        limit: u32,
    ) -> Result<Vec<ItemDifference>, Error> {
        let sql = format!(
            "SELECT id, before_at, before_status, after_at, after_status {DIFFERENCES} AND $5 < id
              ORDER BY id LIMIT {limit}"
        );
        let mut args = args(project, dataset_id, instants);
        args.push(after.into());
        let rows: Vec<DifferenceRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Items as of times, by id and time. An item that did not exist then has its last state; one that never existed is left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_items_at(
        &self,
        project: &ProjectId,
        wanted: &[(&str, Timestamp)],
    ) -> Result<HashMap<(String, Timestamp), DatasetItem>, Error> {
        let mut starts: Vec<(String, i64, i64)> = Vec::with_capacity(wanted.len());
        for some in wanted.chunks(PER_STATEMENT) {
            let sql = format!(
                "WITH k (id, instant) AS (VALUES {})
                 SELECT k.id, k.instant,
                        COALESCE(
                            (SELECT MAX(i.valid_from) FROM dataset_items i
                              WHERE i.project_id = $1 AND i.id = k.id AND i.is_deleted = 0
                                AND i.valid_from <= k.instant
                                AND (i.valid_to IS NULL OR k.instant < i.valid_to)),
                            (SELECT MAX(i.valid_from) FROM dataset_items i
                              WHERE i.project_id = $1 AND i.id = k.id AND i.is_deleted = 0))
                   FROM k",
                value_rows(some.len(), 2, 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            for (id, at) in some {
                args.extend([Arg::from(*id), at.as_micros().into()]);
            }
            let rows: Vec<(String, i64, Option<i64>)> = self.pool.select(&sql, &args).await?;
            starts.extend(rows.into_iter().filter_map(|(id, at, start)| Some((id, at, start?))));
        }
        let versions =
            starts.iter().map(|(id, _, start)| (id.as_str(), Timestamp::from_micros(*start)));
        let mut versions: Vec<(&str, Timestamp)> = versions.collect();
        versions.sort_unstable();
        versions.dedup();
        let items = self.dataset_items_in_versions(project, &versions).await?.into_iter();
        let items: HashMap<(String, i64), DatasetItem> =
            items.map(|item| ((item.id.clone(), item.valid_from.as_micros()), item)).collect();
        let found = starts.into_iter().filter_map(|(id, at, start)| {
            let item = items.get(&(id.clone(), start))?.clone();
            Some(((id, Timestamp::from_micros(at)), item))
        });
        Ok(found.collect())
    }

    /// Items in these versions, by id and start of validity, in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_items_in_versions(
        &self,
        project: &ProjectId,
        versions: &[(&str, Timestamp)],
    ) -> Result<Vec<DatasetItem>, Error> {
        let mut found = Vec::with_capacity(versions.len());
        for some in versions.chunks(PER_STATEMENT) {
            let sql = format!(
                "WITH k (id, valid_from) AS (VALUES {})
                 SELECT {COLUMNS} {FROM} AND (i.id, i.valid_from) IN (SELECT id, valid_from FROM k)",
                value_rows(some.len(), 2, 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            for (id, valid_from) in some {
                args.extend([Arg::from(*id), valid_from.as_micros().into()]);
            }
            for row in self.pool.select::<ItemRow>(&sql, &args).await? {
                found.push(ItemVersion::try_from(row)?.item);
            }
        }
        Ok(found)
    }
}
