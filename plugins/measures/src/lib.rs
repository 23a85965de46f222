//! Functions shared by first-party plug-ins: the text of a value, the distance of two texts and the closeness of
//! two numbers. It contains no evaluators.

mod distance;
mod number;
mod profile;
mod render;

pub use distance::{Distance, levenshtein};
pub use number::{closeness, number_of, print_py};
pub use profile::Profile;
pub use render::{Rendering, text_of, text_of_payload};
