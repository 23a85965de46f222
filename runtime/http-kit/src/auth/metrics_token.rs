//! The token of a metrics scraper.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use perpend_catalog::SecretHash;
use perpend_domain::access::Permission;

use super::Credentials;
use super::guard::Authenticator;
use super::throttle::{AuthAttempt, AuthTarget, refused};
use crate::client_address::ClientAddress;
use crate::problem::{Code, Problem};
use crate::request_id::REQUEST_ID;
use crate::{AppState, Web};

/// The token of the setting `metrics.token`. Without the setting the response is 404.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricsTokenAuth;

impl<S: AppState> Authenticator<S> for MetricsTokenAuth {
    async fn admit(&self, app: &S, parts: &mut Parts, _: &[Permission]) -> Result<(), Response> {
        check(app.web(), parts).map_err(|problem| problem.into_response())
    }
}

fn check(web: &Web, parts: &Parts) -> Result<(), Problem> {
    let Some(token) = &web.config.metrics.token else {
        return Err(Problem::new(Code::NotFound, "the setting metrics.token is empty"));
    };
    let attempt = AuthAttempt {
        client: ClientAddress::in_request(&parts.extensions),
        request_id: parts.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        public_key: None,
    };
    let now = web.clock.now();
    let problem = match parts.headers.get(AUTHORIZATION).and_then(Credentials::parse) {
        Some(Credentials::PublicKey(sent)) if SecretHash::new(token, [0; 16]).matches(&sent) => {
            return Ok(());
        }
        Some(_) => web.throttle.failed(AuthTarget::MetricsToken, attempt, now),
        None => {
            web.throttle.missing(attempt, now);
            refused()
        }
    };
    Err(match problem.code() {
        Code::AuthenticationFailed => Problem::new(
            Code::AuthenticationFailed,
            "no valid credentials: send `Authorization: Bearer TOKEN` with the token of the setting metrics.token",
        ),
        _ => problem,
    })
}
