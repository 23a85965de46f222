//! Observations that runs link as items.

use std::collections::BTreeSet;

use perpend_domain::experiment::{LinkedItem, MissingItem};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::time::Timestamp;

use super::linked::LINK_COUNTS;
use super::spans::{about, push_list};
use crate::{Error, Telemetry};
use perpend_db::checked;

/// Columns of filters that links determine.
pub(crate) const EXPERIMENT_COLUMNS: [&str; 3] =
    ["experimentId", "experimentName", "experimentDatasetId"];
/// Traces per statement.
const PER_STATEMENT: usize = 100;

/// The root of trace `t`: of several one without a parent, and of these the first one.
pub(super) const ROOT_OF_TRACE: &str = "(SELECT root.id FROM observations root
     WHERE root.trace = t.number AND root.is_root = 1 AND root.id <> 't-' || t.trace_id
     ORDER BY CASE WHEN root.parent_id IS NULL THEN 0 ELSE 1 END, root.started_at, root.id LIMIT 1)";

/// A column of the run that links observation `o` of trace `t` as an item; of several links the last one counts. Null for spans
/// of items, which keep their own run. `$1` is the project, `$2` its number.
pub(crate) fn column_of_linking_run(column: &str) -> String {
    format!(
        "(SELECT r.{column} FROM dataset_run_items l
            JOIN dataset_runs r ON r.project_id = l.project_id AND r.id = l.run_id
           WHERE l.project_id = $1 AND l.trace_id = t.trace_id AND o.experiment_id IS NULL
             AND o.id = COALESCE(l.observation_id, {ROOT_OF_TRACE}) AND {LINK_COUNTS}
           ORDER BY l.updated_at DESC, l.run_id DESC, l.id DESC LIMIT 1)"
    )
}

/// Condition that trace `t` belongs to run `$3`; `$1` is the project, `$2` its number.
const OF_RUN: &str = "t.number IN (
        SELECT o.trace FROM observations o WHERE o.tenant = $2 AND o.experiment_id = $3
        UNION
        SELECT linked.number FROM dataset_run_items l
          JOIN traces linked ON linked.tenant = $2 AND linked.trace_id = l.trace_id
         WHERE l.project_id = $1 AND l.run_id = $3)";

perpend_db::record! {
    struct LinkedItemRow {
        trace_id: String,
        observation_id: String,
        is_whole: i32,
        run_id: String,
        run_name: String,
        dataset_id: String,
        item_id: String,
        dataset_version: Option<i64>,
        linked_at: i64,
    }
}

perpend_db::record! {
    struct MissingItemRow {
        trace_id: String,
        run_id: String,
        dataset_id: String,
        item_id: String,
        linked_at: i64,
    }
}

impl TryFrom<MissingItemRow> for MissingItem {
    type Error = Error;

    fn try_from(row: MissingItemRow) -> Result<Self, Error> {
        Ok(Self {
            trace_id: checked("run item", &row.trace_id)?,
            run_id: row.run_id,
            dataset_id: row.dataset_id,
            item_id: row.item_id,
            linked_at: Timestamp::from_micros(row.linked_at),
        })
    }
}

impl TryFrom<LinkedItemRow> for LinkedItem {
    type Error = Error;

    fn try_from(row: LinkedItemRow) -> Result<Self, Error> {
        Ok(Self {
            trace_id: checked("run item", &row.trace_id)?,
            observation_id: checked("run item", &row.observation_id)?,
            is_whole: row.is_whole != 0,
            run_id: row.run_id,
            run_name: row.run_name,
            dataset_id: row.dataset_id,
            item_id: row.item_id,
            dataset_version: row.dataset_version.map(Timestamp::from_micros),
            linked_at: Timestamp::from_micros(row.linked_at),
        })
    }
}

impl Telemetry {
    /// The stored observations of these traces that runs link as items, the last link last. A link to a trace
    /// counts as one to its root. Traces with a span of an item of the same run are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn linked_items(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<Vec<LinkedItem>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for some in traces.chunks(PER_STATEMENT) {
            let mut sql = about(project, tenant);
            sql.push(&format!(
                "SELECT x.trace_id, o.id AS observation_id, x.is_whole, x.run_id, x.run_name, x.dataset_id, x.item_id,
                        x.dataset_version, x.linked_at
                   FROM (SELECT l.id, l.trace_id, t.number,
                                CASE WHEN l.observation_id IS NULL THEN 1 ELSE 0 END AS is_whole,
                                COALESCE(l.observation_id, {ROOT_OF_TRACE}) AS observation_id, l.run_id,
                                r.name AS run_name, r.dataset_id, l.item_id, l.dataset_version,
                                l.updated_at AS linked_at
                           FROM dataset_run_items l
                           JOIN dataset_runs r ON r.project_id = l.project_id AND r.id = l.run_id
                           JOIN traces t ON t.tenant = $2 AND t.trace_id = l.trace_id
                          WHERE l.project_id = $1 AND l.trace_id"
            ));
            push_list(&mut sql, some.iter().map(TraceId::as_str));
            sql.push(&format!(
                " AND {LINK_COUNTS}) x JOIN observations o ON o.trace = x.number AND o.id = x.observation_id
                  ORDER BY x.linked_at, x.run_id, x.id"
            ));
            let rows: Vec<LinkedItemRow> = self.pool.select(&sql.text, &sql.args).await?;
            for row in rows {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    /// Gives observations that runs link as items the experiment attributes of spans of items. Spans of items keep
    /// their own.
    ///
    /// # Errors
    /// When the database fails.
    pub(crate) async fn apply_links(
        &self,
        project: &ProjectId,
        stored: &mut [StoredObservation],
    ) -> Result<(), Error> {
        let mut own: Vec<&mut Observation> =
            stored.iter_mut().map(|stored| &mut stored.observation).collect();
        own.retain(|own| !own.is_experiment_item() && !own.is_trace_record());
        let traces: BTreeSet<&TraceId> = own.iter().map(|own| &own.trace_id).collect();
        let traces: Vec<TraceId> = traces.into_iter().cloned().collect();
        // Of several links of an observation the last one counts.
        for link in self.linked_items(project, &traces).await? {
            let linked = own
                .iter_mut()
                .find(|own| own.trace_id == link.trace_id && own.id == link.observation_id);
            if let Some(own) = linked {
                link.apply(own);
            }
        }
        Ok(())
    }

    /// Links to these traces whose observation has not arrived, the last link last: the linked observation, or the root of the
    /// trace. Traces with a span of an item of the same run are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn missing_items(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<Vec<MissingItem>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut found = Vec::new();
        for some in traces.chunks(PER_STATEMENT) {
            let mut sql = about(project, tenant);
            sql.push(
                "SELECT l.trace_id, l.run_id, r.dataset_id, l.item_id, l.updated_at AS linked_at
                   FROM dataset_run_items l
                   JOIN dataset_runs r ON r.project_id = l.project_id AND r.id = l.run_id
                   LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = l.trace_id
                  WHERE l.project_id = $1 AND l.trace_id",
            );
            push_list(&mut sql, some.iter().map(TraceId::as_str));
            sql.push(&format!(
                " AND {LINK_COUNTS}
                    AND NOT EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.number
                                       AND o.id = COALESCE(l.observation_id, {ROOT_OF_TRACE}))
                  ORDER BY l.updated_at, l.run_id, l.id"
            ));
            for row in self.pool.select::<MissingItemRow>(&sql.text, &sql.args).await? {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    /// The traces of a run, from spans and links, as far as they have arrived.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_trace_ids(
        &self,
        project: &ProjectId,
        run_id: &str,
    ) -> Result<Vec<TraceId>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = about(project, tenant);
        sql.bind_text(run_id);
        sql.push(&format!("SELECT t.trace_id FROM traces t WHERE {OF_RUN} ORDER BY t.trace_id"));
        let rows: Vec<(String,)> = self.pool.select(&sql.text, &sql.args).await?;
        rows.iter().map(|(id,)| checked("run item", id)).collect()
    }

    /// When the first and the last data of the traces of a run arrived, or of its links; `None` for a run
    /// without results.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_times(
        &self,
        project: &ProjectId,
        run_id: &str,
    ) -> Result<Option<(Timestamp, Timestamp)>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = about(project, tenant);
        sql.bind_text(run_id);
        sql.push(&format!(
            "SELECT MIN(x.first_seen), MAX(x.last_seen)
               FROM (SELECT t.first_seen, t.last_seen FROM traces t WHERE {OF_RUN}
                     UNION ALL
                     SELECT l.updated_at, l.updated_at FROM dataset_run_items l
                      WHERE l.project_id = $1 AND l.run_id = $3) x"
        ));
        let rows: Vec<(Option<i64>, Option<i64>)> = self.pool.select(&sql.text, &sql.args).await?;
        let times = rows.into_iter().next().and_then(|(first, last)| Some((first?, last?)));
        let time = Timestamp::from_micros;
        Ok(times.map(|(first, last)| (time(first), time(last))))
    }
}
