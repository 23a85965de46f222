//! Scores: one named value about a trace, an observation, a session or an experiment.
//!
//! Invariants:
//! - **Twice is once.** A score is found by its id; writing it again replaces what it says and keeps
//!   what it is about, its time and when it was made. Writing the same again changes nothing.
//! - **Lists have one order.** Newest first, equal times by id: a cursor neither repeats nor leaves out
//!   a score that was there when the list began.

mod newest;
mod part;
mod query;
mod read;
mod superseded;
#[cfg(test)]
mod tests;
mod write;

use perpend_domain::text::storable_members;
use serde_json::{Map, Value};

use crate::Error;
use perpend_db::to_json;

pub use newest::Place;
pub use part::{ScoresFrom, ScoresPart};
pub use superseded::Superseded;
pub use write::{delete_others, put, put_aside};

/// A JSON object as text. NUL is replaced here too: PostgreSQL keeps its escape and then refuses to look
/// into the document.
fn storable_json(object: &Map<String, Value>) -> Result<String, Error> {
    let json = to_json("score", object)?;
    if json.contains("\\u0000") { to_json("score", &storable_members(object)) } else { Ok(json) }
}
