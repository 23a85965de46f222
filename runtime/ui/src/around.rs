//! A text that was found in a longer one, with what stands around it.

use crate::Text;

/// Characters shown before and behind.
const AROUND: usize = 80;

/// A text that was found, with what stands around it.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) before: Text,
    pub(crate) found: Text,
    pub(crate) behind: Text,
}

impl Around {
    /// What stands between these bytes of a text, and around them.
    pub(crate) fn of(whole: &str, (from, to): (usize, usize)) -> Self {
        let before = whole.get(..from).unwrap_or_default();
        let behind = whole.get(to..).unwrap_or_default();
        let start = before.char_indices().rev().nth(AROUND - 1);
        let start = start.map_or(0, |(at, _)| at);
        let end = behind.char_indices().nth(AROUND);
        let end = end.map_or(behind.len(), |(at, _)| at);
        Self {
            before: Text::from(before.get(start..).unwrap_or_default()),
            found: Text::from(whole.get(from..to).unwrap_or_default()),
            behind: Text::from(behind.get(..end).unwrap_or_default()),
        }
    }
}
