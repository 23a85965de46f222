//! Addresses that carry their own proof, for clients that send no key.
//!
//! Invariants:
//! - **A link opens one medium of one project, one way, for a while.** All of that is signed.
//! - **Signatures are compared in constant time.**

use std::fmt;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perpend_domain::access::Permission;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_web::auth::act_of;
use perpend_web::client_address::ClientAddress;
use perpend_web::extract::Params;
use perpend_web::problem::{Code, Problem};
use sha2::Sha256;
use tokio::sync::{OnceCell, Semaphore};

use crate::App;

/// How long an address works.
const LINK_SECONDS: i64 = 3_600;
/// Name of the signing key among the installation's secrets.
const KEY_NAME: &str = "media-key";
/// Keeps a signature made here from being one anywhere else.
const DOMAIN: &[u8] = b"media/1";
/// Kibibytes of downloads that are held in memory at once.
const HELD_KIB: usize = 400 << 10;

/// Signs and checks, with a key that the installation keeps.
pub(crate) struct Signer {
    key: OnceCell<Hmac<Sha256>>,
    /// Room for the bytes of downloads, by the kibibyte. Apart from the bodies of requests: whoever sends slowly
    /// keeps no reader waiting.
    pub(super) downloads: Arc<Semaphore>,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            key: OnceCell::new(),
            downloads: Arc::new(Semaphore::new(HELD_KIB)),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    async fn signature(
        &self,
        app: &App,
        verb: &str,
        project: &str,
        id: &str,
        until: i64,
    ) -> Result<Hmac<Sha256>, Problem> {
        let key = self.key.get_or_try_init(|| async {
            let fresh = format!(
                "{}{}",
                app.web.ids.uuid().simple(),
                app.web.ids.uuid().simple()
            );
            let key = app
                .store
                .catalog
                .secret(KEY_NAME, || fresh.into_bytes())
                .await?;
            // HMAC takes a key of any length, an empty one included.
            let signer = Hmac::new_from_slice(&key);
            Ok::<_, perpend_sql::Error>(signer.unwrap_or_else(|_| Hmac::new(&Default::default())))
        });
        let mut signer = key.await?.clone();
        signer.update(DOMAIN);
        for part in [verb, project, id] {
            // Lengths keep parts from running into each other.
            signer.update(&(part.len() as u64).to_be_bytes());
            signer.update(part.as_bytes());
        }
        signer.update(&until.to_be_bytes());
        Ok(signer)
    }
}

/// How the caller reaches this server.
#[derive(Clone, Debug)]
pub(crate) struct Origin(String);

impl FromRequestParts<App> for Origin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if let Some(url) = &app.web.config.public_url {
            return Ok(Self(url.clone()));
        }
        let header = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = header.or(authority).unwrap_or("localhost");
        Ok(Self(format!("http://{host}")))
    }
}

impl Origin {
    /// An address that lets its holder `PUT` or `GET` a medium, and when it ends.
    pub(crate) async fn link(
        &self,
        app: &App,
        verb: &str,
        project: &ProjectId,
        id: &str,
    ) -> Result<(String, Timestamp), Problem> {
        let until = app.web.clock.now().as_millis() / 1_000 + LINK_SECONDS;
        let signature = app
            .media_signer
            .signature(app, verb, project.as_str(), id, until)
            .await?;
        let signature = URL_SAFE_NO_PAD.encode(signature.finalize().into_bytes());
        let project = utf8_percent_encode(project.as_str(), NON_ALPHANUMERIC);
        let url = format!(
            "{}/api/public/media/{id}/content?project={project}&until={until}&signature={signature}",
            self.0
        );
        Ok((url, Timestamp::from_millis(until * 1_000)))
    }
}

/// The project that an address opens, or a key with the permission where the address is not signed.
///
/// # Errors
/// 401 when it was not signed here for this, or has ended.
pub(super) async fn opened(
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
            "the address is not one that this server signed, or its time is over; ask for a new one",
        )
    };
    let project = params.text("project").ok_or_else(refused)?;
    let until: i64 = params
        .text("until")
        .and_then(|text| text.parse().ok())
        .ok_or_else(refused)?;
    let given = params
        .text("signature")
        .and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let given = given.ok_or_else(refused)?;
    let signature = app
        .media_signer
        .signature(app, verb, project, id, until)
        .await?;
    let is_ours = signature.verify_slice(&given).is_ok();
    if !is_ours || until < app.web.clock.now().as_millis() / 1_000 {
        return Err(refused());
    }
    ProjectId::new(project).map_err(|_| refused())
}
