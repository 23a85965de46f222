//! Users of organizations and their roles.
//!
//! Invariants:
//! - **A user belongs to one organization.** Another organization with the same person has another user with
//!   another id, so that no data cross between tenants.
//! - **Former users keep their id.** They are not listed. When they return they get the same id, and keep
//!   what they wrote.
//! - **An organization keeps its last owner.** Each change of a role locks the organization and is rolled
//!   back if it leaves no active owner.
//! - **A role does not activate a user.** Roles are given to active users; only [`Catalog::create_user`] and
//!   [`Catalog::update_user`] activate a user.

use perpend_domain::access::Role;
use perpend_domain::ids::{OrganizationId, ProjectId, UserId};
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::keys::LOCK_ORGANIZATION;
use crate::{Catalog, Error, audit};
use perpend_db::{Arg, Tx, checked, in_transaction, query, query_scalar};
use perpend_domain::list::NumberedPage;

/// Maximum of users of an organization, including former ones: the list of its members has no pages.
pub const MAX_USERS: u32 = 10_000;
/// The conflict of a change that would leave an organization without an active owner.
pub const LAST_OWNER: &str = "the organization would have no active owner";

/// A new or changed user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// The id for a new user. An existing user with this user name keeps its id.
    pub id: UserId,
    /// Name at the identity provider, in lower case; unique in the organization.
    pub user_name: String,
    /// E-mail address; usually the user name.
    pub email: String,
    /// Display name.
    pub name: String,
    /// Role in the organization.
    pub role: Role,
    /// An inactive user is no member, but can be read by id.
    pub is_active: bool,
}

/// A user of an organization who has not left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user as created or last changed.
    pub made: NewUser,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

perpend_db::record! {
    struct UserRow {
        id: String,
        user_name: String,
        email: String,
        name: String,
        role: String,
        is_active: i16,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<UserRow> for User {
    type Error = Error;

    fn try_from(row: UserRow) -> Result<Self, Error> {
        Ok(Self {
            made: NewUser {
                id: checked("user", &row.id)?,
                user_name: row.user_name,
                email: row.email,
                name: row.name,
                role: checked("user", &row.role)?,
                is_active: row.is_active != 0,
            },
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// Users of the organization `$1` who have not left, read as [`UserRow`].
macro_rules! select_users {
    ($rest:literal) => {
        concat!(
            "SELECT u.id, u.user_name, u.email, u.name, u.role, u.is_active,
                    u.created_at, u.updated_at
               FROM users u WHERE u.organization_id = $1 AND u.left_at IS NULL ",
            $rest
        )
    };
}

const GET: &str = select_users!("AND u.id = $2");
const BY_NAME: &str = select_users!("AND u.user_name = $2");
const PAGE: &str = select_users!("ORDER BY u.created_at, u.id LIMIT $2 OFFSET $3");
const MEMBERS: &str = select_users!("AND u.is_active = 1 ORDER BY u.created_at, u.id");
/// With the role in the project.
const PROJECT_MEMBERS: &str = "
    SELECT u.id, u.user_name, u.email, u.name, m.role, u.is_active,
           u.created_at, u.updated_at
      FROM project_members m JOIN users u ON u.organization_id = $1 AND u.id = m.user_id
     WHERE m.project_id = $2 AND u.left_at IS NULL AND u.is_active = 1
     ORDER BY m.created_at, u.id";
const IS_MEMBER: &str = "
    SELECT COUNT(*) FROM projects p JOIN users u ON u.organization_id = p.organization_id
     WHERE p.id = $1 AND p.deleted_at IS NULL AND u.id = $2 AND u.left_at IS NULL AND u.is_active = 1";
const COUNT: &str = "SELECT COUNT(*) FROM users WHERE organization_id = $1 AND left_at IS NULL";
const COUNT_ALL: &str = "SELECT COUNT(*) FROM users WHERE organization_id = $1";
/// A user who has left returns under the old id.
const INSERT: &str = "
    INSERT INTO users (organization_id, id, user_name, email, name, role, is_active, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)
    ON CONFLICT (organization_id, user_name) DO UPDATE SET
        email = excluded.email, name = excluded.name, role = excluded.role,
        is_active = excluded.is_active, left_at = NULL, updated_at = excluded.updated_at
        WHERE users.left_at IS NOT NULL";
const IS_TAKEN: &str = "
    SELECT COUNT(*) FROM users WHERE organization_id = $1 AND user_name = $2 AND id <> $3";
const UPDATE: &str = "
    UPDATE users
       SET user_name = $3, email = $4, name = $5, role = $6, is_active = $7, updated_at = $8
     WHERE organization_id = $1 AND id = $2 AND left_at IS NULL";
const SET_ROLE: &str = "
    UPDATE users SET role = $3, updated_at = $4
     WHERE organization_id = $1 AND id = $2 AND left_at IS NULL AND is_active = 1";
const IS_ACTIVE: &str = "
    SELECT CAST(is_active AS BIGINT) FROM users
     WHERE organization_id = $1 AND id = $2 AND left_at IS NULL";
const COUNT_OWNERS: &str = "
    SELECT COUNT(*) FROM users
     WHERE organization_id = $1 AND role = 'OWNER' AND left_at IS NULL AND is_active = 1";
/// Owners who can sign in.
const COUNT_SIGNING_OWNERS: &str = "
    SELECT COUNT(*) FROM users u JOIN accounts a ON a.id = u.account_id AND a.is_active = 1
     WHERE u.organization_id = $1 AND u.role = 'OWNER' AND u.left_at IS NULL AND u.is_active = 1";
const LEAVE: &str = "
    UPDATE users SET left_at = $3, updated_at = $3
     WHERE organization_id = $1 AND id = $2 AND left_at IS NULL";
/// Users who left an organization lose their assignments and roles in its projects.
const UNASSIGN: &str = "
    DELETE FROM annotation_assignments
     WHERE user_id = $2 AND project_id IN (SELECT id FROM projects WHERE organization_id = $1)";
const LEAVE_PROJECTS: &str = "
    DELETE FROM project_members
     WHERE user_id = $2 AND project_id IN (SELECT id FROM projects WHERE organization_id = $1)";
/// Open invitations of a user, and links that the user created.
const END_LINKS: &str = "
    DELETE FROM account_links
     WHERE created_by = $2
        OR (organization_id = $1
            AND email = (SELECT user_name FROM users WHERE organization_id = $1 AND id = $2))";
/// Links that a member created with a higher role.
const END_CREATED_LINKS: &str = "DELETE FROM account_links WHERE created_by = $1";
/// For an active member of the organization `$5`, in one of its projects.
const SET_PROJECT_ROLE: &str = "
    INSERT INTO project_members (project_id, user_id, role, created_at)
    SELECT p.id, u.id, $3, $4
      FROM projects p JOIN users u ON u.organization_id = p.organization_id
     WHERE p.organization_id = $5 AND p.id = $1 AND u.id = $2 AND u.left_at IS NULL AND u.is_active = 1
    ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role";
const LEAVE_PROJECT: &str = "
    DELETE FROM project_members
     WHERE project_id = (SELECT id FROM projects WHERE organization_id = $1 AND id = $2) AND user_id = $3";

/// Numbers of active owners of an organization.
#[derive(Clone, Copy)]
struct OwnerCounts {
    active: i64,
    /// Those who can sign in.
    signing: i64,
}

/// Locks an organization; returns the numbers of active owners.
async fn lock_owners(tx: &mut Tx, organization: &OrganizationId) -> Result<OwnerCounts, Error> {
    let n_locked = query(LOCK_ORGANIZATION).bind(organization.as_str()).execute(&mut *tx).await?;
    match n_locked {
        0 => Err(Error::NotFound),
        _ => n_owners(tx, organization).await,
    }
}

async fn n_owners(tx: &mut Tx, organization: &OrganizationId) -> Result<OwnerCounts, Error> {
    let active = query_scalar(COUNT_OWNERS).bind(organization.as_str()).fetch_one(&mut *tx).await?;
    let signing = query_scalar(COUNT_SIGNING_OWNERS).bind(organization.as_str());
    Ok(OwnerCounts { active, signing: signing.fetch_one(tx).await? })
}

/// Refuses to commit a change that removed the last owner, or the last one who can sign in.
async fn ensure_owner(
    tx: &mut Tx,
    organization: &OrganizationId,
    before: OwnerCounts,
) -> Result<(), Error> {
    let after = n_owners(tx, organization).await?;
    let is_last = |before: i64, after: i64| 0 < before && after == 0;
    match is_last(before.active, after.active) || is_last(before.signing, after.signing) {
        true => Err(Error::Conflict(LAST_OWNER)),
        false => Ok(()),
    }
}

/// Describes the change of a role for the audit trail.
fn note_role(kind: &str, user: &UserId, before: Option<Role>, after: Option<Role>) {
    let state = |role: Role| json!({ "role": role.as_str() });
    audit::note(kind, user.as_str(), before.map(state), after.map(state));
}

impl Catalog {
    async fn one_user(&self, sql: &str, args: &[Arg<'_>]) -> Result<Option<User>, Error> {
        let rows: Vec<UserRow> = self.pool.select(sql, args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    async fn count_users(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        let counted: Vec<(i64,)> = self.pool.select(sql, args).await?;
        Ok(counted.first().map_or(0, |(n,)| n.unsigned_abs()))
    }

    /// A user of the organization, active or not.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn user(
        &self,
        organization: &OrganizationId,
        id: &UserId,
    ) -> Result<Option<User>, Error> {
        let args: [Arg<'_>; 2] = [organization.as_str().into(), id.as_str().into()];
        self.one_user(GET, &args).await
    }

    /// The user with this user name, in lower case.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn user_by_name(
        &self,
        organization: &OrganizationId,
        name: &str,
    ) -> Result<Option<User>, Error> {
        let args: [Arg<'_>; 2] = [organization.as_str().into(), name.into()];
        self.one_user(BY_NAME, &args).await
    }

    /// Users of the organization, oldest first, `limit` of them after `offset`, and the total.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn users(
        &self,
        organization: &OrganizationId,
        offset: u32,
        limit: u32,
    ) -> Result<NumberedPage<User>, Error> {
        let organization: Arg<'_> = organization.as_str().into();
        let n_total = self.count_users(COUNT, std::slice::from_ref(&organization)).await?;
        let args = [organization, i64::from(limit).into(), i64::from(offset).into()];
        let rows: Vec<UserRow> = self.pool.select(PAGE, &args).await?;
        let items = rows.into_iter().map(TryInto::try_into);
        Ok(NumberedPage { items: items.collect::<Result<_, _>>()?, n_total })
    }

    /// Creates a user, or restores one who had left. Returns the user.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the user name is taken, or the organization has [`MAX_USERS`];
    /// [`Error::NotFound`] if the organization does not exist.
    pub async fn create_user(
        &self,
        organization: &OrganizationId,
        user: &NewUser,
        now: Timestamp,
    ) -> Result<User, Error> {
        in_transaction!(&self.pool, |tx| {
            let n_locked =
                query(LOCK_ORGANIZATION).bind(organization.as_str()).execute(&mut tx).await?;
            if n_locked == 0 {
                return Err(Error::NotFound);
            }
            let n_known: i64 =
                query_scalar(COUNT_ALL).bind(organization.as_str()).fetch_one(&mut tx).await?;
            if i64::from(MAX_USERS) <= n_known {
                return Err(Error::Conflict("the organization has 10000 users"));
            }
            let n_made = query(INSERT)
                .bind(organization.as_str())
                .bind(user.id.as_str())
                .bind(&user.user_name)
                .bind(&user.email)
                .bind(&user.name)
                .bind(user.role.as_str())
                .bind(i64::from(user.is_active))
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_made == 0 {
                return Err(Error::Conflict("the user name is taken"));
            }
            audit::note("user", user.id.as_str(), None, Some(audit::objects::user(user)));
        });
        let made = self.user_by_name(organization, &user.user_name).await?;
        made.ok_or(Error::NotFound)
    }

    /// Replaces the data of the user `user.id`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no user with this id, [`Error::Conflict`] if another user
    /// has the user name, or with [`LAST_OWNER`].
    pub async fn update_user(
        &self,
        organization: &OrganizationId,
        user: &NewUser,
        now: Timestamp,
    ) -> Result<User, Error> {
        let before = self.user(organization, &user.id).await?;
        in_transaction!(&self.pool, |tx| {
            let owners = lock_owners(&mut tx, organization).await?;
            let n_others: i64 = query_scalar(IS_TAKEN)
                .bind(organization.as_str())
                .bind(&user.user_name)
                .bind(user.id.as_str())
                .fetch_one(&mut tx)
                .await?;
            if 0 < n_others {
                return Err(Error::Conflict("the user name is taken"));
            }
            if !user.is_active {
                for sql in [UNASSIGN, END_LINKS] {
                    query(sql)
                        .bind(organization.as_str())
                        .bind(user.id.as_str())
                        .execute(&mut tx)
                        .await?;
                }
            }
            let n_changed = query(UPDATE)
                .bind(organization.as_str())
                .bind(user.id.as_str())
                .bind(&user.user_name)
                .bind(&user.email)
                .bind(&user.name)
                .bind(user.role.as_str())
                .bind(i64::from(user.is_active))
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_changed == 0 {
                return Err(Error::NotFound);
            }
            ensure_owner(&mut tx, organization, owners).await?;
            if before.as_ref().is_some_and(|before| !user.role.is_at_least(before.made.role)) {
                query(END_CREATED_LINKS).bind(user.id.as_str()).execute(&mut tx).await?;
            }
            let before = before.as_ref().map(|before| audit::objects::user(&before.made));
            audit::note("user", user.id.as_str(), before, Some(audit::objects::user(user)));
        });
        let changed = self.user(organization, &user.id).await?;
        changed.ok_or(Error::NotFound)
    }

    /// The active users of the organization, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn members(&self, organization: &OrganizationId) -> Result<Vec<User>, Error> {
        let args: [Arg<'_>; 1] = [organization.as_str().into()];
        let rows: Vec<UserRow> = self.pool.select(MEMBERS, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Sets the role of an active user of the organization. Returns the user.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no user with this id, [`Error::Conflict`] if the user is
    /// deactivated, or with [`LAST_OWNER`].
    pub async fn set_member(
        &self,
        organization: &OrganizationId,
        id: &UserId,
        role: Role,
        now: Timestamp,
    ) -> Result<User, Error> {
        let before = self.user(organization, id).await?;
        in_transaction!(&self.pool, |tx| {
            let owners = lock_owners(&mut tx, organization).await?;
            let is_active: Option<i64> = query_scalar(IS_ACTIVE)
                .bind(organization.as_str())
                .bind(id.as_str())
                .fetch_optional(&mut tx)
                .await?;
            match is_active {
                None => return Err(Error::NotFound),
                Some(0) => {
                    return Err(Error::Conflict(
                        "the user is deactivated; activate the user over SCIM first",
                    ));
                }
                Some(_) => {}
            }
            query(SET_ROLE)
                .bind(organization.as_str())
                .bind(id.as_str())
                .bind(role.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            ensure_owner(&mut tx, organization, owners).await?;
            let given = before.as_ref().map(|before| before.made.role);
            if given.is_some_and(|given| !role.is_at_least(given)) {
                query(END_CREATED_LINKS).bind(id.as_str()).execute(&mut tx).await?;
            }
            note_role("member", id, given, Some(role));
        });
        let found = self.user(organization, id).await?;
        found.ok_or(Error::NotFound)
    }

    /// Removes a user from the organization, with all roles and assignments in its projects.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no user with this id, [`Error::Conflict`] with
    /// [`LAST_OWNER`].
    pub async fn remove_member(
        &self,
        organization: &OrganizationId,
        id: &UserId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let before = self.user(organization, id).await?;
        in_transaction!(&self.pool, |tx| {
            let owners = lock_owners(&mut tx, organization).await?;
            for sql in [UNASSIGN, LEAVE_PROJECTS, END_LINKS] {
                query(sql).bind(organization.as_str()).bind(id.as_str()).execute(&mut tx).await?;
            }
            let n_left = query(LEAVE)
                .bind(organization.as_str())
                .bind(id.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_left == 0 {
                return Err(Error::NotFound);
            }
            ensure_owner(&mut tx, organization, owners).await?;
            note_role("member", id, before.as_ref().map(|before| before.made.role), None);
        });
        Ok(())
    }

    /// Users with a role of their own in a project of the organization, with this role.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn project_members(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
    ) -> Result<Vec<User>, Error> {
        let args: [Arg<'_>; 2] = [organization.as_str().into(), project.as_str().into()];
        let rows: Vec<UserRow> = self.pool.select(PROJECT_MEMBERS, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Sets a separate role of an active user of the organization in one of its projects. Returns the user
    /// with this role.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no such active user or project.
    pub async fn set_project_member(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
        (id, role): (&UserId, Role),
        now: Timestamp,
    ) -> Result<User, Error> {
        in_transaction!(&self.pool, |tx| {
            // No user can leave or be deactivated in between.
            lock_owners(&mut tx, organization).await?;
            let n_set = query(SET_PROJECT_ROLE)
                .bind(project.as_str())
                .bind(id.as_str())
                .bind(role.as_str())
                .bind(now.as_micros())
                .bind(organization.as_str())
                .execute(&mut tx)
                .await?;
            if n_set == 0 {
                return Err(Error::NotFound);
            }
            note_role("project-member", id, None, Some(role));
        });
        let found = self.user(organization, id).await?;
        let mut user = found.ok_or(Error::NotFound)?;
        user.made.role = role;
        Ok(user)
    }

    /// Removes the role in a project of the organization.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the user has no role there.
    pub async fn remove_project_member(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
        id: &UserId,
    ) -> Result<(), Error> {
        let args: [Arg<'_>; 3] =
            [organization.as_str().into(), project.as_str().into(), id.as_str().into()];
        note_role("project-member", id, None, None);
        match self.pool.change(LEAVE_PROJECT, &args).await? {
            0 => Err(Error::NotFound),
            _ => Ok(()),
        }
    }

    /// Whether this is an active user of the organization of the project: each of its members may work in
    /// each of its projects.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn is_member(&self, project: &ProjectId, user: &str) -> Result<bool, Error> {
        let args: [Arg<'_>; 2] = [project.as_str().into(), user.into()];
        Ok(0 < self.count_users(IS_MEMBER, &args).await?)
    }
}
