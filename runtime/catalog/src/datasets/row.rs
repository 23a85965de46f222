//! Datasets and items as rows.

use perpend_domain::dataset::{Dataset, DatasetItem};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use super::{
    ChangeLogEntry, DatasetVersion, ItemDifference, ItemVersion, Revisions, StoredDataset,
    VersionRef,
};
use crate::Error;
use perpend_db::{checked, from_json};

fn json(raw: &str) -> Result<Value, Error> {
    from_json("dataset", raw)
}

fn some_json(raw: Option<&str>) -> Result<Option<Value>, Error> {
    raw.map(json).transpose()
}

perpend_db::record! {
    pub(super) struct DatasetRow {
        id: String,
        name: String,
        description: Option<String>,
        metadata: String,
        input_schema: Option<String>,
        expected_output_schema: Option<String>,
        schema_revision: i64,
        items_revision: i64,
        created_at: i64,
        updated_at: i64,
        archived_at: Option<i64>,
        baseline_run_id: Option<String>,
    }
}

impl TryFrom<DatasetRow> for StoredDataset {
    type Error = Error;

    fn try_from(row: DatasetRow) -> Result<Self, Error> {
        Ok(Self {
            dataset: Dataset {
                id: row.id,
                name: row.name,
                description: row.description,
                metadata: json(&row.metadata)?,
                input_schema: some_json(row.input_schema.as_deref())?,
                expected_output_schema: some_json(row.expected_output_schema.as_deref())?,
                created_at: Timestamp::from_micros(row.created_at),
                updated_at: Timestamp::from_micros(row.updated_at),
            },
            revisions: Revisions { schema: row.schema_revision, items: row.items_revision },
            archived_at: row.archived_at.map(Timestamp::from_micros),
            baseline_run_id: row.baseline_run_id,
        })
    }
}

perpend_db::record! {
    pub(super) struct VersionRow {
        valid_from: i64,
        description: Option<String>,
        metadata: String,
        input_schema: Option<String>,
        expected_output_schema: Option<String>,
    }
}

impl TryFrom<VersionRow> for DatasetVersion {
    type Error = Error;

    fn try_from(row: VersionRow) -> Result<Self, Error> {
        Ok(Self {
            valid_from: Timestamp::from_micros(row.valid_from),
            description: row.description,
            metadata: json(&row.metadata)?,
            input_schema: some_json(row.input_schema.as_deref())?,
            expected_output_schema: some_json(row.expected_output_schema.as_deref())?,
        })
    }
}

perpend_db::record! {
    pub(super) struct ItemRow {
        id: String,
        valid_from: i64,
        is_deleted: i16,
        dataset_id: String,
        dataset_name: String,
        status: String,
        input: String,
        expected_output: String,
        metadata: String,
        source_trace_id: Option<String>,
        source_observation_id: Option<String>,
        created_at: i64,
    }
}

impl TryFrom<ItemRow> for ItemVersion {
    type Error = Error;

    fn try_from(row: ItemRow) -> Result<Self, Error> {
        Ok(Self {
            is_deleted: row.is_deleted != 0,
            item: DatasetItem {
                id: row.id,
                dataset_id: row.dataset_id,
                dataset_name: row.dataset_name,
                status: checked("dataset item", &row.status)?,
                input: json(&row.input)?,
                expected_output: json(&row.expected_output)?,
                metadata: json(&row.metadata)?,
                source_trace_id: row.source_trace_id,
                source_observation_id: row.source_observation_id,
                created_at: Timestamp::from_micros(row.created_at),
                valid_from: Timestamp::from_micros(row.valid_from),
            },
        })
    }
}

perpend_db::record! {
    pub(super) struct ChangeLogRow {
        first_at: i64,
        last_at: i64,
        n_added: i64,
        n_changed: i64,
        n_removed: i64,
        n_settings: i64,
    }
}

impl TryFrom<ChangeLogRow> for ChangeLogEntry {
    type Error = Error;

    fn try_from(row: ChangeLogRow) -> Result<Self, Error> {
        Ok(Self {
            first_at: Timestamp::from_micros(row.first_at),
            last_at: Timestamp::from_micros(row.last_at),
            n_added: row.n_added.unsigned_abs(),
            n_changed: row.n_changed.unsigned_abs(),
            n_removed: row.n_removed.unsigned_abs(),
            n_settings: row.n_settings.unsigned_abs(),
        })
    }
}

perpend_db::record! {
    pub(super) struct DifferenceRow {
        id: String,
        before_at: Option<i64>,
        before_status: String,
        after_at: Option<i64>,
        after_status: String,
    }
}

fn version_ref(valid_from: Option<i64>, status: &str) -> Result<Option<VersionRef>, Error> {
    let Some(valid_from) = valid_from else { return Ok(None) };
    Ok(Some(VersionRef {
        valid_from: Timestamp::from_micros(valid_from),
        status: checked("dataset item", status)?,
    }))
}

impl TryFrom<DifferenceRow> for ItemDifference {
    type Error = Error;

    fn try_from(row: DifferenceRow) -> Result<Self, Error> {
        Ok(Self {
            before: version_ref(row.before_at, &row.before_status)?,
            after: version_ref(row.after_at, &row.after_status)?,
            id: row.id,
        })
    }
}
