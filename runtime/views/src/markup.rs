//! What a page is written with: inert text, the markup made of it, and parts of addresses.
//!
//! Invariant: **text is inert.** What is written out of a text holds no markup of its own and no control character; the
//! markup here is the only one that is built by hand.

mod address;
mod html;
mod volatile;

pub use address::{decode_segment, encode, segment, with_query};
pub use html::{Html, Text, is_hidden};
pub use volatile::without_volatile_parts;
