//! Judges with scripted models.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod configs;
mod large;
mod panels;
mod prompts;
mod questions;
mod scores;
mod support;
