//! Runs plug-ins: compiles components, makes a fresh instance for every call, holds each to its limits
//! and checks what it answers.
//!
//! Invariants:
//! - **No state survives a call.** Every call gets an instance of its own, made from a copy-on-write image.
//! - **A guest reaches only what is linked here**: its context, a bounded log, the host-call port and a
//!   WASI without anything in it.
//! - **Every end has a class.** Whatever a guest does, `evaluate` gives a result; it never panics, and it
//!   ends at its limits.
//! - **Native code comes from our own compiler**, by way of a folder or a sealed file nobody else writes,
//!   sums checked.
//! - **Processes for guests are confined before they meet one** (`confine`).

mod artifact;
mod asking;
mod bindings;
mod call;
mod check;
mod checks;
mod child;
mod compile;
mod config;
mod confine;
mod ending;
mod engine;
mod faults;
mod guest;
mod held;
mod host;
mod inbox;
mod info;
mod meter;
mod names;
mod pressure;
mod processors;
mod reading;
mod state;
mod worker;

pub use artifact::{ArtifactError, Artifacts};
pub use check::{check_main, check_schema};
pub use compile::{MAX_COMPONENT_BYTES, compile, compile_main};
pub use config::check_config;
pub use confine::{Role, confine};
pub use host::{Host, HostError, Plugin, Settings};
pub use perpend_worker_protocol::Port;
pub use state::DenyAllPort;
pub use worker::{BeforeCall, worker_main, worker_main_with};
