//! A trace shown next to the list; `GET P/_/traces/{trace}/cell/{part}`: its input or output for its row.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::TraceMark;
use perpend_domain::ids::TraceId;
use perpend_http_kit::problem::Problem;
use perpend_views::{CellPage, Peek, PeekInput, RejectedForm, ScoreView};
use serde::Deserialize;

use crate::read;
use crate::read::unknown_trace;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::lines;

/// A trace shown next to the list at `close`, with a rejected form of its tags, if any. An invalid id counts as unknown.
pub(crate) async fn peek(
    app: &App,
    viewer: &Viewer,
    (raw, tried): (&str, RejectedForm),
    close: String,
) -> Result<Peek, Problem> {
    let base = viewer.base();
    let trace = match TraceId::new(raw) {
        Ok(id) => read::trace_with_content(app, &viewer.project, &id).await?,
        Err(_) => None,
    };
    let Some(trace) = trace else {
        return Ok(Peek::unknown(base, close));
    };
    let telemetry = &app.store.telemetry;
    let own = telemetry.scores_about(&viewer.project, &trace.id, None).await?;
    let n_of_steps = telemetry.count_observation_scores(&viewer.project, &trace.id).await?;
    let own = own.iter().map(|score| &score.written);
    let scores = own.map(|written| {
        let (value, source) = (&written.value, written.source);
        ScoreView::new(&written.name, value, source, written.timestamp)
            .comment(written.comment.as_deref())
            .metadata(&written.metadata)
    });
    Ok(Peek::new(PeekInput {
        base,
        close,
        line: lines::line_without_scores(&trace),
        trace: &trace,
        scores: scores.collect(),
        n_observation_scores: n_of_steps,
        may_mark: viewer.may(TraceMark),
        forms: viewer.form_context().clone(),
        rejected_form: tried,
    }))
}

/// The trace id, and `input` or `output`.
#[derive(Debug, Deserialize)]
pub(crate) struct CellPath {
    trace: String,
    part: String,
}

/// `GET P/_/traces/{trace}/cell/{part}`: the beginning of the value, as in the peek.
pub(crate) async fn cell_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(CellPath { trace, part }): Path<CellPath>,
) -> Result<Response, Problem> {
    let id = TraceId::new(&trace).map_err(|_| unknown_trace())?;
    let found = read::trace_with_content(&app, &viewer.project, &id).await?;
    let found = found.ok_or_else(unknown_trace)?;
    let value = match part.as_str() {
        "input" => found.input,
        "output" => found.output,
        _ => return Err(unknown_trace()),
    };
    let base = viewer.base();
    let cell =
        on_blocking_thread(move || CellPage::new(value.as_ref(), &base, &trace, &part)).await?;
    page(StatusCode::OK, &cell)
}
