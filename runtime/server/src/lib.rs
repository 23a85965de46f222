//! The server: ingress, REST API, pages, auth, config and wiring.
//!
//! Invariants:
//! - **A 2xx on a write means durable.** The answer leaves after the store's commit.
//! - **Ingress waits for nobody.** No evaluator, model or page stands between a batch and its answer;
//!   overload answers 503 with `Retry-After`, memory stays bounded.
//! - **The project comes from the key.** There is no other way to name one.
//! - **Causes go to the log, never to the caller.**

mod admission;
pub mod answer;
pub mod api;
mod app;
pub mod auth;
pub mod backup;
mod broker;
pub mod client;
pub mod client_address;
pub mod commands;
mod components;
mod compression;
mod descriptors;
mod edge;
mod engine;
pub mod exports;
pub mod extract;
mod first_start;
pub mod ingress;
mod limits;
mod listen;
mod lock;
pub mod pages;
pub mod problem;
mod routes;
mod secrets;
mod start;
pub mod sweep;
mod system;
mod walls;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

pub use app::{App, AppParts, NewApp};
pub use broker::{Broker, Models, NoModels};
pub use components::Components;
pub use engine::{Engine, InProcess};
pub use first_start::{KeyPair, first_start};
pub use routes::Served;
pub use start::{Server, Setup};
pub use system::{RandomIds, SystemClock};

/// What the server serves, and what each route needs.
#[must_use]
pub fn served() -> Vec<Served> {
    routes::Routes::all().into_served()
}

/// Every path of the server.
pub fn router(app: App) -> Router {
    let mut paths = routes::Routes::all()
        .into_router()
        .fallback(edge::not_found)
        .layer(from_fn_with_state(app.clone(), admission::open_account));
    if limits::are_on(&app.config.limits) {
        paths = paths.layer(from_fn_with_state(app.clone(), limits::keep));
    }
    let paths = paths
        .layer(from_fn(api::scim::as_scim))
        .layer(from_fn(edge::cors));
    compression::around(paths)
        .layer(from_fn_with_state(app.clone(), edge::log))
        .layer(from_fn_with_state(app.clone(), edge::note_client))
        .with_state(app)
}
