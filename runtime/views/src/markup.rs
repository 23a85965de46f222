//! The building blocks of pages: inert text, generated markup, and URL encoding.
//!
//! Invariant: **text is inert.** The output of a text contains no markup and no control characters. No other module builds HTML
//! by hand.

mod address;
mod html;
mod volatile;

pub use address::{decode_segment, encode, segment, with_query};
pub use html::{Html, Text, is_hidden};
pub use volatile::without_volatile_parts;
