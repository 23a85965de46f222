//! The shape most scores here have: 1 or 0 and the reason.

use perpend_plugin::Score;

/// A score of 1 or 0.
pub(crate) fn verdict(name: &str, holds: bool, reason: impl Into<String>) -> Score {
    Score::share(name, f64::from(u8::from(holds))).comment(reason)
}

/// A text short enough to stand in a comment.
pub(crate) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        None => format!("\"{text}\""),
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
    }
}
