//! Formats numbers, times, kinds and trace states, and scans JSON text.

pub mod json;
mod kinds;
mod numbers;
mod state;
mod tokens;

pub use kinds::{kind_label, plural};
pub use numbers::{
    NO_VALUE, ago, clock, cost, count, date, decimal_blanks, dollars, duration, exact_duration,
    exact_number, number, number_like, percent, percent_range, read_duration, short_time, size,
};
pub use state::TraceState;
pub use tokens::tokens_by_bucket;
