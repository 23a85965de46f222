//! `GET P/export/traces`: the list of traces as a file. The parameters are those of the list.

use std::collections::HashMap;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::filter::member_at;
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::list::ListPosition;
use perpend_domain::payload::Payload;
use perpend_domain::score::{Score, Subject};
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_domain::usage::Side;
use perpend_http_kit::problem::Problem;
use perpend_views::urls::{Column, StandardColumn};
use perpend_views::{Columns, score_value, side_tokens, total_tokens};
use serde_json::{Value, json};

use crate::export::{
    ExportColumn, ExportFormat, ExportedList, ExportedPage, PAGE_ROWS, reject_faults, respond,
    seconds,
};
use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::{conditions, whole};
use crate::traces::lines::{MAX_CONTENT, MAX_SCORES, trace_of};
use crate::traces::params::TraceListParams;

/// Rows that are read at a time if they have inputs, outputs or metadata.
const PAGE_ROWS_WITH_CONTENT: u32 = 20;

struct ExportedTrace {
    trace: Trace,
    /// Scores of the trace and its observations, newest first, if a column needs them.
    scores: Vec<Score>,
}

type TraceColumn = ExportColumn<ExportedTrace>;

pub(crate) async fn export_traces(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let TraceListParams { query, notices, .. } = TraceListParams::new(raw.as_deref());
    let (parsed, conditions) = conditions(&query, read::start_of_minute(app.web.clock.now()));
    reject_faults(&[notices, viewer.faults].concat(), &parsed)?;
    let has_content = query.columns.iter().any(is_content);
    let list = TraceExport {
        app: app.clone(),
        project: viewer.project,
        query: TraceQuery {
            filter: whole(&conditions),
            order: query.sort.order.clone(),
            ascending: query.sort.ascending,
            limit: if has_content { PAGE_ROWS_WITH_CONTENT } else { PAGE_ROWS },
            with_content: has_content,
            max_content: MAX_CONTENT,
            ..TraceQuery::default()
        },
        has_scores: query.columns.iter().any(is_of_scores),
        position: ListPosition::default(),
    };
    respond(&app, ("traces", format), list, columns(&query.columns)).await
}

/// Whether the column needs the content of the root.
const fn is_content(column: &Column) -> bool {
    matches!(
        column,
        Column::Standard(StandardColumn::Input | StandardColumn::Output) | Column::Metadata(_)
    )
}

const fn is_of_scores(column: &Column) -> bool {
    matches!(column, Column::Standard(StandardColumn::Scores) | Column::Score(_))
}

struct TraceExport {
    app: App,
    project: ProjectId,
    query: TraceQuery,
    has_scores: bool,
    position: ListPosition,
}

impl TraceExport {
    async fn scores(&self, traces: &[Trace]) -> Result<HashMap<TraceId, Vec<Score>>, Problem> {
        let mut by_trace: HashMap<TraceId, Vec<Score>> = HashMap::new();
        if !self.has_scores {
            return Ok(by_trace);
        }
        let ids: Vec<TraceId> = traces.iter().map(|trace| trace.id.clone()).collect();
        let telemetry = &self.app.store.telemetry;
        for score in telemetry.newest_scores_of_traces(&self.project, &ids, MAX_SCORES).await? {
            if let Some(id) = trace_of(&score).cloned() {
                by_trace.entry(id).or_default().push(score);
            }
        }
        Ok(by_trace)
    }
}

impl ExportedList for TraceExport {
    type Row = ExportedTrace;

    async fn next_page(&mut self) -> Result<ExportedPage<ExportedTrace>, Problem> {
        let telemetry = &self.app.store.telemetry;
        let (query, position) = (&self.query, &self.position);
        let found = telemetry.traces_from(&self.project, query, position, read::LIST_BOUNDS);
        let page = found.await?;
        let traces: Vec<Trace> = page.items.into_iter().map(|stored| stored.trace).collect();
        let mut scores = self.scores(&traces).await?;
        let next = page.stopped.or(page.older);
        let is_last = next.is_none();
        self.position = next.map(ListPosition::after).unwrap_or_default();
        let row = |trace: Trace| {
            let scores = scores.remove(&trace.id).unwrap_or_default();
            ExportedTrace { trace, scores }
        };
        Ok(ExportedPage { rows: traces.into_iter().map(row).collect(), is_last })
    }
}

/// The columns of a file. Columns of the list with several values are several columns here.
fn columns(chosen: &Columns) -> Vec<TraceColumn> {
    let mut columns: Vec<TraceColumn> = Vec::new();
    for column in chosen.iter().flat_map(columns_of) {
        if columns.iter().all(|other| other.id() != column.id()) {
            columns.push(column);
        }
    }
    columns
}

fn columns_of(column: &Column) -> Vec<TraceColumn> {
    let id = column.name();
    match column {
        Column::Standard(StandardColumn::Trace) => vec![
            standard(StandardColumn::Id),
            TraceColumn::new("name", "Name", |row| row.trace.name.clone().into()),
        ],
        Column::Standard(StandardColumn::People) => {
            vec![standard(StandardColumn::User), standard(StandardColumn::Session)]
        }
        Column::Standard(known) => vec![standard(*known)],
        Column::Metadata(key) => {
            let (heading, key) = (id.clone(), key.clone());
            vec![TraceColumn::new(id, heading, move |row| {
                member_at(&row.trace.metadata, &key).cloned().unwrap_or_default()
            })]
        }
        Column::Score(name) => {
            let (heading, name) = (id.clone(), name.clone());
            vec![TraceColumn::new(id, heading, move |row| named_scores(&row.scores, &name))]
        }
    }
}

fn standard(known: StandardColumn) -> TraceColumn {
    let column = Column::Standard(known);
    let heading = match known {
        StandardColumn::Latency => "Latency (s)".to_owned(),
        StandardColumn::Cost => "Cost (USD)".to_owned(),
        _ => column.label().raw().to_owned(),
    };
    TraceColumn::new(column.name(), heading, move |row| standard_value(known, row))
}

fn standard_value(known: StandardColumn, row: &ExportedTrace) -> Value {
    let trace = &row.trace;
    let names = &trace.observation_names;
    let content = |value: &Option<Payload>| Value::from(value.as_ref().map(Payload::to_value));
    let [_, _, n_warnings, n_errors] = trace.n_by_level;
    match known {
        StandardColumn::Trace | StandardColumn::Id => trace.id.as_str().into(),
        StandardColumn::Started => trace.timestamp.to_iso_micros().into(),
        StandardColumn::Scores => row.scores.iter().map(score_summary).collect(),
        StandardColumn::Latency => seconds(trace.latency_us),
        StandardColumn::Tokens => total_tokens(&trace.usage).into(),
        StandardColumn::InputTokens => {
            side_tokens(&trace.usage, Side::Input).unwrap_or_default().into()
        }
        StandardColumn::OutputTokens => {
            side_tokens(&trace.usage, Side::Output).unwrap_or_default().into()
        }
        StandardColumn::Cost => trace.cost().known().into(),
        StandardColumn::Observations => trace.n_observations.into(),
        StandardColumn::Errors => n_errors.into(),
        StandardColumn::Warnings => n_warnings.into(),
        StandardColumn::Level => match (n_errors, n_warnings) {
            (1.., _) => "ERROR".into(),
            (0, 1..) => "WARNING".into(),
            (0, 0) => "DEFAULT".into(),
        },
        StandardColumn::Environment => trace.environment.as_str().into(),
        StandardColumn::People | StandardColumn::User => trace.user_id.clone().into(),
        StandardColumn::Session => trace.session_id.clone().into(),
        StandardColumn::Release => trace.release.clone().into(),
        StandardColumn::Version => trace.version.clone().into(),
        StandardColumn::Tags => trace.tags.clone().into(),
        StandardColumn::Models => names.models.clone().into(),
        StandardColumn::Kinds => names.kinds.clone().into(),
        StandardColumn::Prompts => names.prompts.clone().into(),
        StandardColumn::Input => content(&trace.input),
        StandardColumn::Output => content(&trace.output),
    }
}

/// A score in the column with all scores.
fn score_summary(score: &Score) -> Value {
    let written = &score.written;
    let mut summary = json!({ "name": written.name, "value": score_value(&written.value) });
    if let Subject::Observation(_, observation) = &written.subject {
        summary["observationId"] = observation.as_str().into();
    }
    summary
}

/// The value of the score of the trace itself with this name; a list if there are several.
fn named_scores(scores: &[Score], name: &str) -> Value {
    let is_own = |score: &&Score| {
        matches!(score.written.subject, Subject::Trace(_)) && score.written.name == name
    };
    let own = scores.iter().filter(is_own);
    let mut values: Vec<Value> = own.map(|score| score_value(&score.written.value)).collect();
    match values.len() {
        0 | 1 => values.pop().unwrap_or_default(),
        _ => values.into(),
    }
}
