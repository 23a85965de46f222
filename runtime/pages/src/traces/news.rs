//! `GET P/_/news?since=&received=`: the number of traces that started after `since` or were received after `received`, in the time
//! range and environments of the list. Pages poll it, so it reads bounded ranges of two indexes. The other parameters are those
//! of the list, which the response links to.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::NewTraceFilter;
use perpend_views::NewsFragment;
use serde::Deserialize;

use crate::list::news::{MAX_NEWS, instant, news_response, received};
use crate::list::source::{ListRequest, ListScope, ListSource as _};
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::list::Traces;

/// Singular and plural for lists of traces.
pub(crate) const TRACES: [&str; 2] = ["new trace", "new traces"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewsParams {
    since: String,
    received: String,
}

pub(crate) async fn news_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(params): Query<NewsParams>,
) -> Result<Response, Problem> {
    let now = app.web.clock.now();
    let request = ListRequest::<Traces>::new(ListScope { app, viewer }, raw.as_deref())?;
    let ListScope { app, viewer } = &request.scope;
    let since = NewTraceFilter {
        started: instant("since", &params.since)?,
        received: received(&params.received, now)?,
        within: viewer.focus.range(now),
        among: request.conditions.environment_filter(),
    };
    let telemetry = &app.store.telemetry;
    let counted = telemetry.traces_since(&viewer.project, since, MAX_NEWS);
    let (n, is_cut) = counted.await?;
    let view = NewsFragment {
        n,
        is_cut,
        nouns: TRACES,
        is_filtered: !request.q.is_empty(),
        is_sorted: request.source.order_parameter().is_some(),
        list: request.links_with(&Traces::default()).first(),
    };
    news_response(&view, now)
}
