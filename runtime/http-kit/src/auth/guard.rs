//! The guard in front of each handler: who calls, whether they may, and as what the handler acts.

use std::pin::Pin;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use perpend_catalog::KeyOwner;
use perpend_domain::access::{Permission, PermissionLevel, Scope};
use perpend_domain::ids::ProjectId;

use super::act::{Act, Allowed, decide};
use super::caller::authenticate;
use super::counted::charge_to_key;
use super::key::Caller;
use super::refusals::Refusal;
use crate::client_address::ClientAddress;
use crate::problem::Problem;
use crate::{Room, Web, otlp, reading};

/// What a route needs. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody may ask.
    Nobody,
    /// This permission.
    One(Permission),
    /// Either; the handler asks for the right one of each part.
    Either(Permission, Permission),
    /// An address that this server signed, or this permission: the handler reads the signature.
    Signed(Permission),
}

impl From<Permission> for Needs {
    fn from(one: Permission) -> Self {
        Self::One(one)
    }
}

impl Needs {
    /// The permissions, any of which does.
    pub fn permissions(self) -> Vec<Permission> {
        match self {
            Self::Nobody => Vec::new(),
            Self::One(one) | Self::Signed(one) => vec![one],
            Self::Either(one, other) => vec![one, other],
        }
    }

    /// Whether it is about an organization: keys, people and projects.
    pub fn is_of_organization(self) -> bool {
        matches!(self, Self::One(one) if one.level() == PermissionLevel::Organization)
    }

    /// Whether a key of this scope does.
    pub fn is_held_by(self, scope: Scope) -> bool {
        self.permissions().iter().any(|one| scope.holds(*one))
    }

    /// For documents: `trace.read`, `nobody`, `ingest.write or score.write`.
    pub fn name(self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            _ => self.permissions().iter().map(|one| one.name()).collect::<Vec<_>>().join(" or "),
        }
    }
}

/// How callers of a route show who they are, and read that they may not.
pub trait Way<S>: Clone + Send + Sync + 'static {
    /// Notes as what the handler acts, for a caller who may do any of this.
    ///
    /// # Errors
    /// The answer to everybody else.
    fn admit(
        &self,
        app: &S,
        parts: &mut Parts,
        any: &[Permission],
    ) -> impl Future<Output = Result<(), Response>> + Send;
}

/// As whom this process itself asks an operation: the viewer of a page, whose session was read. Nothing that is sent can put
/// this into a request.
#[derive(Clone, Debug)]
pub struct OfViewer(pub Act);

/// Keys in headers, a problem as JSON.
#[derive(Clone, Copy, Debug)]
pub struct ByKey;

impl<S: Room> Way<S> for ByKey {
    async fn admit(&self, app: &S, parts: &mut Parts, any: &[Permission]) -> Result<(), Response> {
        let admitted = match parts.extensions.remove::<OfViewer>() {
            Some(OfViewer(act)) => as_viewer(act, parts, any),
            None => by_key(app.web(), parts, any).await,
        };
        admitted.map_err(IntoResponse::into_response)
    }
}

/// Keys in headers, a status in the encoding of the request.
#[derive(Clone, Copy, Debug)]
pub struct ByKeyOfSender;

impl<S: Room> Way<S> for ByKeyOfSender {
    async fn admit(&self, app: &S, parts: &mut Parts, any: &[Permission]) -> Result<(), Response> {
        let admitted = by_key(app.web(), parts, any).await;
        admitted.map_err(|problem| otlp::refuse(&parts.headers, &problem))
    }
}

/// A handler behind its guard.
#[derive(Clone)]
pub(crate) struct Guarded<W, H> {
    pub(crate) needs: Needs,
    pub(crate) way: W,
    pub(crate) handler: H,
}

/// Marks the arguments of a [`Guarded`] handler.
pub(crate) struct Behind;

impl<S, W, H, T> Handler<(Behind, T), S> for Guarded<W, H>
where
    S: Room,
    W: Way<S>,
    H: Handler<T, S>,
    T: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: S) -> Self::Future {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let admitted = match self.needs {
                Needs::Nobody | Needs::Signed(_) => Ok(()),
                needs => self.way.admit(&app, &mut parts, &needs.permissions()).await,
            };
            match admitted {
                Ok(()) => {
                    if let Some(act) = parts.extensions.get::<Act>() {
                        reading::belongs_to(&act.project);
                    }
                    let sender = self.needs.permissions().contains(&Permission::IngestWrite);
                    let sender = parts.extensions.get::<Act>().filter(|_| sender);
                    let sender = sender.map(|act| act.project.clone());
                    let request = Request::from_parts(parts, body);
                    let response = self.handler.call(request, app.clone()).await;
                    if let Some(project) = sender {
                        note_refused(app.web(), &project, response.status());
                    }
                    response
                }
                Err(refused) => refused,
            }
        })
    }
}

/// Remembers that what somebody sent who may send was not taken.
fn note_refused(web: &Web, project: &ProjectId, status: StatusCode) {
    if !status.is_client_error() {
        return;
    }
    let why = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => "the request cannot be read",
        StatusCode::PAYLOAD_TOO_LARGE => "the request is too large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "no such content type or encoding",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        _ => "the answer to the request says why",
    };
    let at = web.clock.now();
    web.refusals.note(project, Refusal { at, status, why });
}

/// By the same rules as a key of the viewer's scope; no key is charged, or noted as refused.
fn as_viewer(act: Act, parts: &mut Parts, any: &[Permission]) -> Result<(), Problem> {
    let caller = Caller {
        owner: KeyOwner::Project(act.project),
        scope: act.scope,
        public_half: act.public_half,
    };
    if let Allowed::InProject(act) = decide(caller, any)? {
        parts.extensions.insert(act);
    }
    Ok(())
}

async fn by_key(web: &Web, parts: &mut Parts, any: &[Permission]) -> Result<(), Problem> {
    let client = ClientAddress::in_request(&parts.extensions);
    let caller = authenticate(web, client, &parts.headers).await?;
    let owner = caller.owner.clone();
    let allowed = decide(caller, any).inspect_err(|problem| {
        if let KeyOwner::Project(project) = &owner {
            let refusal = Refusal {
                at: web.clock.now(),
                status: problem.code().status(),
                why: "the key lacks the permission",
            };
            web.refusals.note(project, refusal);
        }
    });
    match allowed? {
        Allowed::InProject(act) => parts.extensions.insert(act).map(drop),
        Allowed::InOrganization(act) => parts.extensions.insert(act).map(drop),
    };
    charge_to_key(&parts.extensions, &parts.headers);
    Ok(())
}
