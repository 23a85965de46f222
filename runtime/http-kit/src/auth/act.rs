//! What an allowed request is done as.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use perpend_domain::access::{Permission, PermissionLevel, Scope};
use perpend_domain::ids::{OrganizationId, ProjectId};

use super::key::{Caller, Owner};
use crate::problem::{Code, Problem};

/// Something done in a project, by somebody who may.
#[derive(Clone, Debug)]
pub struct Act {
    /// The project.
    pub project: ProjectId,
    /// What their key is for.
    pub scope: Scope,
    /// Id of the key whose public half is all they showed.
    pub public_half: Option<String>,
}

/// Something done in an organization: with its projects, keys and people, by somebody who may.
#[derive(Clone, Debug)]
pub struct OrganizationAct {
    /// The organization.
    pub organization: OrganizationId,
}

/// A handler that asks for what its route does not give is a fault of ours.
pub(super) fn unguarded() -> Problem {
    tracing::error!("a handler without a guard asks who calls");
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

/// What an allowed request is done as.
pub(super) enum Allowed {
    InProject(Act),
    InOrganization(OrganizationAct),
}

/// What the credentials may do of `any`.
pub(super) fn decide(caller: Caller, any: &[Permission]) -> Result<Allowed, Problem> {
    let holds = |scope: Scope| any.iter().any(|one| scope.holds(*one));
    let is_of_organization = any.iter().all(|one| one.level() == PermissionLevel::Organization);
    let message = match (caller.owner, caller.scope) {
        (Owner::Project(project), scope) if holds(scope) => {
            return Ok(Allowed::InProject(Act { project, scope, public_half: caller.public_half }));
        }
        (Owner::Organization(organization), scope)
            if caller.public_half.is_none() && holds(scope) =>
        {
            return Ok(Allowed::InOrganization(OrganizationAct { organization }));
        }
        (Owner::Organization(_), _) if is_of_organization => {
            "a public key alone manages nothing; send the key pair with Basic authentication"
        }
        (Owner::Organization(_), _) => {
            "an organization key manages projects, keys and members, and opens no project; send a key \
             pair of the project"
        }
        (Owner::Project(_), _) if is_of_organization => {
            "this needs a key pair of the organization; that of a project opens the project alone"
        }
        (Owner::Project(_), Scope::PublicHalf) => {
            "a public key alone may only write scores; send the key pair with Basic authentication"
        }
        (Owner::Project(_), _) => "this key pair may send telemetry and scores, and read nothing",
    };
    let names: Vec<_> = any.iter().map(|one| one.name()).collect();
    Err(Problem::new(Code::AccessDenied, message).with("permission", names.join(" or ")))
}
