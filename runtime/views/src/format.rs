//! Formats numbers, times, kinds and states for readers, and reads JSON as text.

pub mod json;
mod kinds;
mod numbers;
mod state;
mod tokens;

pub use kinds::{kind_word, many};
pub use numbers::{
    NONE, ago, clock, cost, count, date, decimal_blanks, dollars, duration, exact_duration,
    exact_number, like, near, number, percent, percents, read_duration, size,
};
pub use state::TraceState;
pub use tokens::tokens_by_bucket;
