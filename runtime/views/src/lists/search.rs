//! What is found by an id or a name: a page, and the same as the list under the field of the palette.

use askama::Template;

use crate::{Shell, Text};

/// The answer as a page.
#[derive(Clone, Debug, Template)]
#[template(path = "search.html")]
pub struct SearchPage {
    /// Page frame.
    pub shell: Shell,
    /// As typed.
    pub q: String,
    /// What was found.
    pub answer: SearchResults,
}

/// The answer as the options of the palette.
#[derive(Clone, Debug, Template)]
#[template(path = "hits.html")]
pub struct SearchFragment {
    /// What was found.
    pub answer: SearchResults,
}

/// How many traces say what is searched for: the part of the page that takes longer.
#[derive(Clone, Debug, Template)]
#[template(path = "search_contents.html")]
pub struct SearchContentsFragment {
    /// What was found.
    pub answer: SearchResults,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct SearchResults {
    /// Those with hits.
    pub groups: Vec<SearchEntryGroup>,
    /// Where the same is looked for in what traces say.
    pub contents: Option<SearchEntry>,
    /// What is said where no trace says it.
    pub no_text_matches: Option<Text>,
    /// The address that counts the traces that say it, which takes longer.
    pub later: Option<String>,
    /// What was not searched, a sentence each.
    pub notes: Vec<&'static str>,
    /// Where a search that stopped goes on.
    pub older_href: Option<String>,
    /// What is said where there is no hit: what was looked in.
    pub none: Text,
    /// The first characters that narrow a search are explained.
    pub has_help: bool,
}

/// Hits of one kind.
#[derive(Clone, Debug)]
pub struct SearchEntryGroup {
    /// `Sessions`.
    pub label: &'static str,
    /// At most [`SearchEntryGroup::LIMIT`].
    pub hits: Vec<SearchEntry>,
    /// There are more.
    pub has_more: bool,
}

/// A thing, and where it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchEntry {
    /// Its name or its id.
    pub title: Text,
    /// What it is or where it stands, when the group does not say so.
    pub note: Text,
    /// The address of its page.
    pub href: String,
}

impl SearchEntryGroup {
    /// Hits that are shown of one kind.
    pub const LIMIT: usize = 8;

    /// Of as many hits as were found.
    #[must_use]
    pub fn new(label: &'static str, mut hits: Vec<SearchEntry>) -> Self {
        let has_more = Self::LIMIT < hits.len();
        hits.truncate(Self::LIMIT);
        Self { label, hits, has_more }
    }
}

impl SearchResults {
    /// Hits in all.
    #[must_use]
    pub fn n_hits(&self) -> usize {
        self.groups.iter().map(|group| group.hits.len()).sum()
    }

    fn said(&self) -> Text {
        match self.n_hits() {
            0 => self.none.clone(),
            n => Text::from(format!("{n} found")),
        }
    }
}
