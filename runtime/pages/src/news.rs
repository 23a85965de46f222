//! `GET P/_/news?since=`: the number of traces newer than the newest one on a page, in its time and its environments. Pages
//! poll it, so it reads one bounded range of an index. The other parameters are those of the list, which the answer links to.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::time::Timestamp;
use perpend_telemetry::Among;
use perpend_ui::NewsFragment;
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::asked::Asked as OfList;
use crate::query::Query;
use crate::read;
use crate::state::App;
use crate::viewer::Viewer;

/// Traces that are counted.
const AT_MOST: u32 = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    since: String,
}

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let since = Timestamp::parse(&asked.since)
        .map_err(|error| Problem::query("since", error.to_string()))?;
    let telemetry = &app.store.telemetry;
    let (_, until) = viewer.focus.range(app.web.clock.now());
    let among = match viewer.focus.environments.as_slice() {
        [] => Among::Without(&read::OWN),
        chosen => Among::Only(chosen),
    };
    let counted = telemetry.traces_since(&viewer.project, (since, until), among, AT_MOST);
    let (n, is_cut) = counted.await?;
    let view = NewsFragment {
        n,
        is_cut,
        list: OfList::new(raw.as_deref()).query.first(&viewer.base()),
    };
    page(StatusCode::OK, &view)
}
