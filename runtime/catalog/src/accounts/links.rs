//! One-time links: invitations to an organization, and resets of a password.
//!
//! Invariants:
//! - **A link works once.** Its row is deleted in the transaction that uses it.
//! - **An invitation gives the role that it names to a new member.** It changes neither the role of a member nor
//!   activates a deactivated user.

use perpend_db::{Arg, Tx, checked, in_transaction, query, query_scalar};
use perpend_domain::access::Role;
use perpend_domain::ids::{OrganizationId, UserId};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::account::{
    COUNT_EMAIL, EMAIL_TAKEN, NewAccount, SET_PASSWORD, identify, insert_account,
};
use super::sessions;
use crate::audit::{self, AuditActor};
use crate::keys::LOCK_ORGANIZATION;
use crate::{Catalog, Error, KeyOwner, MAX_USERS, SessionDigest};

/// Open invitations of an organization.
const MAX_INVITATIONS: i64 = 200;

/// What a link is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPurpose {
    /// To become a member of an organization.
    Invitation {
        /// The organization.
        organization: OrganizationId,
        /// Role in the organization.
        role: Role,
    },
    /// To set the password of an account.
    Reset {
        /// Id of the account.
        account: String,
    },
}

/// A new link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// SHA-256 of its token.
    pub digest: SessionDigest,
    /// Identifies it in lists and forms. It opens nothing.
    pub id: String,
    /// What it is for.
    pub purpose: LinkPurpose,
    /// E-mail address of the person, in lower case.
    pub email: String,
    /// Id of the user who created it, or the name of a command.
    pub created_by: String,
    /// End of its validity.
    pub expires_at: Timestamp,
}

/// A link that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLink {
    /// The link as created.
    pub made: NewLink,
    /// Time of creation.
    pub created_at: Timestamp,
}

perpend_db::record! {
    struct LinkRow {
        digest: Vec<u8>,
        id: String,
        organization_id: Option<String>,
        account_id: Option<String>,
        email: String,
        role: Option<String>,
        created_by: String,
        created_at: i64,
        expires_at: i64,
    }
}

impl TryFrom<LinkRow> for AccountLink {
    type Error = Error;

    fn try_from(row: LinkRow) -> Result<Self, Error> {
        let inconsistent =
            |detail: &str| Error::Inconsistent { what: "link", detail: detail.to_owned() };
        let purpose = match (row.organization_id, row.role, row.account_id) {
            (Some(organization), Some(role), None) => LinkPurpose::Invitation {
                organization: checked("organization", &organization)?,
                role: checked("role", &role)?,
            },
            (None, None, Some(account)) => LinkPurpose::Reset { account },
            _ => return Err(inconsistent("expected either an invitation or a reset")),
        };
        let digest = row.digest.try_into();
        Ok(Self {
            made: NewLink {
                digest: digest.map_err(|_| inconsistent("expected a digest of 32 bytes"))?,
                id: row.id,
                purpose,
                email: row.email,
                created_by: row.created_by,
                expires_at: Timestamp::from_micros(row.expires_at),
            },
            created_at: Timestamp::from_micros(row.created_at),
        })
    }
}

macro_rules! select_links {
    ($rest:literal) => {
        concat!(
            "SELECT digest, id, organization_id, account_id, email, role, created_by, created_at, expires_at
               FROM account_links ",
            $rest
        )
    };
}

const GET: &str = select_links!("WHERE digest = $1 AND $2 < expires_at");
const INVITATIONS: &str =
    select_links!("WHERE organization_id = $1 AND $2 < expires_at ORDER BY created_at, id");
const COUNT_INVITATIONS: &str = "
    SELECT COUNT(*) FROM account_links WHERE organization_id = $1 AND $2 < expires_at";
const INSERT: &str = "
    INSERT INTO account_links (digest, id, purpose, organization_id, account_id, email, role, created_by,
                               created_at, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const END_INVITATION_OF: &str =
    "DELETE FROM account_links WHERE organization_id = $1 AND email = $2";
pub(super) const END_RESETS: &str = "DELETE FROM account_links WHERE account_id = $1";
const REVOKE: &str = "DELETE FROM account_links WHERE organization_id = $1 AND id = $2";
const TAKE: &str = "DELETE FROM account_links WHERE digest = $1 AND $2 < expires_at";
const DELETE_EXPIRED: &str = "DELETE FROM account_links WHERE expires_at <= $1";
/// The role of a member without account.
const ROLE_WITHOUT_ACCOUNT: &str = "
    SELECT role FROM users
     WHERE organization_id = $1 AND user_name = $2 AND left_at IS NULL AND account_id IS NULL";
const COUNT_USERS: &str = "SELECT COUNT(*) FROM users WHERE organization_id = $1";
/// A former member gets the role of the invitation.
const JOIN: &str = "
    INSERT INTO users
        (organization_id, id, user_name, email, name, role, is_active, created_at, updated_at, account_id)
    VALUES ($1, $2, $3, $3, $4, $5, 1, $6, $6, $7)
    ON CONFLICT (organization_id, user_name) DO UPDATE SET
        account_id = excluded.account_id, updated_at = excluded.updated_at,
        role = CASE WHEN users.left_at IS NULL THEN users.role ELSE excluded.role END,
        is_active = CASE WHEN users.left_at IS NULL THEN users.is_active ELSE 1 END,
        left_at = NULL
        WHERE users.account_id IS NULL OR users.account_id = excluded.account_id";

const MEMBER_OF_ACCOUNT: &str = "
    SELECT id FROM users WHERE organization_id = $1 AND account_id = $2 AND user_name = $3";

/// The account that accepts an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptingAccount {
    /// One that is created with the e-mail address of the invitation.
    New(NewAccount),
    /// One that has signed in.
    Existing {
        /// Id of the account.
        id: String,
        /// Display name.
        name: String,
    },
}

impl AcceptingAccount {
    fn id_and_name(&self) -> (&str, &str) {
        match self {
            Self::New(account) => (&account.id, &account.name),
            Self::Existing { id, name } => (id, name),
        }
    }
}

impl Catalog {
    /// Creates a link. It replaces an open one of the same purpose for the same person.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the organization has too many open invitations.
    pub async fn create_link(&self, link: &NewLink, now: Timestamp) -> Result<(), Error> {
        let (purpose, organization, account, role) = match &link.purpose {
            LinkPurpose::Invitation { organization, role } => {
                ("INVITATION", Some(organization.as_str()), None, Some(role.as_str()))
            }
            LinkPurpose::Reset { account } => ("RESET", None, Some(account.as_str()), None),
        };
        let row: [Arg<'_>; 10] = [
            link.digest.as_slice().into(),
            link.id.as_str().into(),
            purpose.into(),
            organization.into(),
            account.into(),
            link.email.as_str().into(),
            role.into(),
            link.created_by.as_str().into(),
            now.as_micros().into(),
            link.expires_at.as_micros().into(),
        ];
        in_transaction!(&self.pool, |tx| {
            if let Some(organization) = organization {
                query(LOCK_ORGANIZATION).bind(organization).execute(&mut tx).await?;
                let replaced: [Arg<'_>; 2] = [organization.into(), link.email.as_str().into()];
                tx.execute(END_INVITATION_OF, &replaced).await?;
                let n_open: i64 = query_scalar(COUNT_INVITATIONS)
                    .bind(organization)
                    .bind(now.as_micros())
                    .fetch_one(&mut tx)
                    .await?;
                if MAX_INVITATIONS <= n_open {
                    return Err(Error::Conflict("the organization has 200 open invitations"));
                }
            }
            if let Some(account) = account {
                tx.execute(END_RESETS, &[account.into()]).await?;
            }
            tx.execute(INSERT, &row).await?;
            match &link.purpose {
                LinkPurpose::Invitation { role, .. } => {
                    let after = json!({ "email": link.email, "role": role.as_str() });
                    audit::note("invitation", &link.id, None, Some(after));
                }
                LinkPurpose::Reset { account } => {
                    let after = json!({ "resetLink": { "changed": true } });
                    audit::note("account", account, None, Some(after));
                }
            }
        });
        Ok(())
    }

    /// The link with this digest, while it is valid. Crosses tenants: the digest identifies it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn account_link(
        &self,
        digest: &SessionDigest,
        now: Timestamp,
    ) -> Result<Option<AccountLink>, Error> {
        let args: [Arg<'_>; 2] = [digest.as_slice().into(), now.as_micros().into()];
        let rows: Vec<LinkRow> = self.pool.select(GET, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// The open invitations of an organization, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn invitations(
        &self,
        organization: &OrganizationId,
        now: Timestamp,
    ) -> Result<Vec<AccountLink>, Error> {
        let args: [Arg<'_>; 2] = [organization.as_str().into(), now.as_micros().into()];
        let rows: Vec<LinkRow> = self.pool.select(INVITATIONS, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Revokes an invitation.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no such open invitation.
    pub async fn revoke_invitation(
        &self,
        organization: &OrganizationId,
        id: &str,
    ) -> Result<(), Error> {
        audit::note("invitation", id, None, None);
        match self.pool.change(REVOKE, &[organization.as_str().into(), id.into()]).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Uses an invitation: the account becomes a member of the organization. `user` is the id of a new member.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the link is unknown, used or expired; [`Error::Conflict`] with [`EMAIL_TAKEN`] if a new
    /// account cannot be created, or another one if the member belongs to another account or the organization is full.
    pub async fn accept_invitation(
        &self,
        link: &NewLink,
        account: &AcceptingAccount,
        (user, now): (&UserId, Timestamp),
    ) -> Result<(), Error> {
        let LinkPurpose::Invitation { organization, role } = &link.purpose else {
            return Err(Error::NotFound);
        };
        let (account_id, name) = account.id_and_name();
        in_transaction!(&self.pool, |tx| {
            query(LOCK_ORGANIZATION).bind(organization.as_str()).execute(&mut tx).await?;
            take(&mut tx, &link.digest, now).await?;
            let n_users: i64 =
                query_scalar(COUNT_USERS).bind(organization.as_str()).fetch_one(&mut tx).await?;
            if i64::from(MAX_USERS) <= n_users {
                return Err(Error::Conflict("the organization has 10000 users"));
            }
            // An invitation gives no access to a user with a higher role from a directory.
            let provisioned: Option<String> = query_scalar(ROLE_WITHOUT_ACCOUNT)
                .bind(organization.as_str())
                .bind(link.email.as_str())
                .fetch_optional(&mut tx)
                .await?;
            let provisioned = provisioned.map(|role| checked::<Role>("role", &role)).transpose()?;
            if provisioned.is_some_and(|given| !role.is_at_least(given)) {
                return Err(Error::Conflict(
                    "the member has a higher role than the invitation; ask for one with that role",
                ));
            }
            if let AcceptingAccount::New(account) = account {
                let n_taken: i64 = query_scalar(COUNT_EMAIL)
                    .bind(account.email.as_str())
                    .fetch_one(&mut tx)
                    .await?;
                if 0 < n_taken {
                    return Err(Error::Conflict(EMAIL_TAKEN));
                }
                insert_account(&mut tx, account, false, now).await?;
            }
            let n_joined = query(JOIN)
                .bind(organization.as_str())
                .bind(user.as_str())
                .bind(link.email.as_str())
                .bind(name)
                .bind(role.as_str())
                .bind(now.as_micros())
                .bind(account_id)
                .execute(&mut tx)
                .await?;
            if n_joined == 0 {
                return Err(Error::Conflict("this member belongs to another account"));
            }
            let member: String = query_scalar(MEMBER_OF_ACCOUNT)
                .bind(organization.as_str())
                .bind(account_id)
                .bind(link.email.as_str())
                .fetch_one(&mut tx)
                .await?;
            // In the trail of this organization, also if the account is a member of another one.
            let actor = AuditActor { kind: "member".to_owned(), name: Some(member.clone()) };
            audit::identify(KeyOwner::Organization(organization.clone()), actor);
            audit::note("member", &member, None, Some(json!({ "role": role.as_str() })));
        });
        Ok(())
    }

    /// Uses a reset: sets the password of its account, and ends the sessions of the account.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the link is unknown, used or expired, or the account is not active.
    pub async fn use_reset(
        &self,
        link: &NewLink,
        password_hash: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let LinkPurpose::Reset { account } = &link.purpose else {
            return Err(Error::NotFound);
        };
        in_transaction!(&self.pool, |tx| {
            take(&mut tx, &link.digest, now).await?;
            let account = account.as_str();
            let args: [Arg<'_>; 3] = [account.into(), password_hash.into(), now.as_micros().into()];
            if tx.execute(SET_PASSWORD, &args).await? == 0 {
                return Err(Error::NotFound);
            }
            tx.execute(sessions::END_ALL, &[account.into()]).await?;
            tx.execute(END_RESETS, &[account.into()]).await?;
            identify(&mut tx, account).await?;
            audit::note("account", account, None, Some(json!({ "password": { "changed": true } })));
        });
        Ok(())
    }

    /// Deletes links that have expired. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_expired_links(&self, now: Timestamp) -> Result<(), Error> {
        self.pool.change(DELETE_EXPIRED, &[now.as_micros().into()]).await?;
        Ok(())
    }
}

/// Deletes a valid link.
async fn take(tx: &mut Tx, digest: &SessionDigest, now: Timestamp) -> Result<(), Error> {
    let args: [Arg<'_>; 2] = [digest.as_slice().into(), now.as_micros().into()];
    match tx.execute(TAKE, &args).await? {
        0 => Err(Error::NotFound),
        _ => Ok(()),
    }
}
