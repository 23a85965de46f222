//! Memberships: the users of an organization and their roles in it and in its projects.
//!
//! Users are created by SCIM; here they get roles. Each member of an organization may work in each of
//! its projects; a project membership overrides the role there.

use axum::extract::{Path, State};
use perpend_catalog::{LAST_OWNER, User};
use perpend_db::Error;
use perpend_domain::access::Permission::{MemberRead, MemberWrite, OrgMemberRead, OrgMemberWrite};
use perpend_domain::access::Role;
use perpend_domain::ids::{ProjectId, UserId};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::projects;
use crate::admin::state::{App, Routes};

const OF_ORGANIZATION: &str = "/api/public/organizations/memberships";
const OF_PROJECT: &str = "/api/public/projects/{projectId}/memberships";

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listOrganizationMembers",
        OF_ORGANIZATION,
        "List the members of the organization",
        OrgMemberRead,
    );
    routes.add(list, list_members);
    let put = Operation::put(
        "putOrganizationMember",
        OF_ORGANIZATION,
        "Set the role of a user in the organization",
        OrgMemberWrite,
    );
    let put = put.body::<NewMember>();
    routes.add(put, put_member);
    let delete = Operation::delete(
        "deleteOrganizationMember",
        OF_ORGANIZATION,
        "Remove a user from the organization",
        OrgMemberWrite,
    );
    let delete = delete.body::<MemberRef>();
    routes.add(delete, delete_member);

    let list = Operation::get(
        "listProjectMembers",
        OF_PROJECT,
        "List the users with a project role",
        MemberRead,
    );
    routes.add(list, list_project_members);
    let put = Operation::put(
        "putProjectMember",
        OF_PROJECT,
        "Set the role of a member in a project",
        MemberWrite,
    );
    let put = put.body::<NewMember>();
    routes.add(put, put_project_member);
    let delete = Operation::delete(
        "deleteProjectMember",
        OF_PROJECT,
        "Remove the project role of a member",
        MemberWrite,
    );
    let delete = delete.body::<MemberRef>();
    routes.add(delete, delete_project_member);
}

/// The role of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewMember {
    user_id: String,
    /// `OWNER`, `ADMIN`, `MEMBER`, `VIEWER` or `NONE`.
    role: String,
}

/// A user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct MemberRef {
    user_id: String,
}

/// A user with a role.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Member {
    user_id: String,
    role: &'static str,
    email: String,
    name: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct Members {
    memberships: Vec<Member>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RemovedMember {
    message: &'static str,
    user_id: String,
}

impl From<User> for Member {
    fn from(user: User) -> Self {
        Self {
            user_id: user.made.id.to_string(),
            role: user.made.role.as_str(),
            email: user.made.email,
            name: user.made.name,
        }
    }
}

fn list(users: Vec<User>) -> Answer<Members> {
    let memberships = users.into_iter().map(Into::into).collect();
    Answer(Members { memberships })
}

fn no_such_user() -> Problem {
    Problem::new(Code::NotFound, "no such user in this organization")
}

/// Replaces the error of the store for an unknown user.
fn or_not_found<T>(outcome: Result<T, Error>, otherwise: fn() -> Problem) -> Result<T, Problem> {
    outcome.map_err(|error| match error {
        Error::NotFound => otherwise(),
        error => change_problem(error),
    })
}

/// The problem of a refused change of a member.
pub(crate) fn change_problem(error: Error) -> Problem {
    match error {
        Error::Conflict(LAST_OWNER) => Problem::new(
            Code::LastOwner,
            "the organization must have an active owner: give another active member the role OWNER first",
        ),
        error => error.into(),
    }
}

fn user_id(raw: &str) -> Result<UserId, Problem> {
    UserId::new(raw).map_err(|_| no_such_user())
}

impl NewMember {
    fn read(&self) -> Result<(UserId, Role), Problem> {
        let role = self.role.parse();
        let role = role.map_err(|message: String| Problem::body("role", message))?;
        Ok((user_id(&self.user_id)?, role))
    }
}

/// Refuses a caller who is a member of the organization and would change a member with a higher role, or assign a role
/// above their own. Keys of the organization may give every role.
async fn ensure_below_own_role(
    app: &App,
    caller: &OrganizationAct,
    (user, given): (&UserId, Option<Role>),
) -> Result<(), Problem> {
    let Some(own) = caller.member.as_ref().map(|member| member.role) else {
        return Ok(());
    };
    let found = app.store.catalog.user(&caller.organization, user).await?;
    let current = found.ok_or_else(no_such_user)?.made.role;
    match own.is_at_least(current) && given.is_none_or(|given| own.is_at_least(given)) {
        true => Ok(()),
        false => Err(above_own_role()),
    }
}

/// The same for a role in a project, whose current role in the project counts too.
async fn ensure_below_own_role_in_project(
    app: &App,
    caller: &OrganizationAct,
    project: &ProjectId,
    (user, given): (&UserId, Option<Role>),
) -> Result<(), Problem> {
    ensure_below_own_role(app, caller, (user, given)).await?;
    let Some(own) = caller.member.as_ref().map(|member| member.role) else {
        return Ok(());
    };
    let members = app.store.catalog.project_members(&caller.organization, project).await?;
    let current = members.iter().find(|one| one.made.id == *user);
    match current.is_none_or(|current| own.is_at_least(current.made.role)) {
        true => Ok(()),
        false => Err(above_own_role()),
    }
}

fn above_own_role() -> Problem {
    Problem::new(
        Code::AccessDenied,
        "members cannot give a role above their own, and cannot change members with a role above their own",
    )
}

fn removed_member(user: &UserId, message: &'static str) -> Answer<RemovedMember> {
    let user_id = user.to_string();
    Answer(RemovedMember { message, user_id })
}

async fn list_members(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Answer<Members>, Problem> {
    Ok(list(app.store.catalog.members(&caller.organization).await?))
}

async fn put_member(
    State(app): State<App>,
    caller: OrganizationAct,
    Body(input): Body<NewMember>,
) -> Result<Answer<Member>, Problem> {
    let (user, role) = input.read()?;
    ensure_below_own_role(&app, &caller, (&user, Some(role))).await?;
    let now = app.web.clock.now();
    let set = app.store.catalog.set_member(&caller.organization, &user, role, now);
    Ok(Answer(or_not_found(set.await, no_such_user)?.into()))
}

async fn delete_member(
    State(app): State<App>,
    caller: OrganizationAct,
    Body(input): Body<MemberRef>,
) -> Result<Answer<RemovedMember>, Problem> {
    let user = user_id(&input.user_id)?;
    ensure_below_own_role(&app, &caller, (&user, None)).await?;
    let now = app.web.clock.now();
    let removed = app.store.catalog.remove_member(&caller.organization, &user, now);
    or_not_found(removed.await, no_such_user)?;
    Ok(removed_member(&user, "The user was removed from the organization"))
}

async fn list_project_members(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<Members>, Problem> {
    let project = projects::find::find(&app, &caller.organization, &id).await?;
    let members = app.store.catalog.project_members(&caller.organization, &project.id);
    Ok(list(members.await?))
}

async fn put_project_member(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
    Body(input): Body<NewMember>,
) -> Result<Answer<Member>, Problem> {
    let project = projects::find::find(&app, &caller.organization, &id).await?;
    let (user, role) = input.read()?;
    let change = (&user, Some(role));
    ensure_below_own_role_in_project(&app, &caller, &project.id, change).await?;
    let now = app.web.clock.now();
    let set =
        app.store.catalog.set_project_member(&caller.organization, &project.id, (&user, role), now);
    let no_member = || Problem::new(Code::NotFound, "no such member of this organization");
    Ok(Answer(or_not_found(set.await, no_member)?.into()))
}

async fn delete_project_member(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
    Body(input): Body<MemberRef>,
) -> Result<Answer<RemovedMember>, Problem> {
    let project = projects::find::find(&app, &caller.organization, &id).await?;
    let user = user_id(&input.user_id)?;
    ensure_below_own_role_in_project(&app, &caller, &project.id, (&user, None)).await?;
    let catalog = &app.store.catalog;
    let removed = catalog.remove_project_member(&caller.organization, &project.id, &user);
    let no_role = || Problem::new(Code::NotFound, "the user has no role in this project");
    or_not_found(removed.await, no_role)?;
    Ok(removed_member(&user, "The project role of the user was removed"))
}
