//! The HTTP kit: what every room has in common that answers requests.
//!
//! Invariants:
//! - **No route without a permission.** [`routes::Routes`] is the only way to serve something; it puts the guard in
//!   front, and what the OpenAPI document says of a route follows from the same entry.
//! - **The project comes from the key.** There is no other way to name one.
//! - **Causes go to the log, never to the caller.** [`problem::Problem`] is the one error that leaves the server.
//! - **Memory is bounded by what is decoded.** Every body is read by [`admission`], which charges it to its key.

pub mod admission;
pub mod answer;
pub mod auth;
pub mod client_address;
pub mod compression;
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
mod resource;
pub mod routes;
mod state;

pub use state::{Room, Web, WebParts};
