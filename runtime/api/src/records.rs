//! The REST API of telemetry: traces, observations, sessions and scores, metrics over them, dashboards,
//! and the ingestion of batches of events.
//!
//! One file per resource. A route and its description are one entry (`routes::Routes`), so the OpenAPI document
//! cannot miss a route.

mod conditions;
mod dashboards;
mod ingestion;
mod metrics;
mod observations;
mod scores;
mod sessions;
mod state;
mod traces;
mod widgets;

use axum::Router;
use perpend_http_kit::routes::ApiDescription;

use state::Routes;

pub use state::{App, NewApp};

/// Every endpoint and its description.
pub fn routes() -> (Router<App>, ApiDescription) {
    let mut routes = Routes::default();
    let all = &mut routes;
    traces::routes(all);
    ingestion::routes(all);
    observations::routes(all);
    scores::routes(all);
    sessions::routes(all);
    metrics::routes(all);
    widgets::routes(all);
    dashboards::routes(all);
    routes.into_parts()
}
