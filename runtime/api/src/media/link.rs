//! Signed URLs, for clients that send no key.
//!
//! Invariants:
//! - **A link gives access to one medium of one project with one method for a limited time.** All of that is signed.
//! - **Signatures are compared in constant time.**

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::Mac as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perpend_domain::access::Permission;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::act_of;
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::extract::Params;
use perpend_http_kit::origin;
use perpend_http_kit::problem::{Code, Problem};

use crate::state::App;

/// Lifetime of a URL.
const LINK_SECONDS: i64 = 3_600;

/// Scheme, host and port of this server as seen by the caller.
#[derive(Clone, Debug)]
pub(crate) struct Origin(String);

impl FromRequestParts<App> for Origin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        Ok(Self(origin::of(&app.web.config, &parts.headers, authority)))
    }
}

impl Origin {
    /// A URL for the `PUT` or `GET` of a medium, and the time of its expiry.
    pub(crate) fn link(
        &self,
        app: &App,
        verb: &str,
        project: &ProjectId,
        id: &str,
    ) -> (String, Timestamp) {
        let until = app.web.clock.now().as_millis() / 1_000 + LINK_SECONDS;
        let signature = app.media_signer.signature(verb, project.as_str(), id, until);
        let signature = URL_SAFE_NO_PAD.encode(signature.finalize().into_bytes());
        let project = utf8_percent_encode(project.as_str(), NON_ALPHANUMERIC);
        let url = format!(
            "{}/api/public/media/{id}/content?project={project}&until={until}&signature={signature}",
            self.0
        );
        (url, Timestamp::from_millis(until * 1_000))
    }
}

/// The project of a signed URL, otherwise that of a key with the permission.
///
/// # Errors
/// 401 for an invalid signature or an expired URL.
pub(super) async fn authorize(
    app: &App,
    verb: &str,
    id: &str,
    params: &Params,
    (client, headers): (ClientAddress, &HeaderMap),
    permission: Permission,
) -> Result<ProjectId, Problem> {
    if params.text("signature").is_none() {
        return Ok(act_of(&app.web, client, headers, permission).await?.project);
    }
    let refused = || {
        Problem::new(
            Code::AuthenticationFailed,
            "the signature of the URL is invalid or expired; request a new URL",
        )
    };
    let project = params.text("project").ok_or_else(refused)?;
    let until: i64 = params.text("until").and_then(|text| text.parse().ok()).ok_or_else(refused)?;
    let sent = params.text("signature").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let sent = sent.ok_or_else(refused)?;
    let signature = app.media_signer.signature(verb, project, id, until);
    let is_ours = signature.verify_slice(&sent).is_ok();
    if !is_ours || until < app.web.clock.now().as_millis() / 1_000 {
        return Err(refused());
    }
    ProjectId::new(project).map_err(|_| refused())
}
