//! Pages of traces and sessions that have only scores.

use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::evaluation::Target;
use perpend_domain::ids::{SessionId, TraceId};
use perpend_domain::telemetry::ScoreQuery;
use perpend_http_kit::problem::Problem;
use perpend_views::{ROWS, ScoresOnlyPage, Section, Text, encode};

use crate::read;
use crate::reference;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::scores;
use crate::state::App;

/// The page of a session without traces; not found if it has no scores.
pub(crate) async fn session(app: &App, viewer: &Viewer, id: &str) -> Result<Response, Problem> {
    let page = match SessionId::new(id) {
        Ok(id) => scores_page(app, viewer, &Target::Session(id)).await?,
        Err(_) => None,
    };
    page.ok_or_else(|| Problem::not_found("session"))
}

/// The page of a trace without observations; not found if it has no scores.
pub(crate) async fn trace(app: &App, viewer: &Viewer, id: TraceId) -> Result<Response, Problem> {
    let page = scores_page(app, viewer, &Target::Trace(id)).await?;
    page.ok_or_else(read::unknown_trace)
}

/// Whether a session has scores of its own.
pub(crate) async fn has_session(app: &App, viewer: &Viewer, id: &str) -> Result<bool, Problem> {
    let Ok(id) = SessionId::new(id) else {
        return Ok(false);
    };
    let about = scores::views::scores_about(app, viewer, &Target::Session(id)).await?;
    Ok(!about.is_empty())
}

async fn scores_page(
    app: &App,
    viewer: &Viewer,
    target: &Target,
) -> Result<Option<Response>, Problem> {
    let telemetry = &app.store.telemetry;
    let about = scores::views::scores_about(app, viewer, target).await?;
    let of_steps = match target.trace() {
        Some(id) => telemetry.scores_of_observations(&viewer.project, id, 1).await?,
        None => Vec::new(),
    };
    if about.is_empty() && of_steps.is_empty() {
        return Ok(None);
    }
    let mut query = ScoreQuery::default();
    let (section, id) = match target {
        Target::Session(id) => {
            query.session_ids.push(id.to_string());
            (Section::Sessions, id.as_str())
        }
        // A run has a page of its own.
        Target::Run(_) => return Ok(None),
        Target::Trace(id) | Target::Observation(id, _) => {
            query.trace_ids.push(id.clone());
            (Section::Traces, id.as_str())
        }
    };
    let all = format!("{}/scores?trace={}", viewer.base(), encode(id));
    let request = reference::equivalent_requests::scores(viewer, &query, (ROWS[0], false, false));
    let view = ScoresOnlyPage {
        shell: viewer.shell(section).with_api(request),
        id: Text::from(id),
        is_session: section == Section::Sessions,
        scores: scores::views::score_views(app, viewer, &about).await?,
        outcomes: Vec::new(),
        observation_scores_href: (!of_steps.is_empty()).then_some(all),
    };
    page(StatusCode::OK, &view).map(Some)
}
