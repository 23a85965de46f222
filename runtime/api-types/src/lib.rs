//! Bodies of the REST API: what is sent and what is answered, one struct per body.
//!
//! Whoever writes a body (endpoints, exports) or reads one (the commands of the program, tests, generated
//! clients) uses the struct; its OpenAPI schema is derived from it, so that the document says what is sent.
//!
//! Invariants:
//! - **No behaviour.** A body is made from types of the domain and of what is found in it, and from nothing else;
//!   what it takes to fetch them is the endpoint's matter.
//! - **Names are a promise.** Clients of released versions read these members: one may be added, none renamed.

pub mod budget;
pub mod connection;
pub mod evaluation_health;
pub mod evaluator;
pub mod execution;
pub mod filter;
pub mod ingestion;
pub mod judge_check;
pub mod list;
pub mod observation;
pub mod outline;
pub mod plugin;
pub mod preset;
pub mod preview;
pub mod rule;
pub mod score;
pub mod session;
pub mod trace;
pub mod trace_search;
pub mod trial;
