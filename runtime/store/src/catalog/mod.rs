//! Who may ask, with what things are scored, and when: organizations, their people, projects, API keys,
//! plug-ins, evaluators and rules.
//!
//! Invariants:
//! - **A rule is whole.** A rule and its assignments are written together, and checked as they are written.
//! - **Versions and components never change.** An evaluator's version names a component by digest, and
//!   the bytes behind a digest are checked against it when they are written.
//! - **Every change is seen.** Whatever changes a rule or an evaluator raises the catalog revision in
//!   the same transaction, so a cache that compares revisions cannot miss it.

mod active;
mod evaluators;
mod keys;
mod organizations;
mod plugins;
mod projects;
mod row;
mod rules;
mod secret_hash;
mod sweep;
#[cfg(test)]
mod tests;
mod users;

pub use active::{ActiveCatalog, ActiveRule};
pub use evaluators::{NewEvaluator, NewVersion, RuleUse, Successor};
pub use keys::{ApiKey, KeyOwner, MAX_KEYS, NewApiKey, Rights};
pub use organizations::{MAX_PROJECTS, NewProject, ProjectPatch};
pub use plugins::{Plugin, PluginUser};
pub use projects::{Init, Organization, Project};
pub use rules::{MAX_ACTIVE_RULES, RulePatch};
pub use secret_hash::{InvalidSecretHash, SecretHash};
pub use sweep::Swept;
pub use users::{MAX_USERS, NewUser, Role, User};

pub(crate) use row::{checked, digest, from_json, to_json};

use perpend_domain::time::Timestamp;

/// Where a list that runs from the newest to the oldest goes on: after this row. Rows of equal time are
/// ordered by id, so none is repeated or left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Time of the last row seen.
    pub at: Timestamp,
    /// Its id.
    pub id: String,
}

/// A part of a list, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// Set when there are more.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// From up to `limit + 1` rows; the surplus one only says that there are more.
    pub(crate) fn cut(mut items: Vec<T>, limit: u32, at: impl Fn(&T) -> Cursor) -> Self {
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = if more { items.last().map(at) } else { None };
        Self { items, next }
    }
}

/// The place before the newest row, for lists read from their start.
pub(crate) fn bounds(after: Option<&Cursor>) -> (i64, &str) {
    after.map_or((i64::MAX, ""), |cursor| {
        (cursor.at.as_micros(), cursor.id.as_str())
    })
}
