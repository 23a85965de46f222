//! Differences between two values: JSON documents by path, texts by lines and words; and what a conversation repeats. What
//! of them is shown is the business of who asks.

pub mod json;
pub mod lines;
mod ops;
pub mod repeats;
#[cfg(test)]
mod tests;
