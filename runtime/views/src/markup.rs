//! What a page is written with: inert text, the markup made of it, and parts of addresses.
//!
//! Invariant: **text is inert.** What is written out of a text holds no markup of its own and no control character; the
//! markup here is the only one that is built by hand.

mod address;
mod html;
mod passing;

pub use address::{encode, of_segment, segment, with_query};
pub use html::{Html, Text, is_hidden};
pub use passing::without_passing;
