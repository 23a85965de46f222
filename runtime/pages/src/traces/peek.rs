//! `GET P/_/traces/{trace}/peek`: one trace beside the list; `…/cell/{part}`: its input or output in its row.

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::TraceMark;
use perpend_domain::ids::TraceId;
use perpend_http_kit::problem::Problem;
use perpend_views::{CellPage, Peek, PeekInput, PeekPage, RejectedForm, ScoreView};
use serde::Deserialize;

use crate::read;
use crate::read::unknown;
use crate::request::reply::{laid_out, page};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::OfTrace;
use crate::traces::lines;
use crate::traces::params::Asked;

/// A trace beside the list at `close`, with a form of its tags that was not accepted, if any; an id that no trace can have is
/// one that none has.
pub(crate) async fn of(
    app: &App,
    viewer: &Viewer,
    (raw, tried): (&str, RejectedForm),
    close: String,
) -> Result<Peek, Problem> {
    let base = viewer.base();
    let trace = match TraceId::new(raw) {
        Ok(id) => read::whole(app, &viewer.project, &id).await?,
        Err(_) => None,
    };
    let Some(trace) = trace else {
        return Ok(Peek::unknown(base, close));
    };
    let telemetry = &app.store.telemetry;
    let own = telemetry.scores_about(&viewer.project, &trace.id, None).await?;
    let n_of_steps = telemetry.count_step_scores(&viewer.project, &trace.id).await?;
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
        line: lines::bare(&trace),
        trace: &trace,
        scores: scores.collect(),
        n_of_steps,
        may_mark: viewer.may(TraceMark),
        forms: viewer.kit().clone(),
        tried,
    }))
}

/// `GET P/_/traces/{trace}/peek`: the peek alone. The query is that of the list, where closing it leads to.
pub(crate) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    Path(of_trace): Path<OfTrace>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let asked = Asked::new(raw.as_deref());
    let close = asked.query.address(&viewer.base(), &asked.page);
    let id = of_trace.id()?;
    let peek = of(&app, &viewer, (id.as_str(), RejectedForm::default()), close).await?;
    if peek.is_unknown() {
        return Err(unknown());
    }
    page(StatusCode::OK, &PeekPage { peek })
}

/// Of which trace, and whether its input or its output.
#[derive(Debug, Deserialize)]
pub(crate) struct OfCell {
    trace: String,
    part: String,
}

/// `GET P/_/traces/{trace}/cell/{part}`: as much of the value as the peek shows of it.
pub(crate) async fn cell(
    State(app): State<App>,
    viewer: Viewer,
    Path(OfCell { trace, part }): Path<OfCell>,
) -> Result<Response, Problem> {
    let id = TraceId::new(&trace).map_err(|_| unknown())?;
    let found = read::whole(&app, &viewer.project, &id).await?;
    let found = found.ok_or_else(unknown)?;
    let value = match part.as_str() {
        "input" => found.input,
        "output" => found.output,
        _ => return Err(unknown()),
    };
    let base = viewer.base();
    let cell = laid_out(move || CellPage::new(value.as_ref(), &base, &trace, &part)).await?;
    page(StatusCode::OK, &cell)
}
