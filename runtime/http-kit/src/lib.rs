//! The HTTP kit: shared by all crates that serve HTTP.
//!
//! Invariants:
//! - **No route without a permission.** Only [`routes::Routes`] adds a route; it puts the guard in
//!   front of the handler, and the OpenAPI description of a route comes from the same entry.
//! - **The key determines the project.** No request parameter does.
//! - **Causes go to the log, never to the caller.** [`problem::Problem`] is the only error that leaves the server.
//! - **Memory of decoded bodies is bounded.** Every body is read by [`admission`], which charges it to its key.

pub mod admission;
pub mod answer;
pub mod auth;
pub mod client_address;
pub mod compression;
pub mod cookies;
pub mod cursor;
pub mod edge;
pub mod extract;
pub mod filters;
pub mod limits;
pub mod origin;
pub mod otlp;
pub mod page;
pub mod parts;
pub mod problem;
pub mod reading;
pub mod request_id;
pub mod request_metrics;
pub mod request_spans;
mod resource;
pub mod routes;
mod state;

pub use state::{AppState, Web, WebParts};
