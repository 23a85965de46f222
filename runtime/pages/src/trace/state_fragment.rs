//! `GET P/_/traces/{trace}/state`: identifies the stored state of a trace and its scores. Trace pages poll it, so it reads
//! two rows and the number of scores; observations only of a trace that has changed since the last summary.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{StateFragment, TraceState};

use crate::read::unknown_trace;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::head;
use crate::trace::page::TracePath;

pub(crate) async fn state_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<TracePath>,
) -> Result<Response, Problem> {
    let id = path.id()?;
    let telemetry = &app.store.telemetry;
    let version = telemetry.trace_version(&viewer.project, &id).await?;
    let version = version.ok_or_else(unknown_trace)?;
    let state = head::trace_state(&app, &viewer, &id).await?;
    let view = StateFragment {
        version: head::state_version(&app, &viewer, &id, version.revision).await?,
        is_live: state.as_ref().is_some_and(TraceState::is_live),
    };
    page(StatusCode::OK, &view)
}
