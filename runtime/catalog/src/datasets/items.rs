//! Items: written as versions, read in their current state or as of a time.

use std::collections::HashMap;

use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::row::ItemRow;
use crate::{Catalog, Error};
use perpend_db::{Arg, PageQuery, Record as _, Row, Scratch, charge, from_json, value_list};
use perpend_domain::experiment::expected_output_digest;
use perpend_domain::list::{Cursor, NumberedPage, Paging};
use perpend_domain::plugin::Digest;

/// A version of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemVersion {
    /// The item in this version; for a deletion, its last state.
    pub item: DatasetItem,
    /// Whether this version is a deletion.
    pub is_deleted: bool,
}

/// Filter of items: active ones that meet every condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemQuery {
    /// Of this dataset, by its id.
    pub dataset_id: Option<String>,
    /// Made from this trace.
    pub source_trace_id: Option<String>,
    /// Made from this observation.
    pub source_observation_id: Option<String>,
    /// As of this time; the current state if absent.
    pub at: Option<Timestamp>,
    /// Archived items, too.
    pub with_archived: bool,
}

pub(super) const COLUMNS: &str = "i.id, i.valid_from, i.is_deleted, i.dataset_id, d.name AS dataset_name, i.status,
    i.input, i.expected_output, i.metadata, i.source_trace_id, i.source_observation_id, i.created_at";
pub(super) const FROM: &str = "
    FROM dataset_items i JOIN datasets d ON d.project_id = i.project_id AND d.id = i.dataset_id
   WHERE i.project_id = $1";
const CHOSEN: &str = "
    FROM dataset_items i
   WHERE i.project_id = $1 AND i.is_deleted = 0 AND i.status = 'ACTIVE'";
const CHOSEN_WITH_ARCHIVED: &str = "
    FROM dataset_items i
   WHERE i.project_id = $1 AND i.is_deleted = 0";
/// Bytes of items that are read at a time. As JSON values they take several times as much memory.
const PART_BYTES: usize = 1 << 20;
/// Ids per statement.
const PER_STATEMENT: usize = 100;

/// Rows of a page: the page is selected by the index first, then only its rows are read with their contents.
fn page(chosen: &str, limit: u32, offset: u64) -> String {
    format!(
        "SELECT {COLUMNS}
           FROM (SELECT i.project_id, i.id, i.valid_from {chosen}
                  ORDER BY i.created_at DESC, i.id DESC LIMIT {limit} OFFSET {offset}) page
           JOIN dataset_items i ON i.project_id = page.project_id AND i.id = page.id
                               AND i.valid_from = page.valid_from
           JOIN datasets d ON d.project_id = i.project_id AND d.id = i.dataset_id
          ORDER BY i.created_at DESC, i.id DESC"
    )
}

/// As [`page`], the oldest rows first.
fn oldest(chosen: &str, limit: u32) -> String {
    page(chosen, limit, 0).replace("created_at DESC, i.id DESC", "created_at, i.id")
}

/// Active items that meet the conditions: `FROM` and `WHERE` with their values.
fn chosen<'q>(project: &'q ProjectId, query: &'q ItemQuery) -> (String, Vec<Arg<'q>>) {
    let mut chosen = match query.with_archived {
        true => CHOSEN_WITH_ARCHIVED.to_owned(),
        false => CHOSEN.to_owned(),
    };
    let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
    match query.at {
        Some(at) => {
            args.push(at.as_micros().into());
            chosen.push_str(" AND i.valid_from <= $2 AND (i.valid_to IS NULL OR $2 < i.valid_to)");
        }
        None => chosen.push_str(" AND i.valid_to IS NULL"),
    }
    let conditions = [
        ("dataset_id", &query.dataset_id),
        ("source_trace_id", &query.source_trace_id),
        ("source_observation_id", &query.source_observation_id),
    ];
    for (column, value) in conditions {
        if let Some(value) = value {
            args.push(value.as_str().into());
            chosen.push_str(&format!(" AND i.{column} = ${}", args.len()));
        }
    }
    (chosen, args)
}

impl Catalog {
    /// The newest version of an item, which may be its deletion.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<ItemVersion>, Error> {
        let sql = format!("SELECT {COLUMNS} {FROM} AND i.id = $2 AND i.valid_to IS NULL");
        let args: [Arg<'_>; 2] = [project.as_str().into(), id.into()];
        let rows: Vec<ItemRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// An item as of a time, or its last state if it did not exist then; `None` if it never existed.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_at(
        &self,
        project: &ProjectId,
        id: &str,
        at: Timestamp,
    ) -> Result<Option<DatasetItem>, Error> {
        let sql = format!(
            "SELECT {COLUMNS} {FROM} AND i.id = $2 AND i.is_deleted = 0
              ORDER BY CASE WHEN i.valid_from <= $3 AND (i.valid_to IS NULL OR $3 < i.valid_to) THEN 0
                            ELSE 1 END, i.valid_from DESC LIMIT 1"
        );
        let args: [Arg<'_>; 3] = [project.as_str().into(), id.into(), at.as_micros().into()];
        let rows: Vec<ItemRow> = self.pool.select(&sql, &args).await?;
        rows.into_iter().next().map(|row| Ok(ItemVersion::try_from(row)?.item)).transpose()
    }

    /// Every version of an item, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_versions(
        &self,
        project: &ProjectId,
        id: &str,
        paging: Paging,
    ) -> Result<NumberedPage<ItemVersion>, Error> {
        let from = format!("{FROM} AND i.id = $2");
        let listed = PageQuery {
            select: COLUMNS,
            from: &from,
            args: &[project.as_str().into(), id.into()],
            order: "i.valid_from DESC",
        };
        self.pool.numbered::<ItemRow, _>(&listed, paging).await
    }

    /// A page of the active items, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_items(
        &self,
        project: &ProjectId,
        query: &ItemQuery,
        paging: Paging,
    ) -> Result<NumberedPage<ItemVersion>, Error> {
        let n_total = self.count_dataset_items(project, query).await?;
        let (chosen, args) = chosen(project, query);
        let sql = page(&chosen, paging.limit, paging.offset());
        let rows: Vec<ItemRow> = self.pool.select(&sql, &args).await?;
        let items = rows.into_iter().map(ItemVersion::try_from);
        Ok(NumberedPage { items: items.collect::<Result<_, _>>()?, n_total })
    }

    /// Number of active items.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn count_dataset_items(
        &self,
        project: &ProjectId,
        query: &ItemQuery,
    ) -> Result<u64, Error> {
        let (chosen, args) = chosen(project, query);
        let sql = format!("SELECT COUNT(*) {chosen}");
        let counted: Vec<(i64,)> = self.pool.select(&sql, &args).await?;
        Ok(counted.first().map_or(0, |(n,)| n.unsigned_abs()))
    }

    /// Some of the active items, newest first: after a position or an offset, at most `limit`, and up to a
    /// total size. `true` if there are more although there are fewer than `limit`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn some_dataset_items(
        &self,
        project: &ProjectId,
        query: &ItemQuery,
        after: Option<&Cursor>,
        (offset, limit): (u64, u32),
    ) -> Result<(Vec<ItemVersion>, bool), Error> {
        let (mut chosen, mut args) = chosen(project, query);
        if let Some(after) = after {
            let n = args.len();
            args.extend([after.at.as_micros().into(), after.id.as_str().into()]);
            chosen.push_str(&format!(" AND (i.created_at, i.id) < (${}, ${})", n + 1, n + 2));
        }
        let sql = perpend_db::query(page(&chosen, limit, offset)).bind_all(&args);
        let (rows, is_cut): (Vec<ItemRow>, bool) = sql.fetch_up_to(&self.pool, PART_BYTES).await?;
        let items = rows.into_iter().map(ItemVersion::try_from);
        Ok((items.collect::<Result<_, _>>()?, is_cut))
    }

    /// As [`Catalog::some_dataset_items`], the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn oldest_dataset_items(
        &self,
        project: &ProjectId,
        query: &ItemQuery,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<(Vec<ItemVersion>, bool), Error> {
        let (mut chosen, mut args) = chosen(project, query);
        if let Some(after) = after {
            let n = args.len();
            args.extend([after.at.as_micros().into(), after.id.as_str().into()]);
            chosen.push_str(&format!(" AND (i.created_at, i.id) > (${}, ${})", n + 1, n + 2));
        }
        let sql = perpend_db::query(oldest(&chosen, limit)).bind_all(&args);
        let (rows, is_cut): (Vec<ItemRow>, bool) = sql.fetch_up_to(&self.pool, PART_BYTES).await?;
        let items = rows.into_iter().map(ItemVersion::try_from);
        Ok((items.collect::<Result<_, _>>()?, is_cut))
    }

    /// Active items of a dataset in their current state, newest first, after a position in the list.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_items_after(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<DatasetItem>, Error> {
        let mut chosen = CHOSEN.to_owned();
        chosen.push_str(" AND i.valid_to IS NULL AND i.dataset_id = $2");
        let mut args: Vec<Arg<'_>> = vec![project.as_str().into(), dataset_id.into()];
        if let Some(after) = after {
            args.extend([after.at.as_micros().into(), after.id.as_str().into()]);
            chosen.push_str(" AND (i.created_at, i.id) < ($3, $4)");
        }
        let rows: Vec<ItemRow> = self.pool.select(&page(&chosen, limit, 0), &args).await?;
        rows.into_iter().map(|row| Ok(ItemVersion::try_from(row)?.item)).collect()
    }

    /// The ids of the active items of a dataset as of a time, oldest first, each with the digest of its
    /// expected output.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expected_outputs(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        at: Timestamp,
    ) -> Result<Vec<(String, Option<Digest>)>, Error> {
        let query = ItemQuery {
            dataset_id: Some(dataset_id.to_owned()),
            at: Some(at),
            ..ItemQuery::default()
        };
        let (chosen, args) = chosen(project, &query);
        let sql = format!("SELECT i.id, i.expected_output {chosen} ORDER BY i.created_at, i.id");
        let mut found = Vec::new();
        let put = &mut |row: Row| {
            let (id, expected) = <(String, String)>::read(&row)?;
            let digest = {
                let _scratch = Scratch::begin();
                expected_output_digest(&from_json("dataset item", &expected)?)
            };
            charge(id.len() + size_of::<(String, Option<Digest>)>())?;
            found.push((id, digest));
            Ok(())
        };
        perpend_db::query(sql).bind_all(&args).each(&self.pool, put).await?;
        Ok(found)
    }

    /// The ids of the newest active items of each of these datasets, at most `limit` of each.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_ids(
        &self,
        project: &ProjectId,
        dataset_ids: &[&str],
        limit: u32,
    ) -> Result<HashMap<String, Vec<String>>, Error> {
        let one = |place: usize| {
            format!(
                "SELECT * FROM (SELECT i.dataset_id, i.id {CHOSEN} AND i.valid_to IS NULL
                  AND i.dataset_id = ${place} ORDER BY i.created_at DESC, i.id DESC LIMIT {limit}) d{place}"
            )
        };
        self.pool.texts_of_each(project, dataset_ids, one).await
    }

    /// Items with these ids in their last state, including deleted ones, in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_items_by_id(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<Vec<DatasetItem>, Error> {
        let found = self.dataset_item_states(project, ids).await?;
        Ok(found.into_iter().map(|version| version.item).collect())
    }

    /// The newest version of each of these items, which may be a deletion, in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_states(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<Vec<ItemVersion>, Error> {
        let mut found = Vec::new();
        for some in ids.chunks(PER_STATEMENT) {
            let sql = format!(
                "SELECT {COLUMNS} {FROM} AND i.valid_to IS NULL AND i.id IN ({})",
                value_list(some.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|id| Arg::from(*id)));
            for row in self.pool.select::<ItemRow>(&sql, &args).await? {
                found.push(ItemVersion::try_from(row)?);
            }
        }
        Ok(found)
    }

    /// Those of these ids that items of other datasets have, including deleted ones.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn item_ids_of_other_datasets(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        ids: &[&str],
    ) -> Result<Vec<String>, Error> {
        let mut found = Vec::new();
        for some in ids.chunks(PER_STATEMENT) {
            let sql = format!(
                "SELECT id FROM dataset_items
                  WHERE project_id = $1 AND valid_to IS NULL AND dataset_id <> $2 AND id IN ({})",
                value_list(some.len(), 3)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into(), dataset_id.into()];
            args.extend(some.iter().map(|id| Arg::from(*id)));
            let rows: Vec<(String,)> = self.pool.select(&sql, &args).await?;
            found.extend(rows.into_iter().map(|(id,)| id));
        }
        Ok(found)
    }
}
