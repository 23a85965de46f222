//! Spans as they arrive, mapped: golden data, payloads of instrumentations, and rules that any input keeps.

mod conventions;
mod instrumentations;
mod limits;
mod otlp_corpus;
mod properties;
mod usage;
mod values;
