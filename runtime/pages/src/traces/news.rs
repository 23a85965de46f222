//! `GET P/_/news?since=&received=`: the number of traces that are newer than the newest one on a page, or came after the first
//! question, in its time and its environments. Pages poll it, so it reads bounded ranges of two indexes. The other parameters are
//! those of the list, which the answer links to.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::{Among, Since};
use perpend_views::{NewsFragment, Sort, TracesQuery};
use serde::Deserialize;

use crate::read;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::params::TraceListParams;

/// What came is counted so far.
pub(crate) const AT_MOST: u32 = 1_000;
const MAX_BACK_MS: i64 = 3_600_000;
/// What is new where traces are listed: one, and several.
pub(crate) const TRACES: [&str; 2] = ["new trace", "new traces"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewsParams {
    since: String,
    received: String,
}

/// The instant of the answer: what is sent as `received` next time.
const NOW: HeaderName = HeaderName::from_static("perpend-now");

fn instant(name: &'static str, text: &str) -> Result<Timestamp, Problem> {
    Timestamp::parse(text).map_err(|error| Problem::query(name, error.to_string()))
}

/// What is received after this instant is new. It is at most an hour ago, because the changes of all projects since then are
/// read. None at the first request of a page, which only asks for the current instant.
pub(crate) fn received(text: &str, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    match text {
        "" => Ok(None),
        text => Ok(Some(instant("received", text)?.max(now.plus_millis(-MAX_BACK_MS)))),
    }
}

/// The answer, with its instant.
pub(crate) fn answered(view: &NewsFragment, now: Timestamp) -> Result<Response, Problem> {
    let mut answer = page(StatusCode::OK, view)?;
    if let Ok(now) = HeaderValue::from_str(&now.to_iso_micros()) {
        answer.headers_mut().insert(NOW, now);
    }
    Ok(answer)
}

pub(crate) async fn news_fragment(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(params): Query<NewsParams>,
) -> Result<Response, Problem> {
    let now = app.web.clock.now();
    let since = Since {
        started: instant("since", &params.since)?,
        received: received(&params.received, now)?,
        within: viewer.focus.range(now),
        among: match viewer.focus.environments.as_slice() {
            [] => Among::Without(&read::INTERNAL_ENVIRONMENTS),
            chosen => Among::Only(chosen),
        },
    };
    let telemetry = &app.store.telemetry;
    let counted = telemetry.traces_since(&viewer.project, since, AT_MOST);
    let (n, is_cut) = counted.await?;
    let list = TraceListParams::new(raw.as_deref()).query;
    let by_time = TracesQuery { sort: Sort::default(), ..list.clone() };
    let view = NewsFragment {
        n,
        is_cut,
        said: TRACES,
        is_filtered: !list.q.trim().is_empty(),
        is_sorted: list.sort != Sort::default(),
        list: by_time.first(&viewer.base()),
    };
    answered(&view, now)
}
