//! The identity of an authorized request.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use perpend_catalog::SessionOrigin;
use perpend_domain::access::{Permission, PermissionLevel, Scope};
use perpend_domain::ids::{OrganizationId, ProjectId};

use super::key::{Caller, Owner};
use crate::problem::{Code, Problem};

/// An authorized request in a project.
#[derive(Clone, Debug)]
pub struct Act {
    /// The project.
    pub project: ProjectId,
    /// Scope of the key.
    pub scope: Scope,
    /// Id of the key, when only its public half was sent.
    pub public_half: Option<String>,
    /// Origin of the browser session, when a person made the request on a page.
    pub session: Option<SessionOrigin>,
}

impl Act {
    /// The author of what a person writes on a page: the public key that the session was started with; unknown for a
    /// session started with the login token.
    #[must_use]
    pub fn author(&self) -> Option<&str> {
        match self.session.as_ref()? {
            SessionOrigin::KeyPair(public_key) => Some(public_key.as_str()),
            SessionOrigin::LoginToken(_) => None,
        }
    }
}

/// An authorized request in an organization.
#[derive(Clone, Debug)]
pub struct OrganizationAct {
    /// The organization.
    pub organization: OrganizationId,
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
                scope,
                public_half: caller.public_half,
                session: None,
            }));
        }
        (Owner::Organization(organization), scope)
            if caller.public_half.is_none() && holds(scope) =>
        {
            return Ok(Allowed::InOrganization(OrganizationAct { organization }));
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
    let names: Vec<_> = any.iter().map(|one| one.name()).collect();
    Err(Problem::new(Code::AccessDenied, message).with("permission", names.join(" or ")))
}
