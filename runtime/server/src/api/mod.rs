//! The REST API: `/api/public` is the compat contract, `/api/v1` is what that lacks.
//!
//! One file per resource. A route and its description are one entry (`routes::Routes`), so the OpenAPI
//! document cannot miss a route.

mod annotation_queues;
pub(crate) mod blob_storage;
mod comments;
mod conditions;
mod cursor;
mod dashboards;
mod dataset_runs;
pub(crate) mod datasets;
mod etag;
mod evaluators;
mod executions;
mod experiments;
mod feedback;
mod health;
mod ingestion;
pub(crate) mod llm_connections;
pub(crate) mod media;
mod memberships;
mod metrics;
mod models;
mod observations;
mod older;
mod organizations;
mod page;
pub(crate) mod plugins;
mod projects;
mod prompts;
pub(crate) mod routes;
mod rules;
pub(crate) mod scim;
mod score_configs;
mod scores;
mod sessions;
mod skills;
mod traces;
mod widgets;

use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::IntoResponse;

use crate::extract::readable_path;
use crate::problem::as_rfc9457;
use crate::{App, edge};
use routes::Routes;

/// Every endpoint with its description.
fn all() -> Routes {
    let mut routes = Routes::default();
    health::routes(&mut routes);
    projects::routes(&mut routes);
    organizations::routes(&mut routes);
    memberships::routes(&mut routes);
    blob_storage::routes(&mut routes);
    scim::routes(&mut routes);
    traces::routes(&mut routes);
    ingestion::routes(&mut routes);
    observations::routes(&mut routes);
    scores::routes(&mut routes);
    score_configs::routes(&mut routes);
    sessions::routes(&mut routes);
    metrics::routes(&mut routes);
    models::routes(&mut routes);
    llm_connections::routes(&mut routes);
    comments::routes(&mut routes);
    annotation_queues::routes(&mut routes);
    evaluators::routes(&mut routes);
    rules::routes(&mut routes);
    plugins::routes(&mut routes);
    executions::routes(&mut routes);
    prompts::routes(&mut routes);
    datasets::routes(&mut routes);
    dataset_runs::routes(&mut routes);
    experiments::routes(&mut routes);
    media::routes(&mut routes);
    widgets::routes(&mut routes);
    dashboards::routes(&mut routes);
    skills::routes(&mut routes);
    feedback::routes(&mut routes);
    older::routes(&mut routes);
    routes
}

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    all().openapi()
}

/// The routes of the API.
pub fn router() -> Router<App> {
    let (public, own) = all().into_routers();
    public
        .layer(from_fn(readable_path))
        .merge(own.layer(from_fn(readable_path)).layer(from_fn(as_rfc9457)))
        .route("/api/openapi.json", axum::routing::get(document))
        .method_not_allowed_fallback(edge::method_not_allowed)
}

/// One text for all who ask: whoever does needs no key.
async fn document() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| serde_json::to_vec(&openapi()).unwrap_or_default().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone())
}
