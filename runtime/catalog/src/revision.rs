//! The catalog revision, by which a cache of rules and evaluators detects that it is outdated.

use crate::{Catalog, Error};
use perpend_db::{Tx, query, query_scalar};

const REVISION: &str = "SELECT revision FROM catalog_revision WHERE id = 1";
const LOCK_POSTGRES: &str = "SELECT revision FROM catalog_revision WHERE id = 1 FOR SHARE";
/// Must be part of every transaction that changes a rule or an evaluator.
pub(super) const RAISE: &str = "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 1";

/// Result of setting a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseOutcome {
    /// The pause was set. Of concurrent callers only one gets this result.
    New,
    /// A pause existed before.
    Already,
    /// The pause was not set: the catalog has changed since the failure.
    Outdated,
}

impl PauseOutcome {
    pub(super) const fn of(n_paused: u64) -> Self {
        match n_paused {
            0 => Self::Already,
            _ => Self::New,
        }
    }

    /// Whether it was set.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::New)
    }
}

/// Raises the revision; `false` if the previous revision differs from `seen`, and the transaction is to be
/// rolled back.
pub(super) async fn raise_from(tx: &mut Tx, seen: Option<i64>) -> Result<bool, Error> {
    query(RAISE).execute(&mut *tx).await?;
    let Some(seen) = seen else { return Ok(true) };
    let now: i64 = query_scalar(REVISION).fetch_one(tx).await?;
    Ok(now == seen + 1)
}

/// The revision, locked until the transaction of the caller ends.
///
/// # Errors
/// When the database fails.
pub async fn lock_revision(tx: &mut Tx) -> Result<i64, Error> {
    // On SQLite a write transaction excludes all others.
    let sql = match tx.is_postgres() {
        false => REVISION,
        true => LOCK_POSTGRES,
    };
    query_scalar(sql).fetch_one(tx).await
}

impl Catalog {
    /// A number that grows with every change of a rule or an evaluator in any project. Crosses tenants: for
    /// the engine.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn catalog_revision(&self) -> Result<i64, Error> {
        query_scalar(REVISION).fetch_one(&self.pool).await
    }
}
