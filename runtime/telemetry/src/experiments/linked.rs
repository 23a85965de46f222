//! Links of runs as they are displayed: together with the spans of items, and without the links whose trace
//! has such a span.

use super::spans::{about, link_of, push_list, push_not_deleted, push_period};
use perpend_domain::dataset::{DatasetRun, DatasetRunItem};
use perpend_domain::ids::ProjectId;
use perpend_domain::telemetry::{Period, RunLinks};
use perpend_domain::time::Timestamp;

use super::row::{LinkRow, RunRow};
use crate::{Error, Telemetry};
use perpend_db::Sql;
use perpend_domain::list::{Cursor, NumberedPage, Paging};

/// Runs per statement.
const PER_STATEMENT: usize = 100;

/// The trace of link `l` has a span of an item of its run; `$2` is the number of the project.
const HAS_SPAN: &str = "EXISTS (SELECT 1 FROM traces t JOIN observations o ON o.trace = t.number
     WHERE t.tenant = $2 AND t.trace_id = l.trace_id AND o.experiment_id = l.run_id";

/// Condition that link `l` is a result of its run: its trace has no span of an item of the run, and there is
/// no link of the same item to an observation of the trace. `$1` is the project, `$2` its number.
pub(super) const LINK_COUNTS: &str = "NOT EXISTS (
        SELECT 1 FROM traces st JOIN observations so ON so.trace = st.number
         WHERE st.tenant = $2 AND st.trace_id = l.trace_id AND so.experiment_id = l.run_id
           AND NOT EXISTS (SELECT 1 FROM dataset_run_deletions d WHERE d.project_id = $1
                AND d.run_id = so.experiment_id AND so.started_at <= d.deleted_at))
    AND NOT (l.observation_id IS NULL AND EXISTS (
        SELECT 1 FROM dataset_run_items m
         WHERE m.project_id = $1 AND m.run_id = l.run_id AND m.trace_id = l.trace_id
           AND m.item_id = l.item_id AND m.observation_id IS NOT NULL))";

perpend_db::record! {
    struct LinkedRow {
        id: String,
        first_made: i64,
        last_made: i64,
        n_items: i64,
    }
}

perpend_db::record! {
    /// A link, or a span if `detail` is set.
    struct EntryRow {
        id: String,
        item_id: String,
        dataset_version: Option<i64>,
        trace_id: String,
        observation_id: Option<String>,
        created_at: i64,
        updated_at: i64,
        detail: Option<String>,
    }
}

impl EntryRow {
    fn of(self, run: &DatasetRun) -> Result<DatasetRunItem, Error> {
        let link = self.detail.as_deref().map(link_of).transpose()?;
        let link = link.unwrap_or_default();
        Ok(DatasetRunItem {
            id: self.id,
            run_id: run.id.clone(),
            run_name: run.name.clone(),
            item_id: link.item_id.unwrap_or(self.item_id),
            dataset_version: link.item_version.or(self.dataset_version.map(Timestamp::from_micros)),
            trace_id: self.trace_id,
            observation_id: self.observation_id,
            created_at: Timestamp::from_micros(self.created_at),
            updated_at: Timestamp::from_micros(self.updated_at),
        })
    }
}

perpend_db::record! {
    struct LinkAndRunRow {
        link: LinkRow,
        description: Option<String>,
        metadata: String,
        dataset_id: String,
        dataset_name: String,
        run_created_at: i64,
        run_updated_at: i64,
    }
}

impl Telemetry {
    /// The linked runs of a dataset, or of every dataset, by id, each with its creation time and the time of
    /// its last link in a period. Runs without a link in the period are left out unless the period is
    /// unlimited.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_activity(
        &self,
        project: &ProjectId,
        dataset_id: Option<&str>,
        period: Period,
    ) -> Result<Vec<(String, Timestamp, Timestamp)>, Error> {
        let mut sql = Sql::default();
        sql.bind_text(project.as_str());
        sql.push(
            "SELECT id, created_at, COALESCE(newest, created_at) FROM (
               SELECT r.id, r.created_at, (SELECT MAX(l.created_at) FROM dataset_run_items l
                             WHERE l.project_id = $1 AND l.run_id = r.id",
        );
        push_period(&mut sql, period, "l.created_at");
        sql.push(") AS newest FROM dataset_runs r WHERE r.project_id = $1");
        if let Some(dataset) = dataset_id {
            let dataset = sql.bind_text(dataset);
            sql.push(&format!(" AND r.dataset_id = {dataset}"));
        }
        sql.push(") a");
        if period != Period::default() {
            sql.push(" WHERE newest IS NOT NULL");
        }
        let rows: Vec<(String, i64, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let time = Timestamp::from_micros;
        let activity = rows.into_iter();
        Ok(activity.map(|(id, made, newest)| (id, time(made), time(newest))).collect())
    }

    /// The stored runs with these ids, in no particular order. The name of a dataset that does not exist is empty.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dataset_runs_by_id(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<Vec<DatasetRun>, Error> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let mut sql = Sql::default();
            sql.bind_text(project.as_str());
            sql.push(
                "SELECT r.id, r.name, r.description, r.metadata, r.dataset_id,
                        COALESCE(d.name, '') AS dataset_name, r.created_at, r.updated_at
                   FROM dataset_runs r
                   LEFT JOIN datasets d ON d.project_id = r.project_id AND d.id = r.dataset_id
                  WHERE r.project_id = $1 AND r.id",
            );
            push_list(&mut sql, some.iter().copied());
            for row in self.pool.select::<RunRow>(&sql.text, &sql.args).await? {
                found.push(row.try_into()?);
            }
        }
        Ok(found)
    }

    /// Totals of the links of these runs that were made in a period; in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn linked_runs(
        &self,
        project: &ProjectId,
        ids: &[&str],
        period: Period,
    ) -> Result<Vec<RunLinks>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let mut sql = about(project, tenant);
            sql.push(
                "SELECT run_id AS id, MIN(created_at) AS first_made, MAX(created_at) AS last_made,
                        COUNT(DISTINCT item_trace) AS n_items
                   FROM (SELECT l.run_id, l.created_at, CASE WHEN ",
            );
            sql.push(HAS_SPAN);
            push_period(&mut sql, period, "o.started_at");
            push_not_deleted(&mut sql);
            sql.push(
                ") THEN NULL ELSE l.trace_id END AS item_trace
                   FROM dataset_run_items l WHERE l.project_id = $1 AND l.run_id",
            );
            push_list(&mut sql, some.iter().copied());
            push_period(&mut sql, period, "l.created_at");
            sql.push(") x GROUP BY run_id");
            let rows: Vec<LinkedRow> = self.pool.select(&sql.text, &sql.args).await?;
            found.extend(rows.into_iter().map(|row| RunLinks {
                id: row.id,
                start: Timestamp::from_micros(row.first_made),
                end: Timestamp::from_micros(row.last_made),
                n_items: row.n_items.unsigned_abs(),
            }));
        }
        Ok(found)
    }

    /// Links that were made in a period and whose trace has no span of the item, with their runs: newest
    /// first, after a position in the list. Links of all runs if none is given.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn links_without_spans(
        &self,
        project: &ProjectId,
        (period, run_ids): (Period, &[String]),
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Vec<(DatasetRunItem, DatasetRun)>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = about(project, tenant);
        sql.push(
            "SELECT l.id, l.run_id, r.name AS run_name, l.item_id, l.dataset_version, l.trace_id,
                    l.observation_id, l.created_at, l.updated_at, r.description, r.metadata, r.dataset_id,
                    d.name AS dataset_name, r.created_at AS run_created_at, r.updated_at AS run_updated_at
               FROM dataset_run_items l
               JOIN dataset_runs r ON r.project_id = l.project_id AND r.id = l.run_id
               JOIN datasets d ON d.project_id = r.project_id AND d.id = r.dataset_id
              WHERE l.project_id = $1",
        );
        if !run_ids.is_empty() {
            sql.push(" AND l.run_id");
            push_list(&mut sql, run_ids.iter().map(String::as_str));
        }
        push_period(&mut sql, period, "l.created_at");
        if let Some(after) = after {
            let at = sql.bind(after.at.as_micros().into());
            let id = sql.bind_text(&after.id);
            sql.push(&format!(" AND (l.created_at, l.id) < ({at}, {id})"));
        }
        sql.push(&format!(" AND NOT {HAS_SPAN}"));
        push_not_deleted(&mut sql);
        sql.push(&format!(") ORDER BY l.created_at DESC, l.id DESC LIMIT {limit}"));
        let rows: Vec<LinkAndRunRow> = self.pool.select(&sql.text, &sql.args).await?;
        let parts = |row: LinkAndRunRow| -> Result<_, Error> {
            let link: DatasetRunItem = row.link.try_into()?;
            let run = DatasetRun {
                id: link.run_id.clone(),
                name: link.run_name.clone(),
                description: row.description,
                metadata: perpend_db::from_json("dataset run", &row.metadata)?,
                dataset_id: row.dataset_id,
                dataset_name: row.dataset_name,
                created_at: Timestamp::from_micros(row.run_created_at),
                updated_at: Timestamp::from_micros(row.run_updated_at),
            };
            Ok((link, run))
        };
        rows.into_iter().map(parts).collect()
    }

    /// The items of a run, newest first: its links, and the spans whose trace has no link. All of them, or a
    /// page.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_entries(
        &self,
        project: &ProjectId,
        run: &DatasetRun,
        paging: Option<Paging>,
    ) -> Result<NumberedPage<DatasetRunItem>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = about(project, tenant);
        let id = sql.bind_text(&run.id);
        let links = format!("FROM dataset_run_items l WHERE l.project_id = $1 AND l.run_id = {id}");
        sql.push(&format!(
            "FROM observations o JOIN traces t ON t.number = o.trace
              WHERE o.tenant = $2 AND o.experiment_id = {id}
                AND NOT EXISTS (SELECT 1 FROM dataset_run_items l WHERE l.project_id = $1
                     AND l.run_id = {id} AND l.trace_id = t.trace_id)"
        ));
        push_not_deleted(&mut sql);
        let spans = sql.text;
        let mut all = format!(
            "SELECT l.id, l.item_id, l.dataset_version, l.trace_id, l.observation_id, l.created_at,
                    l.updated_at, NULL AS detail {links}
             UNION ALL
             SELECT o.id, o.id, NULL, t.trace_id, o.id, o.started_at,
                    COALESCE(o.ended_at, o.started_at), o.detail {spans}
              ORDER BY created_at DESC, id DESC"
        );
        let mut n_total = None;
        if let Some(paging) = paging {
            all.push_str(&format!(" LIMIT {} OFFSET {}", paging.limit, paging.offset()));
            let count = format!("SELECT (SELECT COUNT(*) {links}) + (SELECT COUNT(*) {spans})");
            let counted: Vec<(i64,)> = self.pool.select(&count, &sql.args).await?;
            n_total = counted.first().map(|(n,)| n.unsigned_abs());
        }
        let rows: Vec<EntryRow> = self.pool.select(&all, &sql.args).await?;
        let items = rows.into_iter().map(|row| row.of(run));
        let items: Vec<DatasetRunItem> = items.collect::<Result<_, _>>()?;
        Ok(NumberedPage { n_total: n_total.unwrap_or(items.len() as u64), items })
    }
}
