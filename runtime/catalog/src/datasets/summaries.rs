//! Names of datasets with counts, for lists.

use std::collections::HashMap;

use perpend_db::{Arg, value_list};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Catalog, Error};

/// Datasets per statement.
const PER_STATEMENT: usize = 100;

/// A dataset without its schemas and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSummary {
    /// Id.
    pub id: String,
    /// Unique name; `/` separates folders.
    pub name: String,
    /// Description for users.
    pub description: Option<String>,
    /// Whether it has a schema of inputs.
    pub has_input_schema: bool,
    /// Whether it has a schema of expected outputs.
    pub has_expected_output_schema: bool,
    /// Time of the last change of the dataset, without changes of items.
    pub updated_at: Timestamp,
    /// Whether it is archived.
    pub is_archived: bool,
}

/// Number of items of a dataset, and the time of the last change of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemCounts {
    /// Number of active items.
    pub n_active: u64,
    /// Time of the last change of an item, including archived and deleted ones.
    pub changed_at: Timestamp,
}

perpend_db::record! {
    struct SummaryRow {
        id: String,
        name: String,
        description: Option<String>,
        has_input_schema: i64,
        has_expected_output_schema: i64,
        updated_at: i64,
        is_archived: i64,
    }
}

impl From<SummaryRow> for DatasetSummary {
    fn from(row: SummaryRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            description: row.description,
            has_input_schema: row.has_input_schema != 0,
            has_expected_output_schema: row.has_expected_output_schema != 0,
            updated_at: Timestamp::from_micros(row.updated_at),
            is_archived: row.is_archived != 0,
        }
    }
}

impl Catalog {
    /// The first datasets of a project by name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_summaries(
        &self,
        project: &ProjectId,
        limit: u32,
    ) -> Result<Vec<DatasetSummary>, Error> {
        let sql = format!(
            "SELECT id, name, description,
                    CAST(CASE WHEN input_schema IS NULL THEN 0 ELSE 1 END AS BIGINT) AS has_input_schema,
                    CAST(CASE WHEN expected_output_schema IS NULL THEN 0 ELSE 1 END AS BIGINT)
                        AS has_expected_output_schema,
                    updated_at,
                    CAST(CASE WHEN archived_at IS NULL THEN 0 ELSE 1 END AS BIGINT) AS is_archived
               FROM datasets WHERE project_id = $1 ORDER BY name LIMIT {limit}"
        );
        let rows: Vec<SummaryRow> = self.pool.select(&sql, &[project.as_str().into()]).await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }

    /// Counts of the items of each of these datasets; those without items are missing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_item_counts(
        &self,
        project: &ProjectId,
        dataset_ids: &[&str],
    ) -> Result<HashMap<String, ItemCounts>, Error> {
        let mut counts = HashMap::new();
        for some in dataset_ids.chunks(PER_STATEMENT) {
            let sql = format!(
                "SELECT dataset_id, COUNT(CASE WHEN is_deleted = 0 AND status = 'ACTIVE' THEN 1 END),
                        MAX(valid_from)
                   FROM dataset_items
                  WHERE project_id = $1 AND valid_to IS NULL AND dataset_id IN ({})
                  GROUP BY dataset_id",
                value_list(some.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
            args.extend(some.iter().map(|id| Arg::from(*id)));
            let rows: Vec<(String, i64, i64)> = self.pool.select(&sql, &args).await?;
            counts.extend(rows.into_iter().map(|(id, n_active, changed_at)| {
                let changed_at = Timestamp::from_micros(changed_at);
                (id, ItemCounts { n_active: n_active.unsigned_abs(), changed_at })
            }));
        }
        Ok(counts)
    }
}
