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
mod rules;
pub(crate) mod scim;
mod score_configs;
mod scores;
mod sessions;
mod skills;
mod traces;
mod widgets;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::routes::Routes;

/// Every endpoint with its description.
pub(crate) fn routes(routes: &mut Routes) {
    health::routes(routes);
    projects::routes(routes);
    organizations::routes(routes);
    memberships::routes(routes);
    blob_storage::routes(routes);
    scim::routes(routes);
    traces::routes(routes);
    ingestion::routes(routes);
    observations::routes(routes);
    scores::routes(routes);
    score_configs::routes(routes);
    sessions::routes(routes);
    metrics::routes(routes);
    models::routes(routes);
    llm_connections::routes(routes);
    comments::routes(routes);
    annotation_queues::routes(routes);
    evaluators::routes(routes);
    rules::routes(routes);
    plugins::routes(routes);
    executions::routes(routes);
    prompts::routes(routes);
    datasets::routes(routes);
    dataset_runs::routes(routes);
    experiments::routes(routes);
    media::routes(routes);
    widgets::routes(routes);
    dashboards::routes(routes);
    skills::routes(routes);
    feedback::routes(routes);
    older::routes(routes);
    routes.open("/api/openapi.json", document);
}

/// The OpenAPI document.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    Routes::all().openapi()
}

/// One text for all who ask: whoever does needs no key.
async fn document() -> impl IntoResponse {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| serde_json::to_vec(&openapi()).unwrap_or_default().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone())
}
