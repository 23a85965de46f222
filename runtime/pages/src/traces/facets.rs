//! `GET P/_/traces/facets`: values of some columns with the number of newest traces that have each.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Condition, Filter};
use perpend_http_kit::problem::Problem;
use perpend_views::{FacetsPage, FacetsView, TracesQuery};

use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::conditions::{conditions, whole};
use crate::traces::params::TraceListParams;

/// Traces that are counted.
const MAX_TRACES: u32 = 10_000;

/// Facets of the traces in the time range of the filter. Other conditions are ignored, so that all values are listed.
pub(crate) async fn facets(
    app: &App,
    viewer: &Viewer,
    query: &TracesQuery,
) -> Result<FacetsView, Problem> {
    let (parsed, listed) = conditions(query, app.web.clock.now());
    let is_range =
        |condition: &Condition| condition.column.is_some_and(|own| own.id == "timestamp");
    let n_typed = parsed.filter.conditions.len();
    let all = whole(&listed).conditions.into_iter().enumerate();
    // The conditions after those of the text are the time range and the environments.
    let kept = all.filter(|(at, condition)| n_typed <= *at || is_range(condition));
    let conditions = kept.map(|(_, condition)| condition).collect();
    let telemetry = &app.store.telemetry;
    let filter = Filter { conditions };
    let found = telemetry.trace_facets(&viewer.project, &filter, MAX_TRACES);
    Ok(FacetsView::new(&found.await?, query, &viewer.base()))
}

/// `GET P/_/traces/facets`: the panel, with the query parameters of the list.
pub(crate) async fn facets_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let params = TraceListParams::new(raw.as_deref());
    let facets = facets(&app, &viewer, &params.query).await?;
    page(StatusCode::OK, &FacetsPage { facets })
}
