//! Differences between two values: JSON documents by path, texts by lines and words. Also finds repeated messages in
//! conversations. Callers decide how much of a difference they show.

pub mod json;
pub mod lines;
mod ops;
pub mod repeats;
#[cfg(test)]
mod tests;
