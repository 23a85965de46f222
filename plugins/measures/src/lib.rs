//! The arithmetic that several first-party plug-ins share: how a value reads as text, how far two texts
//! are apart, how far two numbers are apart. Plain functions, no evaluator lives here.

mod distance;
mod number;
mod profile;
mod render;

pub use distance::{Distance, levenshtein};
pub use number::{closeness, number_of, print_py};
pub use profile::Profile;
pub use render::{Rendering, text_of, text_of_payload};
