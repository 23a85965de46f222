//! `GET P/_/news?since=&received=`: the number of traces that started after `since` or were received after `received`, in the time
//! range and environments of the list. Pages poll it, so it reads bounded ranges of two indexes. The other parameters are those
//! of the list, which the response links to.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::{EnvironmentFilter, NewTraceFilter};
use perpend_views::NewsFragment;
use serde::Deserialize;

use crate::list::params::ListRequest;
use crate::list::source::{ListScope, ListSource as _};
use crate::read;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::list::Traces;

/// New rows that are counted.
pub(crate) const MAX_NEWS: u32 = 1_000;
/// The earliest accepted `received`, relative to now.
const MAX_BACK_MS: i64 = 3_600_000;
/// Singular and plural for lists of traces.
pub(crate) const TRACES: [&str; 2] = ["new trace", "new traces"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewsParams {
    since: String,
    received: String,
}

/// Header with the time of the response, which is the next `received` parameter.
const NOW: HeaderName = HeaderName::from_static("perpend-now");

fn instant(name: &'static str, text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(text).map_err(|error| Problem::query(name, error.to_string()))
}

/// Rows received after this instant are new. Limited to the last hour, because the changes of all projects since then are
/// read. Absent in the first request of a page, which only gets the current time.
pub(crate) fn received(text: &str, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    match text {
        "" => Ok(None),
        text => Ok(Some(instant("received", text)?.max(now.plus_millis(-MAX_BACK_MS)))),
    }
}

/// The response with its time in a header.
pub(crate) fn news_response(view: &NewsFragment, now: Timestamp) -> Result<Response, Problem> {
    let mut response = page(StatusCode::OK, view)?;
    if let Ok(now) = HeaderValue::from_str(&now.to_iso_micros()) {
        response.headers_mut().insert(NOW, now);
    }
    Ok(response)
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
        among: match viewer.focus.environments.as_slice() {
            [] => EnvironmentFilter::Without(&read::INTERNAL_ENVIRONMENTS),
            chosen => EnvironmentFilter::Only(chosen),
        },
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
