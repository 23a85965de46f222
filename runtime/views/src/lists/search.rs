//! Search by id or name, as a page and as the options of the search dialog.

use askama::Template;

use crate::{Shell, Text};

/// The search results as a page.
#[derive(Clone, Debug, Template)]
#[template(path = "search.html")]
pub struct SearchPage {
    /// Page frame.
    pub shell: Shell,
    /// The query as typed.
    pub q: String,
    /// Results.
    pub answer: SearchResults,
}

/// The search results as options of the search dialog.
#[derive(Clone, Debug, Template)]
#[template(path = "hits.html")]
pub struct SearchFragment {
    /// Results.
    pub answer: SearchResults,
}

/// The number of traces that contain the text, as a fragment that is loaded later.
#[derive(Clone, Debug, Template)]
#[template(path = "search_contents.html")]
pub struct SearchContentsFragment {
    /// Results.
    pub answer: SearchResults,
}

/// Results.
#[derive(Clone, Debug, Default)]
pub struct SearchResults {
    /// Groups with hits.
    pub groups: Vec<SearchEntryGroup>,
    /// Link to the list of traces that contain the text.
    pub text_matches: Option<SearchEntry>,
    /// Message if no trace contains the text.
    pub no_text_matches: Option<Text>,
    /// URL of the fragment that counts these traces.
    pub text_matches_href: Option<String>,
    /// Sentences about data that was not searched.
    pub notes: Vec<&'static str>,
    /// URL that continues a search of older traces.
    pub older_href: Option<String>,
    /// Message without hits.
    pub no_hits: Text,
    /// Whether to show the help.
    pub has_help: bool,
}

/// Hits of one type.
#[derive(Clone, Debug)]
pub struct SearchEntryGroup {
    /// `Sessions`.
    pub label: &'static str,
    /// At most [`SearchEntryGroup::LIMIT`].
    pub hits: Vec<SearchEntry>,
    /// Whether there are more hits.
    pub has_more: bool,
}

/// A search hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchEntry {
    /// Name or id.
    pub title: Text,
    /// Details that the group does not show.
    pub note: Text,
    /// URL.
    pub href: String,
}

impl SearchEntryGroup {
    /// Maximum number of hits of a group.
    pub const LIMIT: usize = 8;

    /// Keeps at most [`Self::LIMIT`] hits.
    #[must_use]
    pub fn new(label: &'static str, mut hits: Vec<SearchEntry>) -> Self {
        let has_more = Self::LIMIT < hits.len();
        hits.truncate(Self::LIMIT);
        Self { label, hits, has_more }
    }
}

impl SearchResults {
    /// Number of hits in all groups.
    #[must_use]
    pub fn n_hits(&self) -> usize {
        self.groups.iter().map(|group| group.hits.len()).sum()
    }

    fn message(&self) -> Text {
        match self.n_hits() {
            0 => self.no_hits.clone(),
            n => Text::from(format!("{n} found")),
        }
    }
}
