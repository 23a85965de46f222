//! Changes of a trace by users.

/// Longest tag that a user can add.
pub const MAX_TAG_CHARS: usize = 200;

/// A user's change of a trace; absent members are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceMarks {
    /// Sets or clears the bookmark.
    pub bookmarked: Option<bool>,
    /// Tags to add.
    pub add_tags: Vec<String>,
    /// Tags to remove.
    pub remove_tags: Vec<String>,
}

impl TraceMarks {
    /// Sets or clears the bookmark.
    #[must_use]
    pub fn bookmark(is_set: bool) -> Self {
        Self { bookmarked: Some(is_set), ..Self::default() }
    }

    /// Adds a tag, or removes it.
    #[must_use]
    pub fn tag(tag: &str, is_added: bool) -> Self {
        let (mut marks, tags) = (Self::default(), vec![tag.to_owned()]);
        match is_added {
            true => marks.add_tags = tags,
            false => marks.remove_tags = tags,
        }
        marks
    }

    /// The error of a tag to add; `None` if it is valid.
    #[must_use]
    pub fn fault_of_tag(tag: &str) -> Option<String> {
        let is_blank = tag.trim().is_empty();
        let is_long = MAX_TAG_CHARS < tag.chars().count();
        let is_odd = tag.chars().any(char::is_control);
        match (is_blank, is_long, is_odd) {
            (true, ..) => Some("a tag must not be blank".to_owned()),
            (_, true, _) => Some(format!("a tag must have at most {MAX_TAG_CHARS} characters")),
            (_, _, true) => Some("a tag must not contain control characters".to_owned()),
            _ => None,
        }
    }
}
