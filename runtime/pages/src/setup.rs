//! Connection data for exporters, shown while a project has no traces.

use axum::http::HeaderMap;
use perpend_catalog::{ApiKey, Rights};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::Problem;
use perpend_views::{RejectedRequest, Setup, clock, encode};

use crate::state::App;

pub(super) async fn setup_guide(
    app: &App,
    project: &ProjectId,
    headers: &HeaderMap,
) -> Result<Setup, Problem> {
    guide_at(app, project, origin_of_request(app, headers)).await
}

/// The same for a known origin.
pub(super) async fn guide_at(
    app: &App,
    project: &ProjectId,
    origin: String,
) -> Result<Setup, Problem> {
    let keys = app.store.catalog.api_keys(project).await?;
    let now = app.web.clock.now();
    let sends = |key: &&ApiKey| key.is_valid(now) && key.made.rights != Rights::Read;
    let public_key = keys.iter().find(sends).map(|key| key.made.public_key.to_string());
    Ok(Setup {
        origin,
        project: encode(project.as_str()),
        public_key: public_key.unwrap_or_default(),
        refused: app.web.refusals.last(project).map(|last| RejectedRequest {
            at: clock(last.at),
            status: last.status.as_u16(),
            reason: last.reason,
        }),
    })
}

/// Scheme, host and port of this server as the browser reaches it: the endpoint for exporters.
pub(super) fn origin_of_request(app: &App, headers: &HeaderMap) -> String {
    perpend_http_kit::origin::of(&app.web.config, headers, None)
}
