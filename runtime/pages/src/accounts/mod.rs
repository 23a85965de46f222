//! Accounts: creation of the first one, the page of one's own, a fresh sign-in, members, and their invitations and resets.

pub(crate) mod confirm;
pub(crate) mod links;
pub(crate) mod members;
pub(crate) mod own;
pub(crate) mod setup;

use perpend_http_kit::problem::Problem;

/// Longest name of a person, in characters.
const MAX_NAME_CHARS: usize = 200;

/// A name without surrounding space.
fn checked_name(raw: &str) -> Result<String, Problem> {
    let name = raw.trim();
    let n_chars = name.chars().count();
    match (1..=MAX_NAME_CHARS).contains(&n_chars) && !name.chars().any(char::is_control) {
        true => Ok(name.to_owned()),
        false => Err(Problem::body("name", "must have between 1 and 200 characters in one line")),
    }
}
