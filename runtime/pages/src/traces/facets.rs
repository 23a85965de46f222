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
use crate::traces::conditions::Conditions;
use crate::traces::params::TraceListParams;

/// Traces that are counted.
const MAX_TRACES: u32 = 10_000;

/// Facets of the traces in the time range of the filter. Other conditions are ignored, so that all values are listed.
pub(crate) async fn facets(
    app: &App,
    viewer: &Viewer,
    query: &TracesQuery,
) -> Result<FacetsView, Problem> {
    let listed = Conditions::new(query, app.web.clock.now());
    let is_range =
        |condition: &Condition| condition.column.is_some_and(|own| own.id == "timestamp");
    let mut conditions = listed.parsed.filter.conditions;
    conditions.retain(is_range);
    conditions.extend(listed.others);
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
