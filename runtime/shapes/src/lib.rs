//! The shapes in which libraries record messages and media. Messages are given one shape; media are found in text and
//! decoded. What of them is shown is the business of who asks.

pub mod encoded;
mod exceptions;
mod holders;
pub mod inline;
#[cfg(test)]
mod library_tests;
#[cfg(test)]
mod media_tests;
mod members;
mod messages;
mod parts;
mod said;
pub mod spans;
mod stream;
#[cfg(test)]
mod tests;

pub use exceptions::{Exception, exceptions};
pub use members::{beginning, is_empty, merge, parsed};
pub use messages::{HOLDERS, TOOLS, unify};
pub use said::last_said;
