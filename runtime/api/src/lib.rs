//! The REST API: `/api/public` is the compat contract, `/api/v1` extends it.
//!
//! One file per resource. A route and its description are one entry (`routes::Routes`), so the OpenAPI
//! document cannot miss a route.

pub mod admin;
mod annotation_queues;
mod audit;
mod backfills;
mod backtests;
mod budgets;
mod check_error;
mod comments;
mod dataset_runs;
mod datasets;
mod etag;
mod evaluation_health;
mod evaluators;
mod executions;
mod experiments;
mod feedback;
mod health;
pub mod ingress;
mod jobs;
mod legacy;
mod llm_connections;
mod media;
mod model_calls;
mod models;
mod optional_plugins;
mod plugins;
mod prompts;
pub mod records;
mod rule_firings;
mod rule_preview;
mod rule_runs;
mod rules;
mod score_configs;
mod selections;
mod server_runs;
mod skills;
mod state;
mod turns;
mod writers;

use axum::Router;
use perpend_http_kit::routes::ApiDescription;

use state::Routes;

pub use datasets::import::DatasetImports;
pub use state::{App, NewApp};

/// Every endpoint and its description.
pub fn routes() -> (Router<App>, ApiDescription) {
    let mut routes = Routes::default();
    let all = &mut routes;
    health::routes(all);
    jobs::routes(all);
    score_configs::routes(all);
    models::routes(all);
    llm_connections::routes(all);
    comments::routes(all);
    annotation_queues::routes(all);
    evaluators::routes(all);
    evaluators::grants::routes(all);
    rules::routes(all);
    rule_firings::routes(all);
    rule_preview::routes(all);
    backfills::routes(all);
    backtests::routes(all);
    rule_runs::routes(all);
    budgets::routes(all);
    plugins::routes(all);
    executions::routes(all);
    evaluation_health::routes(all);
    prompts::routes(all);
    datasets::routes(all);
    dataset_runs::routes(all);
    experiments::routes(all);
    server_runs::routes(all);
    media::routes(all);
    skills::routes(all);
    feedback::routes(all);
    audit::routes(all);
    legacy::routes(all);
    routes.into_parts()
}
