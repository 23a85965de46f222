//! Spans as they arrive, mapped: golden data, payloads of instrumentations, and rules that any input keeps.

mod conventions;
mod instrumentations;
mod otlp_corpus;
mod properties;
mod values;
