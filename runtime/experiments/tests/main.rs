//! Tests of comparisons, verdicts and gates.

#![expect(clippy::unwrap_used, reason = "a broken fixture stops the test")]

mod comparisons;
mod fixtures;
mod gates;
mod names;
mod properties;
mod simulated;
mod weights;
