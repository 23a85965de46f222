//! Runs of experiments as a list with totals, whether they consist of spans, of links or of both.

use std::collections::{HashMap, HashSet};

use perpend_domain::experiment::{ExperimentRun, RunQuery, RunSummary, RunTotals};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{Cursor, Page};
use perpend_domain::telemetry::{ExperimentSummary, Period};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use super::linked::LINK_COUNTS;
use super::spans::{about, push_list, push_not_deleted};
use crate::{Error, Telemetry};
use perpend_db::{Sql, from_json};

/// Runs per statement.
const PER_STATEMENT: usize = 100;
/// Newest runs of spans whose datasets are read.
const MAX_NAMED: usize = 2_000;

perpend_db::record! {
    struct TotalsRow {
        id: String,
        n_items: i64,
        n_errors: i64,
        n_ended: i64,
        latency_us: Option<f64>,
        cost: Option<f64>,
    }
}

/// Totals by run, from rows that each summarize the results of one trace `t`.
fn totals_of(traces: &str) -> String {
    format!(
        "SELECT id, CAST(SUM(n_items) AS BIGINT) AS n_items, CAST(SUM(n_errors) AS BIGINT) AS n_errors,
                CAST(SUM(n_ended) AS BIGINT) AS n_ended, SUM(latency_us) AS latency_us, SUM(cost) AS cost
           FROM ({traces}) x GROUP BY id"
    )
}

/// Totals that are being added up.
#[derive(Clone, Copy, Default)]
struct Sums {
    totals: RunTotals,
    n_ended: u64,
    latency_us: f64,
}

impl Sums {
    fn add(&mut self, row: &TotalsRow) {
        self.totals.n_items += row.n_items.unsigned_abs();
        self.totals.n_errors += row.n_errors.unsigned_abs();
        self.n_ended += row.n_ended.unsigned_abs();
        self.latency_us += row.latency_us.unwrap_or_default();
        if let Some(cost) = row.cost {
            self.totals.cost_usd = Some(self.totals.cost_usd.unwrap_or_default() + cost);
        }
    }

    fn totals(mut self) -> RunTotals {
        let mean = self.latency_us / 1e3 / self.n_ended as f64;
        self.totals.mean_latency_ms = (0 < self.n_ended).then_some(mean);
        self.totals
    }
}

perpend_db::record! {
    struct ListedRunRow {
        id: String,
        name: String,
        description: Option<String>,
        metadata: String,
        dataset_id: String,
        dataset_name: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ListedRunRow> for ExperimentRun {
    type Error = Error;

    fn try_from(row: ListedRunRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            name: row.name,
            description: row.description,
            metadata: from_json("dataset run", &row.metadata)?,
            dataset_id: Some(row.dataset_id).filter(|id| !id.is_empty()),
            dataset_name: row.dataset_name,
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

fn of_spans(summary: ExperimentSummary) -> ExperimentRun {
    let link = summary.link;
    ExperimentRun {
        name: link.name.unwrap_or_else(|| summary.id.clone()),
        id: summary.id,
        description: link.description,
        metadata: link.metadata.unwrap_or(Value::Null),
        dataset_id: link.dataset_id,
        dataset_name: None,
        created_at: summary.start,
        updated_at: summary.end,
    }
}

impl Telemetry {
    /// A page of the runs of experiments with totals of their results, the newest run first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn experiment_runs(
        &self,
        project: &ProjectId,
        query: &RunQuery,
    ) -> Result<Page<RunSummary>, Error> {
        let runs = self.runs_after(project, query).await?;
        let page = Page::cut(runs, query.limit, |run| Cursor::new(run.created_at, run.id.clone()));
        let ids: Vec<&str> = page.items.iter().map(|run| run.id.as_str()).collect();
        let mut totals = self.run_totals(project, &ids).await?;
        let items = page
            .items
            .into_iter()
            .map(|run| RunSummary { totals: totals.remove(&run.id).unwrap_or_default(), run });
        Ok(Page { items: items.collect(), next: page.next })
    }

    /// The runs after the cursor, newest first; more than the limit if there are more.
    pub(super) async fn runs_after(
        &self,
        project: &ProjectId,
        query: &RunQuery,
    ) -> Result<Vec<ExperimentRun>, Error> {
        let heads = self.run_heads(project, query).await?;
        let mut runs: Vec<ExperimentRun> = Vec::new();
        let limit = query.limit as usize;
        for some in heads.chunks(limit + 1) {
            let ids: Vec<&str> = some.iter().map(|(_, id)| id.as_str()).collect();
            let mut found = self.runs_by_id(project, &ids).await?;
            let in_order = ids.iter().filter_map(|id| found.remove(*id));
            let dataset = query.dataset_id.as_deref();
            runs.extend(
                in_order.filter(|run| dataset.is_none() || run.dataset_id.as_deref() == dataset),
            );
            if limit < runs.len() {
                break;
            }
        }
        Ok(runs)
    }

    /// The newest runs, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn newest_runs(
        &self,
        project: &ProjectId,
        limit: u32,
    ) -> Result<Vec<ExperimentRun>, Error> {
        let sql = format!(
            "SELECT id, created_at FROM dataset_runs WHERE project_id = $1 \
             ORDER BY created_at DESC, id DESC LIMIT {limit}"
        );
        let stored: Vec<(String, i64)> = self.pool.select(&sql, &[project.as_str().into()]).await?;
        let mut heads: HashMap<String, Timestamp> =
            self.span_starts(project).await?.into_iter().collect();
        // The creation time of a stored run comes before the start of its first span.
        heads.extend(stored.into_iter().map(|(id, at)| (id, Timestamp::from_micros(at))));
        let mut heads: Vec<(Timestamp, String)> =
            heads.into_iter().map(|(id, at)| (at, id)).collect();
        heads.sort_unstable_by(|a, b| b.cmp(a));
        heads.truncate(limit as usize);
        let ids: Vec<&str> = heads.iter().map(|(_, id)| id.as_str()).collect();
        let mut found = self.runs_by_id(project, &ids).await?;
        Ok(ids.iter().filter_map(|id| found.remove(*id)).collect())
    }

    /// Names of runs of each dataset, at most `limit` of each: the newest stored ones, then the newest ones of spans.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_names_of_datasets(
        &self,
        project: &ProjectId,
        dataset_ids: &[&str],
        limit: u32,
    ) -> Result<HashMap<String, Vec<String>>, Error> {
        let mut names = self.dataset_run_names(project, dataset_ids, limit).await?;
        let mut of_spans = self.span_starts(project).await?;
        if of_spans.is_empty() {
            return Ok(names);
        }
        let stored = self.run_activity(project, None, Period::default()).await?;
        let stored: HashSet<&str> = stored.iter().map(|(id, ..)| id.as_str()).collect();
        of_spans.retain(|(id, _)| !stored.contains(id.as_str()));
        of_spans.sort_unstable_by(|(a, a_at), (b, b_at)| (b_at, b).cmp(&(a_at, a)));
        let ids: Vec<&str> = of_spans.iter().take(MAX_NAMED).map(|(id, _)| id.as_str()).collect();
        let mut found = self.runs_by_id(project, &ids).await?;
        for run in ids.iter().filter_map(|id| found.remove(*id)) {
            let dataset = run.dataset_id.filter(|id| dataset_ids.contains(&id.as_str()));
            let Some(dataset) = dataset else { continue };
            let of_dataset = names.entry(dataset).or_default();
            if of_dataset.len() < limit as usize {
                of_dataset.push(run.name);
            }
        }
        Ok(names)
    }

    /// The run with this id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn experiment_run(
        &self,
        project: &ProjectId,
        id: &str,
    ) -> Result<Option<ExperimentRun>, Error> {
        Ok(self.runs_by_id(project, &[id]).await?.remove(id))
    }

    /// Creation times and ids of the runs after the cursor, newest first. Runs of spans are of any dataset.
    async fn run_heads(
        &self,
        project: &ProjectId,
        query: &RunQuery,
    ) -> Result<Vec<(Timestamp, String)>, Error> {
        let all = Period::default();
        let spans = self.span_starts(project).await?;
        let linked = self.run_activity(project, query.dataset_id.as_deref(), all).await?;
        let mut heads: HashMap<String, Timestamp> = spans.into_iter().collect();
        // The creation time of a linked run comes before the start of its first span.
        heads.extend(linked.into_iter().map(|(id, created_at, _)| (id, created_at)));
        let mut heads: Vec<(Timestamp, String)> =
            heads.into_iter().map(|(id, at)| (at, id)).collect();
        if let Some(after) = &query.after {
            heads.retain(|(at, id)| (*at, id) < (after.at, &after.id));
        }
        heads.sort_unstable_by(|a, b| b.cmp(a));
        Ok(heads)
    }

    /// These runs by id, with the names of their datasets.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn runs_by_id(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<HashMap<String, ExperimentRun>, Error> {
        let mut found: HashMap<String, ExperimentRun> = HashMap::with_capacity(ids.len());
        for summary in self.span_experiments(project, ids, Period::default()).await? {
            let run = of_spans(summary);
            found.insert(run.id.clone(), run);
        }
        for some in ids.chunks(PER_STATEMENT) {
            let mut sql = Sql::default();
            sql.bind_text(project.as_str());
            sql.push(
                "SELECT r.id, r.name, r.description, r.metadata, r.dataset_id, d.name AS dataset_name,
                        r.created_at, r.updated_at
                   FROM dataset_runs r
                   LEFT JOIN datasets d ON d.project_id = r.project_id AND d.id = r.dataset_id
                  WHERE r.project_id = $1 AND r.id",
            );
            push_list(&mut sql, some.iter().copied());
            for row in self.pool.select::<ListedRunRow>(&sql.text, &sql.args).await? {
                let mut run = ExperimentRun::try_from(row)?;
                if let Some(spans) = found.remove(&run.id) {
                    run.description = run.description.or(spans.description);
                    run.dataset_id = run.dataset_id.or(spans.dataset_id);
                    run.updated_at = run.updated_at.max(spans.updated_at);
                    if run.metadata.is_null() {
                        run.metadata = spans.metadata;
                    }
                }
                found.insert(run.id.clone(), run);
            }
        }
        let of_spans: HashSet<String> = found
            .values()
            .filter(|run| run.dataset_name.is_none())
            .filter_map(|run| run.dataset_id.clone())
            .collect();
        let names = self.dataset_names(project, of_spans).await?;
        for run in found.values_mut().filter(|run| run.dataset_name.is_none()) {
            run.dataset_name = run.dataset_id.as_ref().and_then(|id| names.get(id)).cloned();
        }
        Ok(found)
    }

    /// The names of the existing ones of these datasets by id.
    async fn dataset_names(
        &self,
        project: &ProjectId,
        ids: HashSet<String>,
    ) -> Result<HashMap<String, String>, Error> {
        let ids: Vec<String> = ids.into_iter().collect();
        let mut names = HashMap::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let mut sql = Sql::default();
            sql.bind_text(project.as_str());
            sql.push("SELECT id, name FROM datasets WHERE project_id = $1 AND id");
            push_list(&mut sql, some.iter().map(String::as_str));
            let rows: Vec<(String, String)> = self.pool.select(&sql.text, &sql.args).await?;
            names.extend(rows);
        }
        Ok(names)
    }

    /// The totals of these runs by id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_totals(
        &self,
        project: &ProjectId,
        ids: &[&str],
    ) -> Result<HashMap<String, RunTotals>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        self.folder.of_tenant(tenant).await?;
        let mut sums: HashMap<String, Sums> = HashMap::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let mut spans = about(project, tenant);
            spans.push(
                "SELECT o.experiment_id AS id, COUNT(*) AS n_items,
                        SUM(CASE WHEN o.level = 'ERROR' THEN 1 ELSE 0 END) AS n_errors,
                        COUNT(CASE WHEN o.level <> 'ERROR' THEN o.ended_at END) AS n_ended,
                        SUM(CAST(CASE WHEN o.level <> 'ERROR' THEN o.ended_at - o.started_at END
                                 AS DOUBLE PRECISION)) AS latency_us,
                        MAX(CASE WHEN 0 < t.n_priced THEN t.total_cost END) AS cost
                   FROM observations o JOIN traces t ON t.number = o.trace
                  WHERE o.tenant = $2 AND o.experiment_id",
            );
            push_list(&mut spans, some.iter().copied());
            push_not_deleted(&mut spans);
            spans.push(" GROUP BY o.experiment_id, o.trace");
            let mut links = about(project, tenant);
            links.push(
                "SELECT l.run_id AS id, COUNT(*) AS n_items,
                        SUM(CASE WHEN COALESCE(o.level, t.level) = 'ERROR' THEN 1 ELSE 0 END) AS n_errors,
                        COUNT(CASE WHEN COALESCE(o.level, t.level) = 'ERROR' THEN NULL
                                   WHEN o.id IS NOT NULL THEN o.ended_at
                                   WHEN t.n_open = 0 THEN t.latency_us END) AS n_ended,
                        SUM(CAST(CASE WHEN COALESCE(o.level, t.level) = 'ERROR' THEN NULL
                                      WHEN o.id IS NOT NULL THEN o.ended_at - o.started_at
                                      WHEN t.n_open = 0 THEN t.latency_us END AS DOUBLE PRECISION))
                            AS latency_us,
                        MAX(CASE WHEN 0 < t.n_priced THEN t.total_cost END) AS cost
                   FROM dataset_run_items l
                   LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = l.trace_id
                   LEFT JOIN observations o ON o.trace = t.number AND o.id = l.observation_id
                  WHERE l.project_id = $1 AND l.run_id",
            );
            push_list(&mut links, some.iter().copied());
            links.push(&format!(" AND {LINK_COUNTS} GROUP BY l.run_id, l.trace_id"));
            for sql in [spans, links] {
                let rows: Vec<TotalsRow> =
                    self.pool.select(&totals_of(&sql.text), &sql.args).await?;
                for row in rows {
                    sums.entry(row.id.clone()).or_default().add(&row);
                }
            }
        }
        Ok(sums.into_iter().map(|(id, sums)| (id, sums.totals())).collect())
    }
}
