//! Runs plug-ins: compiles components, creates an instance for each call, enforces its limits and validates its scores.
//!
//! Invariants:
//! - **No state survives a call.** Each call gets an instance of its own from a copy-on-write image.
//! - **A guest can access only what is linked here**: its context, a bounded log, the host-call port and an inert WASI.
//! - **Every outcome has a class.** For any guest, `evaluate` returns a result within the limits of the call, and does not
//!   panic.
//! - **Native code comes from our own compiler**, through a folder or a sealed file that no other user can write, with
//!   verified checksums.
//! - **A process is confined before it runs a guest** (`confine`).

mod artifact;
mod bindings;
mod call;
mod child;
mod compile;
mod config;
mod confine;
mod ending;
mod engine;
mod guest;
mod handles;
mod host;
mod inbox;
mod info;
mod meter;
mod mismatch;
mod model_host;
mod names;
mod pressure;
mod processors;
mod reader_host;
mod schema_check;
mod score_check;
mod state;
mod worker;

pub use artifact::{ArtifactError, Artifacts};
pub use compile::{MAX_COMPONENT_BYTES, compile, compile_main};
pub use config::check_config;
pub use confine::{Role, confine};
pub use host::{Host, HostError, Plugin, Settings};
pub use perpend_worker_protocol::Port;
pub use schema_check::{check_main, check_schema};
pub use state::DenyAllPort;
pub use worker::{BeforeCall, worker_main, worker_main_with};
