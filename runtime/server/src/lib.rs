//! The server: dependency wiring, process lifecycle and the commands of the program.
//!
//! Invariants:
//! - **A 2xx on a write means durable.** The response is sent after the commit.
//! - **Ingestion does not depend on evaluation.** The response to a batch waits for no evaluator, model or page. Overload gives
//!   503 with `Retry-After`, and memory stays bounded.

mod app;
mod backfills;
mod backtests;
pub mod backup;
pub mod client;
pub mod commands;
mod descriptors;
mod first_start;
mod in_process;
mod instance;
mod key_uses;
mod listen;
mod lock;
mod operations;
mod paths;
mod prometheus;
mod schedules;
mod secrets;
mod server_runs;
mod span_export;
mod start;
mod system;

pub use app::App;
pub use first_start::{KeyPair, first_start};
pub use paths::{described, openapi, router, served};
pub use start::{Server, Setup};
pub use system::{RandomIds, SystemClock};
