//! The identity of an authorized request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use perpend_domain::access::{Permission, PermissionLevel, PermissionSet, Role, Scope};
use perpend_domain::ids::{OrganizationId, ProjectId, UserId};

use super::key::{Caller, Owner};
use crate::problem::{Code, Problem};

/// An authorized request in a project.
#[derive(Clone, Debug)]
pub struct Act {
    /// The project.
    pub project: ProjectId,
    /// What the scope of the key or the role of the member allows.
    pub permissions: PermissionSet,
    /// Id of the key, when only its public half was sent.
    pub public_half: Option<String>,
    /// The person of the browser session, for a request from a page.
    pub session: Option<SessionPerson>,
}

/// The person of a browser session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPerson {
    /// Unknown: the session began with the key pair of this public key.
    KeyPair(String),
    /// Unknown: the session began with the login token.
    LoginToken,
    /// A member of the organization of the project.
    Member(Member),
}

/// A member of an organization with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The organization.
    pub organization: OrganizationId,
    /// Id in the organization.
    pub id: UserId,
    /// Role in the organization.
    pub role: Role,
    /// Id of the account.
    pub account: String,
}

impl Act {
    /// The author of what a person writes on a page: the id of the member, or the public key that the session was
    /// started with; unknown for a session started with the login token.
    #[must_use]
    pub fn author(&self) -> Option<&str> {
        match self.session.as_ref()? {
            SessionPerson::KeyPair(public_key) => Some(public_key.as_str()),
            SessionPerson::LoginToken => None,
            SessionPerson::Member(member) => Some(member.id.as_str()),
        }
    }
}

/// An authorized request in an organization.
#[derive(Clone, Debug)]
pub struct OrganizationAct {
    /// The organization.
    pub organization: OrganizationId,
    /// The member who made the request on a page; absent for a key of the organization.
    pub member: Option<Member>,
}

/// An authorized request about the project in its path: of the project itself, or of its organization.
#[derive(Clone, Debug)]
pub enum ManagerAct {
    InProject(Act),
    InOrganization(OrganizationAct),
}

/// The route of a handler must match the identity that the handler extracts.
pub(super) fn unguarded() -> Problem {
    tracing::error!("a handler without a guard extracts a caller");
    Problem::internal()
}

impl<S: Send + Sync> FromRequestParts<S> for Act {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(unguarded)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for OrganizationAct {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(unguarded)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ManagerAct {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let of_organization = || parts.extensions.get().cloned().map(Self::InOrganization);
        let act = parts.extensions.get().cloned().map(Self::InProject);
        act.or_else(of_organization).ok_or_else(unguarded)
    }
}

/// The identity of an authorized request.
pub(super) enum Allowed {
    InProject(Act),
    InOrganization(OrganizationAct),
}

/// Checks that the credentials hold one of the permissions `any`.
pub(super) fn decide(caller: Caller, any: &[Permission]) -> Result<Allowed, Problem> {
    let holds = |scope: Scope| any.iter().any(|one| scope.holds(*one));
    let is_of_organization = any.iter().all(|one| one.level() == PermissionLevel::Organization);
    let message = match (caller.owner, caller.scope) {
        (Owner::Project(project), scope) if holds(scope) => {
            return Ok(Allowed::InProject(Act {
                project,
                permissions: scope.into(),
                public_half: caller.public_half,
                session: None,
            }));
        }
        (Owner::Organization(organization), scope)
            if caller.public_half.is_none() && holds(scope) =>
        {
            return Ok(Allowed::InOrganization(OrganizationAct { organization, member: None }));
        }
        (Owner::Organization(_), _) if is_of_organization => {
            "a public key alone cannot manage an organization; send the key pair with Basic authentication"
        }
        (Owner::Organization(_), _) => {
            "an organization key manages projects, keys and members and cannot access project data; send a key \
             pair of the project"
        }
        (Owner::Project(_), _) if is_of_organization => {
            "a key pair of the organization is required; a key pair of a project accesses that project only"
        }
        (Owner::Project(_), Scope::PublicHalf) => {
            "a public key alone may only write scores; send the key pair with Basic authentication"
        }
        (Owner::Project(_), Scope::Read) => "this key pair may only read",
        (Owner::Project(_), _) => "this key pair may only send telemetry and scores",
    };
    Err(denied(message, any))
}

/// Checks that the viewer of a page holds one of the permissions `any`: on the project of the page with the permissions
/// there, and on the organization with the role of the member in it.
pub(super) fn decide_for_viewer(act: Act, any: &[Permission]) -> Result<Allowed, Problem> {
    if let Some(SessionPerson::Member(member)) = &act.session {
        let is_allowed =
            any.iter().any(|one| !one.is_decided_in_project() && member.role.holds(*one));
        if is_allowed {
            let organization = member.organization.clone();
            let member = Some(member.clone());
            return Ok(Allowed::InOrganization(OrganizationAct { organization, member }));
        }
    }
    let is_allowed =
        any.iter().any(|one| one.is_decided_in_project() && act.permissions.holds(*one));
    match is_allowed {
        true => Ok(Allowed::InProject(act)),
        false => Err(denied("this session lacks the permission", any)),
    }
}

fn denied(message: &str, any: &[Permission]) -> Problem {
    let names: Vec<_> = any.iter().map(|one| one.name()).collect();
    Problem::new(Code::AccessDenied, message).with("permission", names.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_in_the_project_decides_about_its_keys_and_that_in_the_organization_about_others() {
        let is_allowed = |in_project: Role, in_organization: Role, permission| {
            let member = Member {
                organization: OrganizationId::new("o").unwrap(),
                id: UserId::new("u").unwrap(),
                role: in_organization,
                account: "a".to_owned(),
            };
            let act = Act {
                project: ProjectId::new("p").unwrap(),
                permissions: in_project.into(),
                public_half: None,
                session: Some(SessionPerson::Member(member)),
            };
            decide_for_viewer(act, &[permission]).is_ok()
        };
        assert!(is_allowed(Role::Admin, Role::Viewer, Permission::KeyWrite));
        assert!(!is_allowed(Role::Member, Role::Admin, Permission::KeyWrite));
        assert!(!is_allowed(Role::Admin, Role::Viewer, Permission::OrgProjectCreate));
        assert!(is_allowed(Role::Viewer, Role::Admin, Permission::OrgProjectCreate));
    }
}
