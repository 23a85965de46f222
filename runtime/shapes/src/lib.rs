//! The shapes in which libraries record messages and media. Messages are given one shape; media are found in text and
//! decoded. What of them is shown is the business of who asks.

pub mod encoded;
mod exceptions;
pub mod fields;
mod holders;
pub mod inline;
pub mod kinds;
#[cfg(test)]
mod library_tests;
pub mod locate;
#[cfg(test)]
mod media_tests;
mod members;
mod messages;
mod parts;
mod said;
pub mod spans;
pub mod speech;
mod stream;
#[cfg(test)]
mod tests;

pub use exceptions::{Exception, exceptions};
pub use members::{beginning, is_empty, merge, parsed};
pub use messages::{HOLDERS, TOOLS, unify};
pub use said::last_said;
