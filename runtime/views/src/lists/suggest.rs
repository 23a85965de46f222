//! Suggestions for the filter field.

use askama::Template;

use crate::Text;

/// The suggestions as a fragment.
#[derive(Clone, Debug, Template)]
#[template(path = "suggest.html")]
pub struct SuggestPage {
    /// Suggestions, most likely first.
    pub suggestions: Vec<Suggestion>,
}

/// A suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// Text that is inserted.
    pub title: Text,
    /// Description or number of traces.
    pub note: Text,
    /// The whole text before the caret with the suggestion.
    pub whole: String,
}
