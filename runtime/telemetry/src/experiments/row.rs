//! Runs and links as rows.

use perpend_domain::dataset::{DatasetRun, DatasetRunItem};
use perpend_domain::time::Timestamp;

use crate::Error;
use perpend_db::from_json;

perpend_db::record! {
    pub(super) struct RunRow {
        id: String,
        name: String,
        description: Option<String>,
        metadata: String,
        dataset_id: String,
        dataset_name: String,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<RunRow> for DatasetRun {
    type Error = Error;

    fn try_from(row: RunRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            description: row.description,
            metadata: from_json("dataset run", &row.metadata)?,
            dataset_id: row.dataset_id,
            dataset_name: row.dataset_name,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

perpend_db::record! {
    pub(super) struct LinkRow {
        id: String,
        run_id: String,
        run_name: String,
        item_id: String,
        dataset_version: Option<i64>,
        trace_id: String,
        observation_id: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<LinkRow> for DatasetRunItem {
    type Error = Error;

    fn try_from(row: LinkRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            run_id: row.run_id,
            run_name: row.run_name,
            item_id: row.item_id,
            dataset_version: row.dataset_version.map(Timestamp::from_micros),
            trace_id: row.trace_id,
            observation_id: row.observation_id,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}
