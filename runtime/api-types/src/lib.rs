//! Request and response bodies of the REST API, one struct per body.
//!
//! Endpoints and exports write these structs; commands, tests and generated clients read them. The OpenAPI schema is derived
//! from them.
//!
//! Invariants:
//! - **No behaviour.** A body is built from domain types only; fetching them is up to the endpoint.
//! - **Stable names.** Clients of released versions read these members: members may be added, not renamed.

pub mod any_json;
pub mod audit;
pub mod backfill;
pub mod backtest;
pub mod budget;
pub mod connection;
pub mod evaluation_health;
pub mod evaluator;
pub mod execution;
pub mod filter;
pub mod ingestion;
pub mod job;
pub mod judge_check;
pub mod list;
pub mod nullable;
pub mod observation;
pub mod outline;
pub mod plugin;
pub mod preset;
pub mod preview;
pub mod rendered_prompt;
pub mod rule;
pub mod rule_run;
pub mod score;
pub mod server_run;
pub mod session;
pub mod trace;
pub mod trace_search;
pub mod trial;
