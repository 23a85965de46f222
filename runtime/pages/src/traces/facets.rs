//! `GET P/_/traces/facets`: values of some columns with the number of newest traces that have each.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{Condition, Filter};
use perpend_http_kit::problem::Problem;
use perpend_views::{FacetsPage, FacetsView};

use crate::list::params::ListRequest;
use crate::list::source::{ListScope, ListSource as _};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::list::{Traces, query_of};

/// Traces that are counted.
const MAX_TRACES: u32 = 10_000;

/// Facets of the traces in the time range of the filter. Other conditions are ignored, so that all values are listed.
pub(crate) async fn facets(request: &ListRequest<Traces>) -> Result<FacetsView, Problem> {
    let is_range =
        |condition: &Condition| condition.column.is_some_and(|own| own.id == Traces::TIME_COLUMN);
    let n_typed = request.parsed.filter.conditions.len();
    let all = request.whole().conditions.into_iter().enumerate();
    // The conditions after those of the text are the time range and the environments.
    let kept = all.filter(|(at, condition)| n_typed <= *at || is_range(condition));
    let conditions = kept.map(|(_, condition)| condition).collect();
    let (telemetry, project) = request.scope.telemetry();
    let filter = Filter { conditions };
    let found = telemetry.trace_facets(project, &filter, MAX_TRACES).await?;
    Ok(FacetsView::new(&found, &query_of(request), &request.scope.viewer.base()))
}

/// `GET P/_/traces/facets`: the panel, with the query parameters of the list.
pub(crate) async fn facets_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let request = ListRequest::<Traces>::new(ListScope { app, viewer }, raw.as_deref())?;
    page(StatusCode::OK, &FacetsPage { facets: facets(&request).await? })
}
