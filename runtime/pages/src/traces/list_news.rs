//! `GET P/_/sessions/news?received=`, and the same for users, observations and scores: the number of rows received after an instant, in the
//! time range and environments of the list. Pages poll it, so it reads the end of one index. The other parameters are those of
//! the list, which the response links to; with `of`, it is the page of that session or user.

use axum::extract::State;
use axum::response::Response;
use perpend_domain::telemetry::{GroupKey, GroupQuery, ScoreQuery};
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::EnvironmentFilter;
use perpend_views::{NewsFragment, Parameter, href, list_href, with_query};
use serde::Deserialize;

use crate::read::INTERNAL_ENVIRONMENTS;
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::news::{MAX_NEWS, TRACES, news_response, received};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListNewsParams {
    received: String,
    of: String,
    q: String,
    n: String,
    cols: String,
    name: String,
    fingerprint: String,
    trace: String,
    own: String,
    superseded: String,
}

/// The list that is polled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewsList {
    Groups(GroupKey),
    Observations,
    Scores,
}

/// The number of new rows, and whether there may be more.
async fn count_new(
    app: &App,
    viewer: &Viewer,
    (list, params): (NewsList, &ListNewsParams),
    received: Timestamp,
) -> Result<(u64, bool), Problem> {
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let (from, to) = viewer.focus.range(app.web.clock.now());
    let since = (received, MAX_NEWS);
    let environments = viewer.focus.environments.clone();
    Ok(match list {
        NewsList::Groups(by) => {
            let only = Some(params.of.as_str()).filter(|id| !id.is_empty());
            let query = match (by, only) {
                // The page of a session has no time range.
                (GroupKey::Session, Some(_)) => GroupQuery::new(by, 1),
                _ => GroupQuery { started: (from, to), environments, ..GroupQuery::new(by, 1) },
            };
            telemetry.groups_since(project, &query, only, since).await?
        }
        NewsList::Observations => {
            let among = match environments.as_slice() {
                [] => EnvironmentFilter::Without(&INTERNAL_ENVIRONMENTS),
                chosen => EnvironmentFilter::Only(chosen),
            };
            telemetry.observations_since(project, (from, to), among, since).await?
        }
        NewsList::Scores => {
            let mut query = ScoreQuery { from, to, environments, ..ScoreQuery::default() };
            if params.own == "0" {
                query.other_than_environments = INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec();
            }
            telemetry.scores_since(project, &query, since).await?
        }
    })
}

/// URL of the list, or of the page of one session or user.
fn list_url(viewer: &Viewer, list: NewsList, params: ListNewsParams) -> String {
    let base = viewer.base();
    let path = match list {
        NewsList::Groups(by) if !params.of.is_empty() => href(&base, by, &params.of),
        NewsList::Groups(by) => list_href(&base, by),
        NewsList::Observations => format!("{base}/observations"),
        NewsList::Scores => format!("{base}/scores"),
    };
    let own = [
        ("q", params.q),
        ("n", params.n),
        ("cols", params.cols),
        ("name", params.name),
        ("fingerprint", params.fingerprint),
        ("trace", params.trace),
        ("own", params.own),
        ("superseded", params.superseded),
    ];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let own = own.map(|(name, value)| (name.into(), value));
    let pairs: Vec<Parameter> = own.chain(viewer.parameters()).collect();
    with_query(&path, &pairs)
}

pub(crate) async fn list_news_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Query(params): Query<ListNewsParams>,
    list: NewsList,
) -> Result<Response, Problem> {
    let now = app.web.clock.now();
    let (n, is_cut) = match received(&params.received, now)? {
        None => (0, false),
        Some(received) => count_new(&app, &viewer, (list, &params), received).await?,
    };
    let is_narrowed = [&params.q, &params.name, &params.fingerprint, &params.trace];
    let view = NewsFragment {
        n,
        is_cut,
        nouns: match list {
            NewsList::Groups(_) if !params.of.is_empty() => TRACES,
            NewsList::Groups(GroupKey::Session) => {
                ["session with new traces", "sessions with new traces"]
            }
            NewsList::Groups(GroupKey::User) => ["user with new traces", "users with new traces"],
            NewsList::Observations => ["new observation", "new observations"],
            NewsList::Scores => ["new score", "new scores"],
        },
        is_filtered: is_narrowed.iter().any(|value| !value.is_empty()),
        is_sorted: false,
        list: list_url(&viewer, list, params),
    };
    news_response(&view, now)
}
