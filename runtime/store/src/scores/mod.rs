//! Scores: one named value about a trace, an observation, a session or an experiment.
//!
//! Invariants:
//! - **Twice is once.** A score is found by its id; writing it again replaces what it says and keeps
//!   what it is about, its time and when it was made. Writing the same again changes nothing.
//! - **Lists have one order.** Newest first, equal times by id: a cursor neither repeats nor leaves out
//!   a score that was there when the list began.

mod query;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use query::{ScoreQuery, ScoreValues};
pub use read::ScorePage;
pub(crate) use write::{delete_others, put};

/// PostgreSQL keeps no NUL in text. Both databases show the replacement character instead, so that what
/// one plug-in or client writes does not decide whether a whole batch can be stored.
fn storable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}
