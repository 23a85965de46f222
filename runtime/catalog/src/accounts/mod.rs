//! Accounts: people who sign in, once per installation. What they may do is decided by their memberships.
//!
//! Invariants:
//! - **An e-mail address belongs to one account.** Addresses are stored in lower case.
//! - **Only one first owner is created**, also by requests at the same time: the organization is locked.
//! - **No row can be used to sign in.** Rows hold hashes of passwords, of references of sessions and of tokens of links.
//! - **A new password ends every session** of its account, and every open link that sets one, in the same transaction.

mod account;
mod links;
mod sessions;

use perpend_db::{Arg, checked, in_transaction, query, query_scalar};
use perpend_domain::access::Role;
use perpend_domain::ids::{OrganizationId, ProjectId, UserId};
use perpend_domain::time::Timestamp;
use serde_json::json;

pub use account::{Account, EMAIL_TAKEN, NewAccount};
pub use links::{AcceptingAccount, AccountLink, LinkPurpose, NewLink};
pub use sessions::AccountSession;

use crate::audit;
use crate::keys::LOCK_ORGANIZATION;
use crate::{Catalog, Error};
use account::{AccountRow, SET_PASSWORD, identify, insert_account};

/// The conflict of a second first owner.
pub const ACCOUNT_EXISTS: &str = "an account exists";

/// The role of an account in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The project.
    pub project: ProjectId,
    /// Its organization.
    pub organization: OrganizationId,
    /// Id of the member in the organization.
    pub user: UserId,
    /// Role in the organization.
    pub organization_role: Role,
    /// Role of its own in the project.
    pub project_role: Option<Role>,
}

impl Membership {
    /// The role that applies in the project.
    #[must_use]
    pub const fn role(&self) -> Role {
        Role::in_project(self.organization_role, self.project_role)
    }
}

perpend_db::record! {
    struct MembershipRow {
        project_id: String,
        organization_id: String,
        user_id: String,
        role: String,
        project_role: Option<String>,
    }
}

impl TryFrom<MembershipRow> for Membership {
    type Error = Error;

    fn try_from(row: MembershipRow) -> Result<Self, Error> {
        let project_role = row.project_role.as_deref();
        Ok(Self {
            project: checked("project", &row.project_id)?,
            organization: checked("organization", &row.organization_id)?,
            user: checked("user", &row.user_id)?,
            organization_role: checked("role", &row.role)?,
            project_role: project_role.map(|role| checked("role", role)).transpose()?,
        })
    }
}

const BY_EMAIL: &str = "
    SELECT id, email, name, password_hash, is_operator, is_active FROM accounts WHERE email = $1";
const GET: &str = "
    SELECT id, email, name, password_hash, is_operator, is_active FROM accounts WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM accounts";
/// A user who is known by this user name, or has left, gets the account.
const PUT_OWNER: &str = "
    INSERT INTO users
        (organization_id, id, user_name, email, name, role, is_active, created_at, updated_at, account_id)
    VALUES ($1, $2, $3, $3, $4, 'OWNER', 1, $5, $5, $6)
    ON CONFLICT (organization_id, user_name) DO UPDATE SET
        name = excluded.name, role = 'OWNER', is_active = 1, left_at = NULL,
        updated_at = excluded.updated_at, account_id = excluded.account_id";
const END_KEY_SESSIONS: &str = "DELETE FROM browser_sessions";
const RENAME: &str = "UPDATE accounts SET name = $2, updated_at = $3 WHERE id = $1";
const RENAME_MEMBER: &str = "UPDATE users SET name = $2, updated_at = $3 WHERE account_id = $1";
/// Of active members, in projects that exist, oldest project first.
const MEMBERSHIPS: &str = "
    SELECT p.id AS project_id, u.organization_id, u.id AS user_id, u.role, m.role AS project_role
      FROM users u
      JOIN projects p ON p.organization_id = u.organization_id AND p.deleted_at IS NULL
      LEFT JOIN project_members m ON m.project_id = p.id AND m.user_id = u.id
     WHERE u.account_id = $1 AND u.left_at IS NULL AND u.is_active = 1
     ORDER BY p.created_at, p.id";

/// The accounts of the active members of an organization.
const MEMBER_ACCOUNTS: &str = "
    SELECT id, account_id FROM users
     WHERE organization_id = $1 AND account_id IS NOT NULL AND left_at IS NULL AND is_active = 1";
/// Memberships of an account in other organizations, also former ones.
const COUNT_ELSEWHERE: &str = "
    SELECT COUNT(*) FROM users WHERE account_id = $1 AND organization_id <> $2";

impl Catalog {
    async fn one_account(&self, sql: &'static str, key: &str) -> Result<Option<Account>, Error> {
        let rows: Vec<AccountRow> = self.pool.select(sql, &[key.into()]).await?;
        Ok(rows.into_iter().next().map(Account::from))
    }

    /// The account with this e-mail address, in lower case. Crosses tenants: accounts belong to the installation.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn account_by_email(&self, email: &str) -> Result<Option<Account>, Error> {
        self.one_account(BY_EMAIL, email).await
    }

    /// An account.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn account(&self, id: &str) -> Result<Option<Account>, Error> {
        self.one_account(GET, id).await
    }

    /// Whether the installation has an account. Key pairs then no longer sign in to pages.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn has_accounts(&self) -> Result<bool, Error> {
        let counted: Vec<(i64,)> = self.pool.select(COUNT, &[]).await?;
        Ok(counted.first().is_some_and(|(n,)| 0 < *n))
    }

    /// Creates the first account, as owner of the organization and operator of the installation, and ends all
    /// sessions of key pairs and login tokens.
    ///
    /// # Errors
    /// [`Error::Conflict`] with [`ACCOUNT_EXISTS`]; [`Error::NotFound`] if the organization does not exist.
    pub async fn create_first_account(
        &self,
        organization: &OrganizationId,
        account: &NewAccount,
        (user, now): (&UserId, Timestamp),
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let lock = query(LOCK_ORGANIZATION).bind(organization.as_str());
            if lock.execute(&mut tx).await? == 0 {
                return Err(Error::NotFound);
            }
            let n_accounts: i64 = query_scalar(COUNT).fetch_one(&mut tx).await?;
            if 0 < n_accounts {
                return Err(Error::Conflict(ACCOUNT_EXISTS));
            }
            insert_account(&mut tx, account, true, now).await?;
            query(PUT_OWNER)
                .bind(organization.as_str())
                .bind(user.as_str())
                .bind(account.email.as_str())
                .bind(account.name.as_str())
                .bind(now.as_micros())
                .bind(account.id.as_str())
                .execute(&mut tx)
                .await?;
            query(END_KEY_SESSIONS).execute(&mut tx).await?;
            identify(&mut tx, &account.id).await?;
            audit::note("account", &account.id, None, None);
        });
        Ok(())
    }

    /// The roles of an account in all projects of its organizations, also `NONE`, oldest project first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn memberships(&self, account: &str) -> Result<Vec<Membership>, Error> {
        let rows: Vec<MembershipRow> = self.pool.select(MEMBERSHIPS, &[account.into()]).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Sets the password of an active account, and ends all its sessions and open resets.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the account does not exist or is not active.
    pub async fn set_password(
        &self,
        account: &str,
        password_hash: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let args: [Arg<'_>; 3] = [account.into(), password_hash.into(), now.as_micros().into()];
            if tx.execute(SET_PASSWORD, &args).await? == 0 {
                return Err(Error::NotFound);
            }
            tx.execute(sessions::END_ALL, &[account.into()]).await?;
            tx.execute(links::END_RESETS, &[account.into()]).await?;
            identify(&mut tx, account).await?;
            audit::note("account", account, None, Some(json!({ "password": { "changed": true } })));
        });
        Ok(())
    }

    /// Changes the name of an account and of its memberships.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rename_account(
        &self,
        account: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        in_transaction!(&self.pool, |tx| {
            let args: [Arg<'_>; 3] = [account.into(), name.into(), now.as_micros().into()];
            tx.execute(RENAME, &args).await?;
            tx.execute(RENAME_MEMBER, &args).await?;
        });
        Ok(())
    }

    /// Ids of the active members of an organization who have an account, with the id of the account.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn member_accounts(
        &self,
        organization: &OrganizationId,
    ) -> Result<Vec<(String, String)>, Error> {
        self.pool.select(MEMBER_ACCOUNTS, &[organization.as_str().into()]).await
    }

    /// Whether an account is or was a member of another organization.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_account_elsewhere(
        &self,
        account: &str,
        organization: &OrganizationId,
    ) -> Result<bool, Error> {
        let args: [Arg<'_>; 2] = [account.into(), organization.as_str().into()];
        let counted: Vec<(i64,)> = self.pool.select(COUNT_ELSEWHERE, &args).await?;
        Ok(counted.first().is_some_and(|(n,)| 0 < *n))
    }
}
