//! The formats in which libraries record messages, tool calls, tool definitions and media. Only this module depends on
//! them: the index of called tools, the sources of mappings, media extraction and the pages read values through it.

pub mod bodies;
pub mod calls;
mod conversation;
#[cfg(test)]
mod corpus_tests;
mod definitions;
pub mod encoded;
mod exceptions;
pub mod fields;
mod holders;
pub mod inline;
pub mod kinds;
mod last_message;
#[cfg(test)]
mod library_tests;
pub mod locate;
pub mod media;
#[cfg(test)]
mod media_tests;
mod members;
mod messages;
mod parts;
pub mod roles;
pub mod spans;
mod stream;
#[cfg(test)]
mod tests;

pub use conversation::{conversation, is_system_message};
pub use definitions::{definitions, definitions_in, tool_name};
pub use exceptions::{Exception, exceptions};
pub use last_message::last_message_text;
pub use members::{beginning, is_empty, merge, parsed};
pub use messages::{HOLDERS, TOOLS, unify};
