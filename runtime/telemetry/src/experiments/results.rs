//! The results of a run: its spans and its links, with figures of their traces and their scores.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use perpend_domain::experiment::{
    ExperimentRun, ItemResult, RunResults, RunScore, expected_output_digest,
};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::observation::ExperimentLink;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use super::items::ROOT_OF_TRACE;
use super::linked::LINK_COUNTS;
use super::spans::{about, link_of, push_not_deleted};
use crate::scores::score_value;
use crate::{Error, Telemetry};
use perpend_db::{Record as _, Row, Scratch, Sql, charge, checked, from_json, query};

/// Cost and tokens of the trace `t`.
const USAGE: &str = "CASE WHEN 0 < t.n_priced THEN t.total_cost END AS total_cost,
    CASE WHEN t.number IS NOT NULL THEN t.total_tokens END AS total_tokens";

perpend_db::record! {
    struct RunRow {
        name: String,
        description: Option<String>,
        metadata: String,
        dataset_id: String,
        created_at: i64,
        updated_at: i64,
    }
}

perpend_db::record! {
    struct FigureRow {
        trace_id: String,
        observation_id: Option<String>,
        started_at: i64,
        changed_at: i64,
        is_error: i32,
        latency_us: Option<i64>,
        total_cost: Option<f64>,
        total_tokens: Option<i64>,
    }
}

perpend_db::record! {
    struct LinkResultRow {
        item_id: String,
        dataset_version: Option<i64>,
        has_arrived: i32,
        root_id: Option<String>,
        figures: FigureRow,
    }
}

perpend_db::record! {
    struct SpanResultRow {
        detail: String,
        figures: FigureRow,
    }
}

perpend_db::record! {
    struct ScoreCells {
        name: String,
        data_type: String,
        number: Option<f64>,
        text: Option<String>,
        comment: Option<String>,
    }
}

const SCORE_CELLS: &str = "s.name, s.data_type, s.number, s.text, s.comment";

impl FigureRow {
    fn result(self, item_id: String, item_version: Option<Timestamp>) -> Result<ItemResult, Error> {
        let observation = self.observation_id.as_deref();
        Ok(ItemResult {
            item_id,
            item_version,
            expected_output: None,
            trace_id: checked("run item", &self.trace_id)?,
            observation_id: observation.map(|id| checked("run item", id)).transpose()?,
            start: Timestamp::from_micros(self.started_at),
            has_arrived: true,
            is_error: self.is_error != 0,
            latency_ms: self.latency_us.map(|micros| micros.max(0) as f64 / 1e3),
            cost_usd: self.total_cost,
            n_tokens: self.total_tokens.map(i64::unsigned_abs),
            scores: Vec::new(),
        })
    }
}

/// The results that were read, and the data of the run that follow from them.
#[derive(Default)]
struct Collected {
    results: Vec<ItemResult>,
    /// Attempt and number of the result of an item and repetition, if the span has them.
    attempts: HashMap<(String, u32), (u32, usize)>,
    /// The roots of traces that are linked as a whole.
    roots: HashMap<String, String>,
    /// Number of results by trace.
    n_results: HashMap<TraceId, u32>,
    /// Start and attributes of the newest span.
    newest: Option<(Timestamp, ExperimentLink)>,
    changed_at: Option<Timestamp>,
}

impl Collected {
    fn add(&mut self, result: ItemResult, changed_at: i64) -> Result<(), Error> {
        charge(size_of::<ItemResult>() + result.item_id.len())?;
        let changed_at = Timestamp::from_micros(changed_at);
        self.changed_at = Some(self.changed_at.map_or(changed_at, |at| at.max(changed_at)));
        self.results.push(result);
        Ok(())
    }

    fn add_link(&mut self, row: LinkResultRow) -> Result<(), Error> {
        let version = row.dataset_version.map(Timestamp::from_micros);
        let changed_at = row.figures.changed_at;
        if let Some(root) = row.root_id {
            self.roots.insert(row.figures.trace_id.clone(), root);
        }
        let mut result = row.figures.result(row.item_id, version)?;
        result.has_arrived = row.has_arrived != 0;
        self.add(result, changed_at)
    }

    fn add_span(&mut self, row: SpanResultRow) -> Result<(), Error> {
        let changed_at = row.figures.changed_at;
        let (result, repetition, attempt) = {
            let _scratch = Scratch::begin();
            let mut link = link_of(&row.detail)?;
            let item_id = link.item_id.take().or_else(|| row.figures.observation_id.clone());
            let mut result = row.figures.result(item_id.unwrap_or_default(), link.item_version)?;
            let expected = link.item_expected_output.take().map(|payload| payload.to_value());
            result.expected_output = expected.as_ref().and_then(expected_output_digest);
            let (repetition, attempt) = (link.repetition, link.attempt);
            if self.newest.as_ref().is_none_or(|(start, _)| *start < result.start) {
                self.newest = Some((result.start, link));
            }
            (result, repetition, attempt)
        };
        match (repetition, attempt) {
            (None, None) => self.add(result, changed_at),
            _ => self.add_attempt(
                result,
                (repetition.unwrap_or(0), attempt.unwrap_or(0)),
                changed_at,
            ),
        }
    }

    /// Adds a result unless there is one of a higher attempt, and replaces one of a lower attempt.
    fn add_attempt(
        &mut self,
        result: ItemResult,
        (repetition, attempt): (u32, u32),
        changed_at: i64,
    ) -> Result<(), Error> {
        match self.attempts.entry((result.item_id.clone(), repetition)) {
            Entry::Vacant(first) => {
                first.insert((attempt, self.results.len()));
                self.add(result, changed_at)
            }
            Entry::Occupied(mut known) => {
                let (latest, at) = *known.get();
                // Of equal attempts the newest one counts: spans are read by start.
                if latest <= attempt {
                    known.insert((attempt, at));
                    self.results[at] = result;
                }
                Ok(())
            }
        }
    }

    /// Results of one trace share its cost and its tokens.
    fn share_usage(&mut self) {
        for result in &self.results {
            *self.n_results.entry(result.trace_id.clone()).or_default() += 1;
        }
        for result in &mut self.results {
            let share = self.n_results.get(&result.trace_id).copied().unwrap_or(1);
            if 1 < share {
                result.cost_usd = result.cost_usd.map(|cost| cost / f64::from(share));
                result.n_tokens = result.n_tokens.map(|tokens| tokens / u64::from(share));
            }
        }
    }

    fn run(&mut self, id: &str, stored: Option<RunRow>) -> Result<ExperimentRun, Error> {
        let (_, span) = self.newest.take().unwrap_or_default();
        let first = self.results.iter().map(|result| result.start).min().unwrap_or_default();
        let last = self.changed_at.unwrap_or(first);
        let metadata = span.metadata.unwrap_or(Value::Null);
        Ok(match stored {
            Some(row) => ExperimentRun {
                id: id.to_owned(),
                name: row.name,
                description: row.description.or(span.description),
                metadata: match from_json("dataset run", &row.metadata)? {
                    Value::Null => metadata,
                    stored => stored,
                },
                dataset_id: Some(row.dataset_id).filter(|id| !id.is_empty()).or(span.dataset_id),
                dataset_name: None,
                created_at: Timestamp::from_micros(row.created_at),
                updated_at: Timestamp::from_micros(row.updated_at).max(last),
            },
            None => ExperimentRun {
                id: id.to_owned(),
                name: span.name.unwrap_or_else(|| id.to_owned()),
                description: span.description,
                metadata,
                dataset_id: span.dataset_id,
                dataset_name: None,
                created_at: first,
                updated_at: last,
            },
        })
    }
}

/// A statement whose placeholders are the project, its number and the id of a run.
fn about_run(project: &ProjectId, tenant: i64, run_id: &str) -> Sql {
    let mut sql = about(project, tenant);
    sql.bind_text(run_id);
    sql
}

impl Telemetry {
    /// The run with the results of its items, from spans and links, oldest first. `expected_items`, the name
    /// of the dataset and the expected outputs of links are not set: `Store::run_results` adds them.
    ///
    /// # Errors
    /// When the database fails, or the results exceed the memory of the request.
    pub async fn run_results(
        &self,
        project: &ProjectId,
        run_id: &str,
    ) -> Result<Option<RunResults>, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        self.folder.of_tenant(tenant).await?;
        let mut stored: Vec<RunRow> = query(
            "SELECT r.name, r.description, r.metadata, r.dataset_id, r.created_at, r.updated_at
               FROM dataset_runs r WHERE r.project_id = $1 AND r.id = $2",
        )
        .bind(project.as_str())
        .bind(run_id)
        .fetch_all(&self.pool)
        .await?;
        let mut collected = Collected::default();
        self.collect_spans(project, (tenant, run_id), &mut collected).await?;
        self.collect_links(project, (tenant, run_id), &mut collected).await?;
        if stored.is_empty() && collected.results.is_empty() {
            return Ok(None);
        }
        collected.share_usage();
        let run = collected.run(run_id, stored.pop())?;
        let Collected { results: mut items, roots, n_results, .. } = collected;
        items.sort_by(|a, b| {
            let order = a.start.cmp(&b.start).then_with(|| a.trace_id.cmp(&b.trace_id));
            order.then_with(|| a.observation_id.cmp(&b.observation_id))
        });
        let mut scores = self.item_scores(project, (tenant, run_id)).await?;
        for item in &mut items {
            let trace = item.trace_id.as_str();
            let root = roots.get(trace).map(String::as_str);
            let is_shared = n_results.get(&item.trace_id).is_some_and(|n| 1 < *n);
            item.scores = scores.take(item, root, is_shared);
        }
        let scores = self.run_scores(project, run_id).await?;
        Ok(Some(RunResults { run, expected_items: None, items, scores }))
    }

    async fn collect_spans(
        &self,
        project: &ProjectId,
        (tenant, run_id): (i64, &str),
        collected: &mut Collected,
    ) -> Result<(), Error> {
        let mut sql = about_run(project, tenant, run_id);
        sql.push(&format!(
            "SELECT o.detail, t.trace_id, o.id AS observation_id, o.started_at,
                    COALESCE(o.ended_at, o.started_at) AS changed_at,
                    CASE WHEN o.level = 'ERROR' THEN 1 ELSE 0 END AS is_error,
                    o.ended_at - o.started_at AS latency_us, {USAGE}
               FROM observations o JOIN traces t ON t.number = o.trace
              WHERE o.tenant = $2 AND o.experiment_id = $3"
        ));
        push_not_deleted(&mut sql);
        sql.push(" ORDER BY o.started_at, t.trace_id, o.id");
        let put = &mut |row: Row| collected.add_span(SpanResultRow::read(&row)?);
        query(sql.text).bind_all(&sql.args).each(&self.pool, put).await
    }

    async fn collect_links(
        &self,
        project: &ProjectId,
        (tenant, run_id): (i64, &str),
        collected: &mut Collected,
    ) -> Result<(), Error> {
        let mut sql = about_run(project, tenant, run_id);
        // An observation that has not arrived is represented by its trace.
        sql.push(&format!(
            "SELECT l.item_id, l.dataset_version, CASE WHEN t.number IS NULL THEN 0 ELSE 1 END AS has_arrived,
                    CASE WHEN l.observation_id IS NULL THEN {ROOT_OF_TRACE} END AS root_id, l.trace_id, l.observation_id,
                    COALESCE(o.started_at, t.started_at, l.created_at) AS started_at,
                    l.updated_at AS changed_at,
                    CASE WHEN COALESCE(o.level, t.level) = 'ERROR' THEN 1 ELSE 0 END AS is_error,
                    CASE WHEN o.id IS NOT NULL THEN o.ended_at - o.started_at
                         WHEN t.n_open = 0 THEN t.latency_us END AS latency_us, {USAGE}
               FROM dataset_run_items l
               LEFT JOIN traces t ON t.tenant = $2 AND t.trace_id = l.trace_id
               LEFT JOIN observations o ON o.trace = t.number AND o.id = l.observation_id
              WHERE l.project_id = $1 AND l.run_id = $3 AND {LINK_COUNTS}"
        ));
        let put = &mut |row: Row| collected.add_link(LinkResultRow::read(&row)?);
        query(sql.text).bind_all(&sql.args).each(&self.pool, put).await
    }

    async fn run_scores(&self, project: &ProjectId, run_id: &str) -> Result<Vec<RunScore>, Error> {
        let sql = format!(
            "SELECT {SCORE_CELLS} FROM scores s WHERE s.project_id = $1 AND s.experiment_id = $2
              ORDER BY s.timestamp, s.id"
        );
        let rows: Vec<ScoreCells> =
            query(sql).bind(project.as_str()).bind(run_id).fetch_all(&self.pool).await?;
        let score = |row: ScoreCells| -> Result<RunScore, Error> {
            let value = score_value(row.number, row.text, &row.data_type)?;
            Ok(RunScore { name: row.name, value, comment: row.comment })
        };
        rows.into_iter().map(score).collect()
    }
}
