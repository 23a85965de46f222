//! Experiments that clients recorded as spans: the spans that represent their items.
//!
//! A span of an item has `experiment_id`, which leads to its experiment. Spans that were recorded for a run
//! before its deletion are not shown.

use perpend_domain::ids::ProjectId;
use perpend_domain::observation::ExperimentLink;
use perpend_domain::telemetry::{ExperimentSpan, ExperimentSummary, Period, SpanCursor, SpanQuery};
use perpend_domain::time::Timestamp;
use serde::Deserialize;

use crate::{Error, Telemetry};
use perpend_db::{Sql, checked, from_json};

/// Experiments per statement.
const PER_STATEMENT: usize = 100;

/// Appends ` AND ...` for a column of microseconds.
pub(super) fn push_period(sql: &mut Sql, period: Period, column: &str) {
    for (sign, at) in [(">=", period.from), ("<", period.to)] {
        if let Some(at) = at {
            let at = sql.bind(at.as_micros().into());
            sql.push(&format!(" AND {column} {sign} {at}"));
        }
    }
}

perpend_db::record! {
    struct SpanRow {
        trace_id: String,
        id: String,
        started_at: i64,
        ended_at: Option<i64>,
        level: String,
        environment: String,
        detail: String,
    }
}

/// The only part of the detail text that is read here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    experiment: Option<ExperimentLink>,
}

/// The experiment of a span.
pub(super) fn link_of(detail: &str) -> Result<ExperimentLink, Error> {
    let detail: Detail = from_json("observation", detail)?;
    Ok(detail.experiment.unwrap_or_default())
}

impl TryFrom<SpanRow> for ExperimentSpan {
    type Error = Error;

    fn try_from(row: SpanRow) -> Result<Self, Error> {
        Ok(Self {
            trace_id: checked("observation", &row.trace_id)?,
            id: checked("observation", &row.id)?,
            start: Timestamp::from_micros(row.started_at),
            end: row.ended_at.map(Timestamp::from_micros),
            level: checked("observation", &row.level)?,
            environment: row.environment,
            link: link_of(&row.detail)?,
        })
    }
}

perpend_db::record! {
    struct ExperimentRow {
        id: String,
        first_start: i64,
        last_end: i64,
        n_items: i64,
        detail: String,
    }
}

/// Appends ` IN (...)`.
pub(super) fn push_list<'a>(sql: &mut Sql, texts: impl Iterator<Item = &'a str>) {
    let places: Vec<String> = texts.map(|text| sql.bind_text(text)).collect();
    sql.push(&format!(" IN ({})", places.join(", ")));
}

/// Appends ` AND ...` for spans `o` that are not covered by a deletion of their run; `$1` is the project.
pub(super) fn push_not_deleted(sql: &mut Sql) {
    sql.push(
        " AND NOT EXISTS (SELECT 1 FROM dataset_run_deletions d WHERE d.project_id = $1 \
          AND d.run_id = o.experiment_id AND o.started_at <= d.deleted_at)",
    );
}

/// A statement whose first placeholder is the project and whose second one is its number.
pub(super) fn about(project: &ProjectId, tenant: i64) -> Sql {
    let mut sql = Sql::default();
    sql.bind_text(project.as_str());
    sql.bind(tenant.into());
    sql
}

impl Telemetry {
    /// Spans of items of experiments, by start descending. The cursor is present if there may be more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn experiment_spans(
        &self,
        project: &ProjectId,
        query: &SpanQuery,
    ) -> Result<(Vec<ExperimentSpan>, Option<SpanCursor>), Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok((Vec::new(), None));
        };
        let mut sql = about(project, tenant);
        sql.push(
            "SELECT t.trace_id, o.id, o.started_at, o.ended_at, o.level, o.environment, o.detail
               FROM observations o JOIN traces t ON t.number = o.trace
              WHERE o.tenant = $2 AND o.experiment_id",
        );
        match query.experiment_ids.as_slice() {
            [] => sql.push(" IS NOT NULL"),
            some => push_list(&mut sql, some.iter().map(String::as_str)),
        }
        push_period(&mut sql, query.period, "o.started_at");
        push_not_deleted(&mut sql);
        if let Some(after) = &query.after {
            let start = sql.bind(after.start.as_micros().into());
            let trace = sql.bind_text(&after.trace_id);
            let id = sql.bind_text(&after.id);
            sql.push(&format!(
                " AND o.started_at <= {start} AND (o.started_at < {start} OR t.trace_id > {trace}
                   OR (t.trace_id = {trace} AND o.id > {id}))"
            ));
        }
        sql.push(&format!(" ORDER BY o.started_at DESC, t.trace_id, o.id LIMIT {}", query.limit));
        let rows: Vec<SpanRow> = self.pool.select(&sql.text, &sql.args).await?;
        let next = match rows.last() {
            Some(last) if rows.len() == query.limit as usize => Some(SpanCursor {
                start: Timestamp::from_micros(last.started_at),
                trace_id: last.trace_id.clone(),
                id: last.id.clone(),
            }),
            _ => None,
        };
        let spans = rows.into_iter().map(ExperimentSpan::try_from);
        Ok((spans.collect::<Result<_, _>>()?, next))
    }

    /// The experiments with spans that started in a period, by id, each with its newest start in the period.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn span_activity(
        &self,
        project: &ProjectId,
        period: Period,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        self.span_times(project, period, "MAX").await
    }

    /// All experiments with spans, by id, each with the start of its first span.
    pub(super) async fn span_starts(
        &self,
        project: &ProjectId,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        self.span_times(project, Period::default(), "MIN").await
    }

    /// Skips from one experiment to the next in their index, so that the number of items does not matter.
    async fn span_times(
        &self,
        project: &ProjectId,
        period: Period,
        aggregate: &str,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = about(project, tenant);
        sql.push(&format!(
            "WITH RECURSIVE ids (id) AS (
               SELECT MIN(experiment_id) FROM observations
                WHERE tenant = $2 AND experiment_id IS NOT NULL
               UNION ALL
               SELECT (SELECT MIN(o.experiment_id) FROM observations o
                        WHERE o.tenant = $2 AND o.experiment_id > ids.id)
                 FROM ids WHERE ids.id IS NOT NULL)
             SELECT id, bound FROM (
               SELECT ids.id, (SELECT {aggregate}(o.started_at) FROM observations o
                                WHERE o.tenant = $2 AND o.experiment_id = ids.id"
        ));
        push_period(&mut sql, period, "o.started_at");
        push_not_deleted(&mut sql);
        sql.push(") AS bound FROM ids WHERE ids.id IS NOT NULL) a WHERE bound IS NOT NULL");
        let rows: Vec<(String, i64)> = self.pool.select(&sql.text, &sql.args).await?;
        let times = rows.into_iter();
        Ok(times.map(|(id, at)| (id, Timestamp::from_micros(at))).collect())
    }

    /// Totals of the spans of these experiments that started in a period; in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn span_experiments(
        &self,
        project: &ProjectId,
        ids: &[&str],
        period: Period,
    ) -> Result<Vec<ExperimentSummary>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut found: Vec<ExperimentSummary> = Vec::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let mut sql = about(project, tenant);
            sql.push(
                "SELECT s.id, s.first_start, s.last_end, s.n_items, n.detail
                   FROM (SELECT o.experiment_id AS id, MIN(o.started_at) AS first_start,
                                MAX(o.started_at) AS newest, COUNT(*) AS n_items,
                                MAX(COALESCE(o.ended_at, o.started_at)) AS last_end
                           FROM observations o WHERE o.tenant = $2 AND o.experiment_id",
            );
            push_list(&mut sql, some.iter().copied());
            push_period(&mut sql, period, "o.started_at");
            push_not_deleted(&mut sql);
            sql.push(
                " GROUP BY o.experiment_id) s
                   JOIN observations n ON n.tenant = $2 AND n.experiment_id = s.id
                                      AND n.started_at = s.newest
                  ORDER BY s.id, n.id",
            );
            let rows: Vec<ExperimentRow> = self.pool.select(&sql.text, &sql.args).await?;
            for row in rows {
                // Of several newest spans the first one counts.
                if found.last().is_some_and(|last| last.id == row.id) {
                    continue;
                }
                found.push(ExperimentSummary {
                    link: link_of(&row.detail)?,
                    id: row.id,
                    start: Timestamp::from_micros(row.first_start),
                    end: Timestamp::from_micros(row.last_end),
                    n_items: row.n_items.unsigned_abs(),
                });
            }
        }
        Ok(found)
    }
}
