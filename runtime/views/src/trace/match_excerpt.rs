//! An excerpt around a match.

use perpend_domain::text_search::Excerpt;

use crate::Text;

/// A match with the text before and after it.
#[derive(Clone, Debug)]
pub(crate) struct MatchExcerpt {
    pub(crate) before: Text,
    pub(crate) found: Text,
    pub(crate) behind: Text,
}

impl From<Excerpt> for MatchExcerpt {
    fn from(excerpt: Excerpt) -> Self {
        Self {
            before: Text::lines(excerpt.before),
            found: Text::lines(excerpt.matched),
            behind: Text::lines(excerpt.after),
        }
    }
}
