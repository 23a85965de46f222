//! The server: wiring, the life of a process, and the commands of the program.
//!
//! Invariants:
//! - **A 2xx on a write means durable.** The answer leaves after the store's commit.
//! - **Ingress waits for nobody.** No evaluator, model or page stands between a batch and its answer;
//!   overload answers 503 with `Retry-After`, memory stays bounded.

mod app;
pub mod backup;
pub mod client;
pub mod commands;
mod descriptors;
mod first_start;
mod in_process;
mod listen;
mod lock;
mod operations;
mod paths;
mod secrets;
mod start;
pub mod sweep;
mod system;

pub use app::App;
pub use first_start::{KeyPair, first_start};
pub use paths::{described, openapi, router, served};
pub use start::{Server, Setup};
pub use system::{RandomIds, SystemClock};
