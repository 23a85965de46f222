//! The runs in which an item of a dataset was used.

use perpend_db::Arg;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};

/// Newest runs of the dataset that are searched.
const MAX_RUNS: u32 = 50;

/// A link of an item to a trace in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOfItem {
    /// Id of the run.
    pub run_id: String,
    /// Name of the run.
    pub run_name: String,
    /// The trace that the application recorded.
    pub trace_id: String,
    /// The observation; the root of the trace if absent.
    pub observation_id: Option<String>,
    /// Time of the link.
    pub created_at: Timestamp,
}

perpend_db::record! {
    struct RunOfItemRow {
        run_id: String,
        run_name: String,
        trace_id: String,
        observation_id: Option<String>,
        created_at: i64,
    }
}

impl From<RunOfItemRow> for RunOfItem {
    fn from(row: RunOfItemRow) -> Self {
        Self {
            run_id: row.run_id,
            run_name: row.run_name,
            trace_id: row.trace_id,
            observation_id: row.observation_id,
            created_at: Timestamp::from_micros(row.created_at),
        }
    }
}

impl Telemetry {
    /// The newest links of an item in the newest 50 runs of its dataset, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs_of_item(
        &self,
        project: &ProjectId,
        dataset_id: &str,
        item_id: &str,
        limit: u32,
    ) -> Result<Vec<RunOfItem>, Error> {
        let sql = format!(
            "SELECT r.id AS run_id, r.name AS run_name, l.trace_id AS trace_id,
                    l.observation_id AS observation_id, l.created_at AS created_at
               FROM (SELECT id, name FROM dataset_runs WHERE project_id = $1 AND dataset_id = $2
                      ORDER BY created_at DESC, id DESC LIMIT {MAX_RUNS}) r
               JOIN dataset_run_items l ON l.project_id = $1 AND l.run_id = r.id
              WHERE l.item_id = $3
              ORDER BY l.created_at DESC, l.id DESC LIMIT {limit}"
        );
        let args: [Arg<'_>; 3] = [project.as_str().into(), dataset_id.into(), item_id.into()];
        let rows: Vec<RunOfItemRow> = self.pool.select(&sql, &args).await?;
        Ok(rows.into_iter().map(Into::into).collect())
    }
}
