//! `GET P/export/traces`: the list of traces as a file. The parameters are those of the list.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::ListPosition;
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_views::{ChosenColumn, TRACE_ROWS, TraceLine};

use crate::export::{ExportFormat, ExportedList, ExportedPage, PAGE_ROWS, reject_faults, respond};
use crate::list::export::exported_columns;
use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::{conditions, whole};
use crate::traces::lines::{self, MAX_CONTENT};
use crate::traces::params::TraceListParams;

/// Rows that are read at a time if they have inputs, outputs or metadata.
const PAGE_ROWS_WITH_CONTENT: u32 = 20;

pub(crate) async fn export_traces(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let TraceListParams { query, notices, .. } = TraceListParams::new(raw.as_deref());
    let (parsed, conditions) = conditions(&query, read::start_of_minute(app.web.clock.now()));
    reject_faults(&[notices, viewer.faults].concat(), &parsed)?;
    let (columns, _) = TRACE_ROWS.choose(&query.columns.to_parameter());
    let has_content = columns.iter().any(is_content);
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
        has_scores: columns.iter().any(is_of_scores),
        position: ListPosition::default(),
    };
    respond(&app, ("traces", format), list, exported_columns(&columns)).await
}

/// Whether the column needs the content of the root.
fn is_content(column: &ChosenColumn<TraceLine>) -> bool {
    let id = column.id();
    matches!(&*id, "input" | "output") || id.starts_with("metadata.")
}

fn is_of_scores(column: &ChosenColumn<TraceLine>) -> bool {
    let id = column.id();
    id == "scores" || id.starts_with("score.")
}

struct TraceExport {
    app: App,
    project: ProjectId,
    query: TraceQuery,
    has_scores: bool,
    position: ListPosition,
}

impl ExportedList for TraceExport {
    type Row = TraceLine;

    async fn next_page(&mut self) -> Result<ExportedPage<TraceLine>, Problem> {
        let telemetry = &self.app.store.telemetry;
        let (query, position) = (&self.query, &self.position);
        let found = telemetry.traces_from(&self.project, query, position, read::LIST_BOUNDS);
        let page = found.await?;
        let traces: Vec<Trace> = page.items.into_iter().map(|stored| stored.trace).collect();
        let scores = match self.has_scores {
            true => lines::scores_of(&self.app, &self.project, &traces).await?,
            false => traces.iter().map(|_| Vec::new()).collect(),
        };
        let next = page.stopped.or(page.older);
        let is_last = next.is_none();
        self.position = next.map(ListPosition::after).unwrap_or_default();
        let rows = traces.into_iter().zip(scores);
        let rows = rows.map(|(trace, scores)| lines::file_line(trace, scores)).collect();
        Ok(ExportedPage { rows, is_last })
    }
}
