//! Records of the audit trail for operations and pages.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use perpend_catalog::KeyOwner;
use perpend_catalog::audit::{AuditActor, AuditClient, AuditObject, AuditOrigin, AuditResult};
use perpend_domain::access::Permission;
use perpend_domain::ids::ProjectId;

use super::act::{Act, OrganizationAct, SessionPerson};
use super::basic::Credentials;
use super::requirement::Requirement;
use crate::Web;
use crate::client_address::ClientAddress;
use crate::otlp;
use crate::problem::Problem;
use crate::request_id::REQUEST_ID;
use crate::resource::resource;

/// Denied requests that are recorded of one project or organization in a minute.
const MAX_DENIED: u32 = 20;

/// Which requests to an operation are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditClass {
    /// None: it reads, or it writes telemetry, scores or other bulk data.
    Unrecorded,
    /// A request that changes something, in the transaction of the change; a denied request.
    Change,
    /// Each successful request, although it only reads; a denied request.
    Read,
}

impl AuditClass {
    /// The class of an operation that does not declare one.
    pub(crate) fn of(is_get: bool, requirement: Requirement) -> Self {
        let permissions = requirement.permissions();
        let is_bulk = permissions.iter().any(|permission| {
            matches!(
                permission,
                Permission::IngestWrite
                    | Permission::ScoreWrite
                    | Permission::TraceMark
                    | Permission::CommentWrite
                    | Permission::QueueWork
            )
        });
        // A public operation that changes something is a sign-in.
        match is_get || is_bulk {
            true => Self::Unrecorded,
            false => Self::Change,
        }
    }

    /// The name in the OpenAPI document.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Unrecorded => None,
            Self::Change => Some("change"),
            Self::Read => Some("read"),
        }
    }
}

/// A route whose requests are recorded.
#[derive(Clone, Debug)]
pub(crate) struct AuditedRoute {
    pub(crate) operation: Cow<'static, str>,
    /// With `{parameters}`.
    pub(crate) path: Cow<'static, str>,
    pub(crate) class: AuditClass,
}

/// The owner and the actor of a request that was denied, in its extensions.
#[derive(Clone, Debug)]
pub(super) struct DeniedRequest {
    pub(super) owner: KeyOwner,
    pub(super) person: Option<SessionPerson>,
}

/// Marks a page's request as denied to the viewer, so that it is recorded.
pub fn note_denied(parts: &mut Parts, act: Act) {
    let owner = KeyOwner::Project(act.project.clone());
    parts.extensions.insert(DeniedRequest { owner, person: act.session });
}

/// Segments of a path template with those of a path.
fn parameters<'p>(
    template: &'p str,
    path: &'p str,
) -> impl DoubleEndedIterator<Item = (&'p str, &'p str)> {
    let pairs: Vec<_> = template.split('/').zip(path.split('/')).collect();
    pairs.into_iter().filter(|(name, _)| name.starts_with('{') && name.ends_with('}'))
}

impl AuditedRoute {
    /// The object that the path names.
    fn object(&self, path: &str) -> AuditObject {
        let of_page = || self.path.strip_prefix("/project/{project}/")?.split('/').next();
        let kind = resource(&self.path).or_else(of_page).unwrap_or("installation");
        let last = parameters(&self.path, path).next_back();
        let last = last.filter(|(name, _)| *name != "{project}");
        AuditObject {
            kind: kind.strip_suffix('s').unwrap_or(kind).to_owned(),
            id: last.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned()),
        }
    }

    fn origin(&self, owner: KeyOwner, actor: AuditActor, parts: &Parts) -> AuditOrigin {
        let AuditClient { address, request_id, operation } = self.client(parts);
        let named =
            parameters(&self.path, parts.uri.path()).find(|(name, _)| *name == "{projectId}");
        AuditOrigin {
            owner,
            project: named.and_then(|(_, id)| ProjectId::new(id).ok()),
            actor,
            address,
            request_id,
            operation,
            object: self.object(parts.uri.path()),
        }
    }

    /// The client of a request to a public route.
    pub(super) fn client(&self, parts: &Parts) -> AuditClient {
        let address = parts.extensions.get::<ClientAddress>();
        let request_id = parts.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
        AuditClient {
            address: address.map(ToString::to_string),
            request_id: request_id.map(str::to_owned),
            operation: self.operation.clone().into_owned(),
        }
    }

    /// The origin of an admitted request.
    pub(super) fn admitted(&self, parts: &Parts) -> Option<AuditOrigin> {
        if let Some(act) = parts.extensions.get::<Act>() {
            let owner = KeyOwner::Project(act.project.clone());
            return Some(self.origin(owner, actor(act.session.as_ref(), parts), parts));
        }
        let OrganizationAct { organization, member } = parts.extensions.get::<OrganizationAct>()?;
        let owner = KeyOwner::Organization(organization.clone());
        let person = member.clone().map(SessionPerson::Member);
        Some(self.origin(owner, actor(person.as_ref(), parts), parts))
    }

    /// Records a denied request.
    pub(super) async fn record_denied(&self, web: &Web, parts: &Parts, status: StatusCode) {
        let Some(denied) = parts.extensions.get::<DeniedRequest>() else { return };
        let actor = actor(denied.person.as_ref(), parts);
        let origin = self.origin(denied.owner.clone(), actor, parts);
        Self::record_refusal(web, &origin, status).await;
    }

    /// Records that a handler refused a change, such as that of a protected label. An operation that a page calls has its
    /// own record.
    pub(super) async fn record_refused(&self, web: &Web, origin: &AuditOrigin, status: StatusCode) {
        if self.path.starts_with("/api/") {
            Self::record_refusal(web, origin, status).await;
        }
    }

    async fn record_refusal(web: &Web, origin: &AuditOrigin, status: StatusCode) {
        if status != StatusCode::FORBIDDEN {
            return;
        }
        let now = web.clock.now();
        let id = match &origin.owner {
            KeyOwner::Project(project) => project.to_string(),
            KeyOwner::Organization(organization) => organization.to_string(),
        };
        if web.denials.take(id, MAX_DENIED, now, |_| MAX_DENIED).retry_after_seconds.is_some() {
            return;
        }
        if let Err(error) = web.catalog.record(origin, AuditResult::Denied, now).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "recording a denied request failed"
            );
        }
    }

    /// Records a successful read whose reading is recorded.
    pub(super) async fn record_read(
        &self,
        web: &Web,
        origin: &AuditOrigin,
        status: StatusCode,
    ) -> Result<(), Problem> {
        if self.class == AuditClass::Read && status.is_success() {
            web.catalog.record(origin, AuditResult::Done, web.clock.now()).await?;
        }
        Ok(())
    }
}

/// The kind of the credentials and their public name.
fn actor(person: Option<&SessionPerson>, parts: &Parts) -> AuditActor {
    if let Some(person) = person {
        let (kind, name) = match person {
            SessionPerson::Member(member) => ("member", Some(member.id.to_string())),
            SessionPerson::KeyPair(public_key) => ("session", Some(public_key.clone())),
            SessionPerson::LoginToken => ("session", None),
        };
        return AuditActor { kind: kind.to_owned(), name };
    }
    let credentials = parts.headers.get(AUTHORIZATION).and_then(Credentials::parse);
    let (kind, name) = match credentials {
        Some(Credentials::Pair { public_key, .. }) => ("key", Some(public_key)),
        // With this header the bearer is the secret of the administrator.
        Some(Credentials::PublicKey(_))
            if otlp::either(&parts.headers, "admin-api-key").is_some() =>
        {
            ("administrator", None)
        }
        Some(Credentials::PublicKey(public_key)) => ("public-key", Some(public_key)),
        None => ("unknown", None),
    };
    AuditActor { kind: kind.to_owned(), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(template: &'static str, path: &str) -> (String, Option<String>) {
        let route = AuditedRoute {
            operation: "test".into(),
            path: template.into(),
            class: AuditClass::Change,
        };
        let object = route.object(path);
        (object.kind, object.id)
    }

    #[test]
    fn the_object_is_the_last_parameter_of_the_path() {
        let rule = object(
            "/api/public/v2/evaluation-rules/{ruleId}",
            "/api/public/v2/evaluation-rules/a%2Fb",
        );
        assert_eq!(rule, ("evaluation-rule".to_owned(), Some("a/b".to_owned())));
        let list = object("/api/public/v2/evaluation-rules", "/api/public/v2/evaluation-rules");
        assert_eq!(list, ("evaluation-rule".to_owned(), None));
        let page = object(
            "/project/{project}/executions/{execution}/requeue",
            "/project/p/executions/e1/requeue",
        );
        assert_eq!(page, ("execution".to_owned(), Some("e1".to_owned())));
        let new = object("/project/{project}/rules", "/project/p/rules");
        assert_eq!(new, ("rule".to_owned(), None));
    }

    #[test]
    fn reads_and_bulk_data_are_not_recorded() {
        let class = |is_get, permission: Permission| AuditClass::of(is_get, permission.into());
        assert_eq!(class(true, Permission::EvaluatorWrite), AuditClass::Unrecorded);
        assert_eq!(class(false, Permission::IngestWrite), AuditClass::Unrecorded);
        assert_eq!(class(false, Permission::EvaluatorWrite), AuditClass::Change);
        assert_eq!(AuditClass::of(true, Requirement::Public), AuditClass::Unrecorded);
        assert_eq!(AuditClass::of(false, Requirement::Public), AuditClass::Change);
    }
}
