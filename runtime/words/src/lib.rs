//! Formats numbers, times and kinds for readers.

mod kinds;
mod numbers;

pub use kinds::{kind_word, many};
pub use numbers::{NONE, clock, cost, count, dollars, duration, number, size};
