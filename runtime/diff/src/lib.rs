//! Differences between two values: JSON documents by path, texts by lines and words. What of them is shown is the business
//! of who asks.

pub mod json;
pub mod lines;
mod ops;
#[cfg(test)]
mod tests;
