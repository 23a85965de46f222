//! Scores: one named value of a trace, an observation, a session or an experiment.
//!
//! Invariants:
//! - **Idempotent.** A score is identified by its id; writing it again replaces its value and keeps its
//!   subject, its timestamp and its creation time. Writing the same score again changes nothing.
//! - **Lists have one order.** Newest first, equal times by id: a cursor neither repeats nor skips a score
//!   that existed when the list was started.

mod analyzed;
mod newest;
mod page;
mod query;
mod read;
mod superseded;
#[cfg(test)]
mod tests;
mod versions;
mod write;

use perpend_domain::text::storable_members;
use serde_json::{Map, Value};

use crate::Error;
use perpend_db::to_json;

pub use newest::ScoredSubject;
pub(crate) use read::score_value;
pub use superseded::SupersededScores;
pub use versions::VersionScores;
pub use write::{delete_surplus, put, supersede};

/// A JSON object as text. NUL is replaced here too: PostgreSQL stores its escape and then fails to read the
/// document.
fn storable_json(object: &Map<String, Value>) -> Result<String, Error> {
    let json = to_json("score", object)?;
    if json.contains("\\u0000") { to_json("score", &storable_members(object)) } else { Ok(json) }
}
