//! `GET P/_/{list}/news?received=`: the number of rows received after an instant, in the time range and environments of the list.
//! Pages poll it, so it reads the end of one index. The other parameters are those of the list, which the response links to.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::NewsFragment;

use crate::list::params::ListRequest;
use crate::list::source::{ListScope, ListSource};
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::news::{MAX_NEWS, news_response, received};

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
