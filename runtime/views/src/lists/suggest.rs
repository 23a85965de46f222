//! How a filter that is being written may go on.

use askama::Template;

use crate::Text;

/// The options under the field.
#[derive(Clone, Debug, Template)]
#[template(path = "suggest.html")]
pub struct SuggestPage {
    /// The likeliest first.
    pub suggestions: Vec<Suggestion>,
}

/// A way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// What would be written.
    pub title: Text,
    /// What that is, or how many traces have it.
    pub note: Text,
    /// The text with it, as far as it was written.
    pub whole: String,
}
