//! The runs in which an item of a dataset was used.

use std::collections::{HashMap, HashSet};

use perpend_domain::experiment::RunQuery;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

use super::linked::LINK_COUNTS;
use super::spans::{about, link_of, push_list, push_not_deleted};
use crate::{Error, Telemetry};
use perpend_db::to_json;

/// Newest runs of the dataset that are searched.
const MAX_RUNS: u32 = 50;

/// A result of an item in a run.
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
    /// Time of the link, or start of the span.
    pub created_at: Timestamp,
}

perpend_db::record! {
    /// A link, or a span if `detail` is set.
    struct RunOfItemRow {
        run_id: String,
        trace_id: String,
        observation_id: Option<String>,
        created_at: i64,
        detail: Option<String>,
    }
}

impl Telemetry {
    /// The newest results of an item in the newest 50 runs over its dataset, newest first.
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
        let newest =
            RunQuery { dataset_id: Some(dataset_id.to_owned()), after: None, limit: MAX_RUNS };
        let runs = self.runs_after(project, &newest).await?;
        let names = runs.into_iter().take(MAX_RUNS as usize).map(|run| (run.id, run.name));
        let names: HashMap<String, String> = names.collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = about(project, tenant);
        let item = sql.bind_text(item_id);
        // As a member of the attributes in `detail`.
        let member = format!("\"item_id\":{}", to_json("run item", &item_id)?);
        let member = sql.bind_text(&member);
        sql.push(&format!(
            "SELECT l.run_id, l.trace_id, l.observation_id, l.created_at, NULL AS detail
               FROM dataset_run_items l
              WHERE l.project_id = $1 AND l.item_id = {item} AND {LINK_COUNTS} AND l.run_id"
        ));
        push_list(&mut sql, names.keys().map(String::as_str));
        sql.push(&format!(
            " UNION ALL
             SELECT o.experiment_id, t.trace_id, o.id, o.started_at, o.detail
               FROM observations o JOIN traces t ON t.number = o.trace
              WHERE o.tenant = $2 AND replace(o.detail, {member}, '') <> o.detail AND o.experiment_id"
        ));
        push_list(&mut sql, names.keys().map(String::as_str));
        push_not_deleted(&mut sql);
        sql.push(&format!(" ORDER BY created_at DESC, trace_id DESC LIMIT {limit}"));
        let rows: Vec<RunOfItemRow> = self.pool.select(&sql.text, &sql.args).await?;
        let mut found = Vec::with_capacity(rows.len());
        let mut repeated = HashSet::new();
        for row in rows {
            let link = row.detail.as_deref().map(link_of).transpose()?.unwrap_or_default();
            // Other members of the attributes may have this name and value.
            if row.detail.is_some() && link.item_id.as_deref() != Some(item_id) {
                continue;
            }
            // Of the attempts of a result the last one counts.
            let repetition = link.attempt.map(|_| link.repetition.unwrap_or(0));
            if repetition.is_some_and(|n| !repeated.insert((row.run_id.clone(), n))) {
                continue;
            }
            found.push(RunOfItem {
                run_name: names.get(&row.run_id).cloned().unwrap_or_default(),
                run_id: row.run_id,
                trace_id: row.trace_id,
                observation_id: row.observation_id,
                created_at: Timestamp::from_micros(row.created_at),
            });
        }
        Ok(found)
    }
}
