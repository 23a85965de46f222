//! Configuration: organizations with their members, projects and API keys, plug-ins, evaluators and rules.
//!
//! Invariants:
//! - **A rule is written as a whole.** A rule and its assignments are written together, and checked in the
//!   same transaction.
//! - **Versions and components are immutable.** A version of an evaluator refers to a component by digest,
//!   and the bytes are checked against their digest when they are written.
//! - **Every change raises the revision.** Each change of a rule or an evaluator raises the catalog revision
//!   in the same transaction, so a cache that compares revisions cannot miss it.
//! - **Every change of an operation is recorded** in the transaction of the change (`audit`).

mod accounts;
mod active;
pub mod audit;
pub mod blob_exports;
mod browser_sessions;
mod budgets;
mod categories;
mod checks;
pub mod comments;
pub mod connections;
pub mod dashboards;
pub mod dataset_imports;
pub mod datasets;
mod default_models;
mod endpoint_secrets;
mod evaluator_use;
mod evaluators;
mod key_changes;
mod keys;
mod models;
mod names;
mod observation_references;
mod organizations;
mod plugins;
mod prices;
mod projects;
pub mod prompts;
pub mod queues;
mod revision;
mod row;
mod rule_changes;
mod rules;
mod score_configs;
pub mod sealed;
mod secret_hash;
pub mod skills;
mod sweep;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod users;

pub use accounts::{
    ACCOUNT_EXISTS, AcceptingAccount, Account, AccountLink, AccountSession, EMAIL_TAKEN,
    LinkPurpose, Membership, NewAccount, NewLink,
};
pub use active::{ActiveCatalog, ActiveRule};
pub use browser_sessions::{BrowserSession, SessionDigest, SessionOrigin};
pub use categories::Categories;
pub use default_models::ModelUser;
pub use endpoint_secrets::{delete_endpoint_secret, put_endpoint_secret};
pub use evaluator_use::{EvaluatorRule, VersionFingerprint};
pub use evaluators::{NewEvaluator, NewVersion, RuleUse, Successor, UsedVersions};
pub use key_changes::{KeyPatch, MAX_OVERLAP_HOURS, NewSecret};
pub use keys::{ApiKey, KeyOwner, KeyRotation, MAX_KEYS, NewApiKey, Rights};
pub use names::{NameMatches, NamedKind};
pub use observation_references::ObservationReferences;
pub use organizations::{MAX_PROJECTS, NewProject, ProjectPatch};
pub use plugins::{Plugin, PluginUser};
pub use prices::Prices;
pub use projects::{Init, Organization, Project};
pub use revision::{PauseOutcome, lock_revision};
pub use rule_changes::RuleChange;
pub use rules::{MAX_ACTIVE_RULES, RulePatch};
pub use secret_hash::{InvalidSecretHash, SecretHash};
pub use sweep::DeletedProject;
pub use users::{LAST_OWNER, MAX_USERS, NewUser, User};

pub use perpend_db::Error;

use perpend_db::Pool;

/// Handle to the stored configuration, cheap to clone.
#[derive(Clone, Debug)]
pub struct Catalog {
    pool: Pool,
}

impl Catalog {
    /// For a database with the current schema.
    #[must_use]
    pub fn new(pool: &Pool) -> Self {
        Self { pool: pool.clone() }
    }
}
