//! Parts of the list of traces that are loaded later, each with the query parameters of the list.

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{FacetsPage, PeekPage, RejectedForm, TrendPage};

use crate::list::source::{ListRequest, ListScope};
use crate::read::unknown_trace;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::page::TracePath;
use crate::traces::list::{Traces, query_of};
use crate::traces::{bars, facets, peek};

/// `GET P/_/traces/bars`: the chart, with the query parameters of the list.
pub(crate) async fn bars_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<Traces>::new(ListScope { app, viewer }, raw.as_deref())?;
    let ListScope { app, viewer } = &request.scope;
    let trend = bars::traces_over_time(app, viewer, &query_of(&request)).await?;
    page(StatusCode::OK, &TrendPage { trend })
}

/// `GET P/_/traces/facets`: the panel, with the query parameters of the list.
pub(crate) async fn facets_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<Traces>::new(ListScope { app, viewer }, raw.as_deref())?;
    let facets = facets::facets(&request, &query_of(&request)).await?;
    page(StatusCode::OK, &FacetsPage { facets })
}

/// `GET P/_/traces/{trace}/peek`: the fragment, with the query parameters of the list that closing it returns to.
pub(crate) async fn peek_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(of_trace): Path<TracePath>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<Traces>::new(ListScope { app, viewer }, raw.as_deref())?;
    let ListScope { app, viewer } = &request.scope;
    let id = of_trace.id()?;
    let shown = (id.as_str(), RejectedForm::default());
    let peek = peek::peek(app, viewer, shown, request.url()).await?;
    if peek.is_unknown() {
        return Err(unknown_trace());
    }
    page(StatusCode::OK, &PeekPage { peek })
}
