//! The REST API that manages tenants: projects and their keys, organizations, members, SCIM, exports to buckets.
//!
//! Most of it requires a key of an organization, which manages the projects of that organization and cannot read
//! their data. One file per resource. A route and its description are one entry (`routes::Routes`), so the OpenAPI
//! document cannot miss a route.

mod audit;
mod blob_storage;
mod memberships;
mod organizations;
mod projects;
mod scim;
mod state;

use axum::Router;
use perpend_http_kit::routes::ApiDescription;

use state::Routes;

pub use scim::as_scim;
pub use state::{App, NewApp};

/// Every endpoint and its description.
pub fn routes() -> (Router<App>, ApiDescription) {
    let mut routes = Routes::default();
    let all = &mut routes;
    projects::routes(all);
    audit::routes(all);
    organizations::routes(all);
    memberships::routes(all);
    blob_storage::routes(all);
    scim::routes(all);
    routes.into_parts()
}
