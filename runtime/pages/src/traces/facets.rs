//! Values of some columns with the number of newest traces that have each.

use perpend_domain::filter::{Condition, Filter};
use perpend_http_kit::problem::Problem;
use perpend_views::{FacetsView, TracesQuery};

use crate::list::source::{ListRequest, ListSource};

/// Traces that are counted.
const MAX_TRACES: u32 = 10_000;

/// Facets of the traces in the time range of the filter, with links to the list of `query`. Other conditions are ignored, so that
/// all values are listed.
pub(crate) async fn facets<L: ListSource>(
    request: &ListRequest<L>,
    query: &TracesQuery,
) -> Result<FacetsView, Problem> {
    let is_range =
        |condition: &Condition| condition.column.is_some_and(|own| own.id == L::TIME_COLUMN);
    let n_typed = request.parsed.filter.conditions.len();
    let all = request.whole().conditions.into_iter().enumerate();
    // The conditions after those of the text are the time range and the environments.
    let kept = all.filter(|(at, condition)| n_typed <= *at || is_range(condition));
    let conditions = kept.map(|(_, condition)| condition).collect();
    let (telemetry, project) = request.scope.telemetry();
    let filter = Filter { conditions };
    let found = telemetry.trace_facets(project, &filter, MAX_TRACES).await?;
    Ok(FacetsView::new(&found, query, &request.scope.viewer.base()))
}
