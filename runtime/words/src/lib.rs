//! Formats numbers, times and kinds for readers, and finds a text inside a longer one.

mod find;
mod kinds;
mod numbers;

pub use find::first;
pub use kinds::{kind_word, many};
pub use numbers::{NONE, clock, cost, count, dollars, duration, number, size};
