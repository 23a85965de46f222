//! The guard of each handler: authentication, authorization, and the identity that the handler extracts.

use std::pin::Pin;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use perpend_catalog::KeyOwner;
use perpend_catalog::audit::AuditOrigin;
use perpend_domain::access::Permission;
use perpend_domain::ids::ProjectId;

use super::act::{Act, Allowed, decide, decide_for_viewer};
use super::audited::{AuditClass, AuditedRoute, DeniedRequest, note_denied};
use super::caller::authenticate;
use super::metered_key::charge_to_key;
use super::refusals::Refusal;
use super::requirement::Requirement;
use crate::client_address::ClientAddress;
use crate::problem::Problem;
use crate::{AppState, Web, otlp, reading};

/// How callers of a route authenticate, and the form of a refusal.
pub trait Authenticator<S>: Clone + Send + Sync + 'static {
    /// Puts the identity of a caller that holds any of these permissions into the extensions of the request.
    ///
    /// # Errors
    /// The response to every other caller.
    fn admit(
        &self,
        app: &S,
        parts: &mut Parts,
        any: &[Permission],
    ) -> impl Future<Output = Result<(), Response>> + Send;
}

/// The identity of a request that this process sends to itself for the viewer of a page. No request from outside can
/// carry it.
#[derive(Clone, Debug)]
pub struct ViewerAct(pub Act);

/// Keys in headers; a refusal is a problem in JSON.
#[derive(Clone, Copy, Debug)]
pub struct KeyAuth;

impl<S: AppState> Authenticator<S> for KeyAuth {
    async fn admit(&self, app: &S, parts: &mut Parts, any: &[Permission]) -> Result<(), Response> {
        let admitted = match parts.extensions.remove::<ViewerAct>() {
            Some(ViewerAct(act)) => admit_viewer(act, parts, any),
            None => admit_key(app.web(), parts, any).await,
        };
        admitted.map_err(IntoResponse::into_response)
    }
}

/// Keys in headers; a refusal is a status in the encoding of the request.
#[derive(Clone, Copy, Debug)]
pub struct OtlpKeyAuth;

impl<S: AppState> Authenticator<S> for OtlpKeyAuth {
    async fn admit(&self, app: &S, parts: &mut Parts, any: &[Permission]) -> Result<(), Response> {
        let admitted = admit_key(app.web(), parts, any).await;
        admitted.map_err(|problem| otlp::refuse(&parts.headers, &problem))
    }
}

/// A handler with its guard.
#[derive(Clone)]
pub(crate) struct Guarded<W, H> {
    pub(crate) requirement: Requirement,
    pub(crate) authenticator: W,
    pub(crate) handler: H,
    /// Present if requests are recorded in the audit trail.
    pub(crate) audited: Option<AuditedRoute>,
}

/// Marker in the argument type of a [`Guarded`] handler.
pub(crate) struct GuardMarker;

impl<S, W, H, T> Handler<(GuardMarker, T), S> for Guarded<W, H>
where
    S: AppState,
    W: Authenticator<S>,
    H: Handler<T, S>,
    T: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: S) -> Self::Future {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let admitted = match self.requirement {
                Requirement::Public | Requirement::Signed(_) => Ok(()),
                requirement => {
                    let permissions = requirement.permissions();
                    self.authenticator.admit(&app, &mut parts, &permissions).await
                }
            };
            match admitted {
                Ok(()) => {
                    if let Some(act) = parts.extensions.get::<Act>() {
                        reading::belongs_to(&act.project);
                    }
                    let sender = self.requirement.permissions().contains(&Permission::IngestWrite);
                    let sender = parts.extensions.get::<Act>().filter(|_| sender);
                    let sender = sender.map(|act| act.project.clone());
                    let origin = self.audited.as_ref().and_then(|route| route.admitted(&parts));
                    let client = self.audited.as_ref().map(|route| route.client(&parts));
                    let request = Request::from_parts(parts, body);
                    let handled = Box::pin(self.handler.call(request, app.clone()));
                    let web = app.web();
                    let response = match (self.audited, origin, client) {
                        (Some(route), Some(origin), _) => {
                            run_audited(web, &route, origin, handled).await
                        }
                        (_, None, Some(client)) => {
                            let clock = Arc::clone(&web.clock);
                            web.catalog.audited_anonymous(client, clock, handled).await
                        }
                        _ => handled.await,
                    };
                    if let Some(project) = sender {
                        record_refusal(app.web(), &project, response.status());
                    }
                    response
                }
                Err(refused) => {
                    if let Some(route) = &self.audited {
                        route.record_denied(app.web(), &parts, refused.status()).await;
                    }
                    refused
                }
            }
        })
    }
}

/// The response of a handler whose request is recorded.
async fn run_audited(
    web: &Web,
    route: &AuditedRoute,
    origin: AuditOrigin,
    handled: impl Future<Output = Response> + Send,
) -> Response {
    if route.class == AuditClass::Change {
        let refused = origin.clone();
        let response = web.catalog.audited(origin, Arc::clone(&web.clock), handled).await;
        route.record_refused(web, &refused, response.status()).await;
        return response;
    }
    let response = handled.await;
    match route.record_read(web, &origin, response.status()).await {
        Ok(()) => response,
        Err(problem) => problem.into_response(),
    }
}

/// Records the refusal of an authorized ingestion request.
fn record_refusal(web: &Web, project: &ProjectId, status: StatusCode) {
    if !status.is_client_error() {
        return;
    }
    let reason = match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => "malformed request",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported content type or encoding",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        _ => "see the response to the request",
    };
    let at = web.clock.now();
    web.refusals.note(project, Refusal { at, status, reason });
}

/// With the permissions of the viewer; no key is charged and no refusal is recorded.
fn admit_viewer(act: Act, parts: &mut Parts, any: &[Permission]) -> Result<(), Problem> {
    let viewer = act.clone();
    let decided = decide_for_viewer(act, any).inspect_err(|_| note_denied(parts, viewer));
    match decided? {
        Allowed::InProject(act) => parts.extensions.insert(act).map(drop),
        Allowed::InOrganization(act) => parts.extensions.insert(act).map(drop),
    };
    Ok(())
}

async fn admit_key(web: &Web, parts: &mut Parts, any: &[Permission]) -> Result<(), Problem> {
    let client = ClientAddress::in_request(&parts.extensions);
    let caller = authenticate(web, client, &parts.headers).await?;
    let owner = caller.owner.clone();
    let allowed = decide(caller, any).inspect_err(|problem| {
        if let KeyOwner::Project(project) = &owner {
            let refusal = Refusal {
                at: web.clock.now(),
                status: problem.code().status(),
                reason: "the key lacks the permission",
            };
            web.refusals.note(project, refusal);
        }
        parts.extensions.insert(DeniedRequest { owner: owner.clone(), person: None });
    });
    match allowed? {
        Allowed::InProject(act) => parts.extensions.insert(act).map(drop),
        Allowed::InOrganization(act) => parts.extensions.insert(act).map(drop),
    };
    charge_to_key(&parts.extensions, &parts.headers);
    Ok(())
}
