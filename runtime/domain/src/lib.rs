//! Domain types and rules of Perpend, without I/O, async runtime, SQL or HTTP.
//!
//! Contains the types that several crates exchange; a type used by one crate is defined there.
//!
//! Invariants:
//! - **Pure.** Nothing here reads a clock, a random source, a file or a socket; time and ids come in
//!   as arguments.
//! - **Parsed once.** A value of a type here is valid: text from outside is checked by its constructor.
//! - **Order does not matter.** What is derived from a set of observations depends on the set alone.

pub mod access;
pub mod accumulated;
pub mod backfill;
pub mod backtest;
pub mod batch;
pub mod budget;
pub mod bundle;
pub mod chain;
pub mod content;
pub mod cost;
pub mod cron;
pub mod csv;
pub mod dataset;
pub mod dataset_import;
pub mod dataset_schema;
pub mod evaluation;
pub mod experiment;
mod failure;
pub mod filter;
pub mod fold;
pub mod funnel;
pub mod identity;
pub mod ids;
pub mod issue;
pub mod join;
pub mod json_path;
pub mod list;
pub mod mapping;
pub mod marks;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod model_call;
pub mod named;
pub mod observation;
pub mod outline;
pub mod patch;
pub mod payload;
pub mod plugin;
pub mod pricing;
pub mod prompt;
pub mod quantity;
pub mod query;
mod rule_definition;
pub mod sampling;
#[cfg(feature = "schema")]
mod schema;
pub mod score;
pub mod score_analytics;
pub mod score_config;
pub mod server_run;
pub mod session;
pub mod slots;
pub mod telemetry;
pub mod text;
pub mod text_search;
pub mod time;
pub mod trace;
pub mod trace_list;
pub mod usage;
pub mod withdrawal;

pub use perpend_template as template;
