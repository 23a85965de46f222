//! Servers from outside, over HTTP. Each module is a subject.
//!
//! One program, because each takes seconds to link and 160 MB of disk.

#[path = "../../../runtime/host/tests/hostile/guest.rs"]
mod guest;

mod after_rules;
mod author;
mod authorization;
mod backup;
mod bad_input;
mod blob_exports;
mod broker;
mod budgets;
mod code_evaluators;
mod compression;
mod credentials;
mod dashboards;
mod datasets;
mod evaluation;
mod grants;
mod http;
mod ingestion;
mod installation;
mod judge_check;
mod judge_kills;
mod judge_large;
mod judge_leases;
mod judge_prompts;
mod judges;
mod large_traces;
mod lifecycle;
mod limits;
mod long_text;
mod media;
mod memory;
mod metrics;
mod older;
mod organizations;
mod otlp;
mod pages;
mod pages_api;
mod pages_compare;
mod pages_costs;
mod pages_forms;
mod pages_places;
mod pages_scores;
mod pages_sessions;
mod pages_shell;
mod pages_trace;
mod pages_values;
mod plugins;
mod prompts;
mod readers;
mod recorded;
mod response_cache;
mod rest;
mod rule_preview;
mod scores;
mod session_rules;
mod skills;
mod slow_senders;
mod stored;
mod teamwork;
mod trace_steps;
mod trials;
mod version_policies;
