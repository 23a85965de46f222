//! Experiments that clients recorded as spans: the spans that stand for their items.

use std::collections::HashMap;

use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::observation::{ExperimentLink, Level};
use assay_domain::time::Timestamp;
use serde::Deserialize;

use crate::catalog::{checked, from_json};
use crate::telemetry::db::Arg;
use crate::{Error, Store};

/// A span that stands for an item of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSpan {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub id: ObservationId,
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Option<Timestamp>,
    /// Its level.
    pub level: Level,
    /// Its environment.
    pub environment: String,
    /// What it says about the experiment.
    pub link: ExperimentLink,
}

/// Which spans.
#[derive(Clone, Debug, Default)]
pub struct SpanQuery {
    /// Started at or after.
    pub from: Option<Timestamp>,
    /// Started before.
    pub to: Option<Timestamp>,
    /// After this place in the list.
    pub after: Option<SpanCursor>,
    /// In this trace.
    pub trace_id: Option<TraceId>,
    /// At most so many.
    pub limit: u32,
}

/// The last span of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanCursor {
    /// Its start.
    pub start: Timestamp,
    /// Its trace.
    pub trace_id: String,
    /// Its id.
    pub id: String,
}

#[derive(sqlx::FromRow)]
struct SpanRow {
    trace_id: String,
    id: String,
    started_at: i64,
    ended_at: Option<i64>,
    level: String,
    environment: String,
    detail: String,
}

/// The only part of the text beside the columns that is looked at here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    experiment: Option<ExperimentLink>,
}

impl TryFrom<SpanRow> for ExperimentSpan {
    type Error = Error;

    fn try_from(row: SpanRow) -> Result<Self, Error> {
        let detail: Detail = from_json("observation", &row.detail)?;
        Ok(Self {
            trace_id: checked("observation", &row.trace_id)?,
            id: checked("observation", &row.id)?,
            start: Timestamp::from_micros(row.started_at),
            end: row.ended_at.map(Timestamp::from_micros),
            level: checked("observation", &row.level)?,
            environment: row.environment,
            link: detail.experiment.unwrap_or_default(),
        })
    }
}

/// As the index says it.
const IS_ITEM: &str =
    r#"replace(o.detail, '"item_root_observation_id":"' || o.id || '"', '') <> o.detail"#;
const DELETIONS: &str =
    "SELECT run_id, deleted_at FROM dataset_run_deletions WHERE project_id = $1";

impl Store {
    /// Spans that stand for items of experiments, the newest start first. What was recorded for a run
    /// before its deletion is left out, so a page may be shorter than the limit; `next` says whether
    /// there is more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn experiment_spans(
        &self,
        project: &ProjectId,
        query: &SpanQuery,
    ) -> Result<(Vec<ExperimentSpan>, Option<SpanCursor>), Error> {
        let mut args: Vec<Arg<'_>> = vec![project.as_str().into()];
        // One trace is found by its own index: all experiments of a project would be more to look at.
        let place = match &query.trace_id {
            Some(trace) => {
                args.push(trace.as_str().into());
                "o.trace = (SELECT number FROM traces WHERE trace_id = $2
                             AND tenant = (SELECT number FROM tenants WHERE project_id = $1))"
            }
            None => "o.tenant = (SELECT number FROM tenants WHERE project_id = $1)",
        };
        let mut sql = format!(
            "SELECT t.trace_id, o.id, o.started_at, o.ended_at, o.level, o.environment, o.detail
               FROM observations o JOIN traces t ON t.number = o.trace
              WHERE {place} AND {IS_ITEM}"
        );
        for (sign, at) in [(">=", query.from), ("<", query.to)] {
            if let Some(at) = at {
                args.push(at.as_micros().into());
                sql.push_str(&format!(" AND o.started_at {sign} ${}", args.len()));
            }
        }
        if let Some(after) = &query.after {
            args.push(after.start.as_micros().into());
            args.push(after.trace_id.as_str().into());
            args.push(after.id.as_str().into());
            let n = args.len();
            sql.push_str(&format!(
                " AND o.started_at <= ${a} AND (o.started_at < ${a} OR t.trace_id > ${b}
                   OR (t.trace_id = ${b} AND o.id > ${c}))",
                a = n - 2,
                b = n - 1,
                c = n
            ));
        }
        sql.push_str(&format!(
            " ORDER BY o.started_at DESC, t.trace_id, o.id LIMIT {}",
            query.limit
        ));
        let rows: Vec<SpanRow> = self.select(&sql, &args).await?;
        let next = match rows.last() {
            Some(last) if rows.len() == query.limit as usize => Some(SpanCursor {
                start: Timestamp::from_micros(last.started_at),
                trace_id: last.trace_id.clone(),
                id: last.id.clone(),
            }),
            _ => None,
        };
        let deleted = self.run_deletions(project).await?;
        let mut spans = Vec::with_capacity(rows.len());
        for row in rows {
            let span = ExperimentSpan::try_from(row)?;
            let gone = span.link.id.as_ref().and_then(|id| deleted.get(id));
            if span.link.id.is_some()
                && gone.is_none_or(|at| at.as_micros() < span.start.as_micros())
            {
                spans.push(span);
            }
        }
        Ok((spans, next))
    }

    async fn run_deletions(
        &self,
        project: &ProjectId,
    ) -> Result<HashMap<String, Timestamp>, Error> {
        let rows: Vec<(String, i64)> = self.select(DELETIONS, &[project.as_str().into()]).await?;
        let entry = |(id, at)| (id, Timestamp::from_micros(at));
        Ok(rows.into_iter().map(entry).collect())
    }
}
