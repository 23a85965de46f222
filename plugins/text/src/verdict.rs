//! Scores of 1 or 0 with a reason.

use perpend_plugin::Score;

/// A score of 1 or 0.
pub(crate) fn verdict(name: &str, holds: bool, reason: impl Into<String>) -> Score {
    Score::share(name, f64::from(u8::from(holds))).comment(reason)
}

/// A text, quoted and shortened for a comment.
pub(crate) fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        None => format!("\"{text}\""),
        Some((end, _)) => format!("\"{}…\"", &text[..end]),
    }
}
