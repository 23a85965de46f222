//! `GET P/_/{list}/news?received=`: the number of rows received after an instant, in the time range and environments of the list.
//! Pages poll it, so it reads the end of one index. The other parameters are those of the list, which the response links to.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::NewsFragment;

use crate::list::source::{ListRequest, ListScope, ListSource};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// New rows that are counted.
pub(crate) const MAX_NEWS: u32 = 1_000;
/// The earliest accepted `received`, relative to now.
const MAX_BACK_MS: i64 = 3_600_000;
/// Header with the time of the response, which is the next `received` parameter.
const NOW: HeaderName = HeaderName::from_static("perpend-now");

/// The time in a query parameter.
pub(crate) fn instant(name: &'static str, text: &str) -> Result<Timestamp, Problem> {
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

/// `GET P/_/{list}/news`
pub(crate) async fn list_news<L: ListSource>(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let now = app.web.clock.now();
    let request = ListRequest::<L>::new(ListScope { app, viewer }, raw.as_deref())?;
    let ListRequest { scope, conditions, params } = &request;
    let source = &params.source;
    let (n, is_cut) = match received(&request.received, now)? {
        None => (0, false),
        Some(received) => source.count_new(scope, conditions, (received, MAX_NEWS)).await?,
    };
    let whole = || (L::LIST.news.unwrap_or_default(), request.links().first());
    let (nouns, list) = source.news_page(&scope.viewer).unwrap_or_else(whole);
    let is_applied = |name: &str| L::NEWS_PARAMETERS.contains(&name);
    let is_narrowed = source.narrowed().iter().any(|(.., name)| !is_applied(name));
    let view = NewsFragment {
        n,
        is_cut,
        nouns,
        is_filtered: !request.q.is_empty() || is_narrowed,
        is_sorted: false,
        list,
    };
    news_response(&view, now)
}
