//! The guard in front of each handler: who calls, whether they may, and as what the handler acts.

use std::pin::Pin;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use perpend_domain::access::{Permission, Place, Scope};

use super::counted::charge_to_key;
use super::{Allowed, authenticate, decide};
use crate::client_address::ClientAddress;
use crate::problem::Problem;
use crate::{App, ingress, pages};

/// What a route needs. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
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
    pub(crate) fn permissions(self) -> Vec<Permission> {
        match self {
            Self::Nobody => Vec::new(),
            Self::One(one) | Self::Signed(one) => vec![one],
            Self::Either(one, other) => vec![one, other],
        }
    }

    /// Whether it is about an organization: keys, people and projects.
    pub(crate) fn is_of_organization(self) -> bool {
        matches!(self, Self::One(one) if one.place() == Place::Organization)
    }

    /// Whether a key of this scope does.
    pub(crate) fn is_held_by(self, scope: Scope) -> bool {
        self.permissions().iter().any(|one| scope.holds(*one))
    }

    /// For documents: `trace.read`, `nobody`, `ingest.write or score.write`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            _ => self
                .permissions()
                .iter()
                .map(|one| one.name())
                .collect::<Vec<_>>()
                .join(" or "),
        }
    }
}

/// How callers of a route show who they are, and read that they may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Keys in headers, a problem as JSON.
    Api,
    /// Keys in headers, a status in the encoding of the request.
    Otlp,
    /// A session in a cookie; the login form.
    Page,
}

/// A handler behind its guard.
#[derive(Clone)]
pub(crate) struct Guarded<H> {
    pub(crate) needs: Needs,
    pub(crate) way: Way,
    pub(crate) handler: H,
}

/// Marks the arguments of a [`Guarded`] handler.
pub(crate) struct Behind;

impl<H, T> Handler<(Behind, T), App> for Guarded<H>
where
    H: Handler<T, App>,
    T: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, app: App) -> Self::Future {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let admitted = match (self.needs, self.way) {
                (Needs::Nobody | Needs::Signed(_), _) => Ok(()),
                (needs, Way::Page) => pages::admit(&app, &mut parts, &needs.permissions()).await,
                (needs, way) => by_key(&app, &mut parts, &needs.permissions())
                    .await
                    .map_err(|problem| way.refused(&parts.headers, problem)),
            };
            match admitted {
                Ok(()) => {
                    let request = Request::from_parts(parts, body);
                    self.handler.call(request, app).await
                }
                Err(refused) => refused,
            }
        })
    }
}

impl Way {
    fn refused(self, headers: &HeaderMap, problem: Problem) -> Response {
        match self {
            Self::Otlp => ingress::refuse(headers, &problem),
            Self::Api | Self::Page => problem.into_response(),
        }
    }
}

async fn by_key(app: &App, parts: &mut Parts, any: &[Permission]) -> Result<(), Problem> {
    let client = ClientAddress::in_request(&parts.extensions);
    let caller = authenticate(app, client, &parts.headers).await?;
    match decide(caller, any)? {
        Allowed::InProject(act) => parts.extensions.insert(act).map(drop),
        Allowed::InOrganization(act) => parts.extensions.insert(act).map(drop),
    };
    charge_to_key(&parts.extensions, &parts.headers);
    Ok(())
}
