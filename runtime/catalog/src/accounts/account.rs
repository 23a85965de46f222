//! Rows of accounts.

use std::fmt;

use perpend_db::{Tx, checked, query};
use perpend_domain::time::Timestamp;

use crate::audit::{self, AuditActor};
use crate::{Error, KeyOwner};

/// The conflict of a new account with the e-mail address of another one.
pub const EMAIL_TAKEN: &str = "an account has this e-mail address";

/// A new account.
#[derive(Clone, PartialEq, Eq)]
pub struct NewAccount {
    /// The id.
    pub id: String,
    /// In lower case.
    pub email: String,
    /// Display name.
    pub name: String,
    /// Hash of the password, with its parameters.
    pub password_hash: String,
}

/// An account.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The id.
    pub id: String,
    /// In lower case.
    pub email: String,
    /// Display name.
    pub name: String,
    /// Hash of the password; absent before one is set.
    pub password_hash: Option<String>,
    /// Whether the account is one of the operator of the installation.
    pub is_operator: bool,
    /// Whether it may sign in.
    pub is_active: bool,
}

// The hash of a password does not reach a log by way of `{:?}`.
impl fmt::Debug for NewAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAccount").field("id", &self.id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("id", &self.id).finish_non_exhaustive()
    }
}

perpend_db::record! {
    pub(super) struct AccountRow {
        id: String,
        email: String,
        name: String,
        password_hash: Option<String>,
        is_operator: i16,
        is_active: i16,
    }
}

impl From<AccountRow> for Account {
    fn from(row: AccountRow) -> Self {
        Self {
            id: row.id,
            email: row.email,
            name: row.name,
            password_hash: row.password_hash,
            is_operator: row.is_operator != 0,
            is_active: row.is_active != 0,
        }
    }
}

pub(super) const COUNT_EMAIL: &str = "SELECT COUNT(*) FROM accounts WHERE email = $1";
const INSERT: &str = "
    INSERT INTO accounts
        (id, email, name, password_hash, is_operator, is_active, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, 1, $6, $6)";
pub(super) const SET_PASSWORD: &str = "
    UPDATE accounts SET password_hash = $2, updated_at = $3 WHERE id = $1 AND is_active = 1";
/// The first membership of an account: the audit trail of its organization records what the account does to itself.
const FIRST_MEMBERSHIP: &str = "
    SELECT organization_id, id FROM users
     WHERE account_id = $1 AND left_at IS NULL ORDER BY created_at, organization_id LIMIT 1";

/// Makes an account the actor of the operation that runs, such as a sign-in.
pub(super) async fn identify(tx: &mut Tx, account: &str) -> Result<(), Error> {
    let found: Option<(String, String)> =
        query(FIRST_MEMBERSHIP).bind(account).fetch_optional(tx).await?;
    if let Some((organization, member)) = found {
        let owner = KeyOwner::Organization(checked("organization", &organization)?);
        audit::identify(owner, AuditActor { kind: "member".to_owned(), name: Some(member) });
    }
    Ok(())
}

pub(super) async fn insert_account(
    tx: &mut Tx,
    account: &NewAccount,
    is_operator: bool,
    now: Timestamp,
) -> Result<(), Error> {
    query(INSERT)
        .bind(account.id.as_str())
        .bind(account.email.as_str())
        .bind(account.name.as_str())
        .bind(account.password_hash.as_str())
        .bind(i64::from(is_operator))
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}
