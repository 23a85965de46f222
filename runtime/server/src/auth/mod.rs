//! Who calls: key pairs, and extractors that are the proof of a right.
//!
//! Invariants:
//! - **Only an extractor makes a proof.** A handler that takes a [`Reader`] cannot be reached without one.
//! - **A project comes from the key.** No parameter of a request names it.
//! - **Secrets are compared as digests, in constant time**, and an unknown public key takes the same way.

mod basic;
mod cache;
mod counted;

use std::sync::Arc;

use assay_domain::ids::{ProjectId, PublicKey};
use assay_store::catalog::{Rights, SecretHash};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;

use crate::App;
use crate::problem::{Code, Problem};

pub use basic::Credentials;
pub(crate) use cache::KeyCache;
pub(crate) use counted::{CountedKey, counted_key};

/// The right to read one project.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The project.
    pub project: ProjectId,
}

/// The right to change one project.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The project.
    pub project: ProjectId,
}

/// The right to send telemetry to one project.
#[derive(Clone, Debug)]
pub struct Ingest {
    /// The project.
    pub project: ProjectId,
}

/// The right to write scores: a key pair, or a public key alone.
#[derive(Clone, Debug)]
pub struct ScoreWriter {
    /// The project.
    pub project: ProjectId,
}

/// The right to send batches of events.
#[derive(Clone, Debug)]
pub struct BatchWriter {
    /// The project.
    pub project: ProjectId,
    /// A public key alone: nothing but scores.
    pub only_scores: bool,
}

/// What a key is remembered by.
#[derive(Clone, Debug)]
pub(crate) struct KnownKey {
    pub(crate) project: ProjectId,
    pub(crate) secret_hash: SecretHash,
    pub(crate) rights: Rights,
}

/// What the credentials open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Everything in the project.
    Full,
    /// Sending telemetry and scores.
    Ingest,
    /// Writing scores.
    Scores,
}

fn refused() -> Problem {
    Problem::new(
        Code::AuthenticationFailed,
        "no valid credentials: use Basic authentication with the public key as user and the secret \
         key as password",
    )
}

async fn known_key(app: &App, public_key: &str) -> Result<Option<Arc<KnownKey>>, Problem> {
    let now = app.clock.now();
    if let Some(found) = app.keys.get(public_key, now) {
        return Ok(found);
    }
    let Ok(id) = PublicKey::new(public_key) else {
        return Ok(None);
    };
    let key = app.store.api_key(&id).await?.map(|key| {
        Arc::new(KnownKey {
            project: key.project,
            secret_hash: key.made.secret_hash,
            rights: key.made.rights,
        })
    });
    app.keys.put(public_key, key.clone(), now);
    Ok(key)
}

async fn authenticate(app: &App, headers: &HeaderMap) -> Result<(ProjectId, Level), Problem> {
    let header = headers.get(AUTHORIZATION).ok_or_else(refused)?;
    let credentials = Credentials::parse(header).ok_or_else(refused)?;
    match credentials {
        Credentials::Pair {
            public_key,
            secret_key,
        } => {
            let Some(key) = known_key(app, &public_key).await? else {
                // As much work as for a known key, so that the time tells nothing.
                let _ = SecretHash::new("", [0; 16]).matches(&secret_key);
                return Err(refused());
            };
            if !key.secret_hash.matches(&secret_key) {
                return Err(refused());
            }
            let level = match key.rights {
                Rights::Full => Level::Full,
                Rights::Ingest => Level::Ingest,
            };
            Ok((key.project.clone(), level))
        }
        Credentials::PublicKey(public_key) => {
            let known = known_key(app, &public_key).await?.ok_or_else(refused)?;
            Ok((known.project.clone(), Level::Scores))
        }
    }
}

/// The project, when the credentials in these headers open one of `levels`.
async fn require(app: &App, headers: &HeaderMap, levels: &[Level]) -> Result<ProjectId, Problem> {
    let (project, level) = authenticate(app, headers).await?;
    if levels.contains(&level) {
        return Ok(project);
    }
    let message = match level {
        Level::Scores => {
            "a public key alone may only write scores; send the key pair with Basic authentication"
        }
        _ => "this key pair may send telemetry and scores, and read nothing",
    };
    Err(Problem::new(Code::AccessDenied, message))
}

/// The project of a key pair in these headers, for what is neither handler nor OTLP.
///
/// # Errors
/// 401 without valid credentials, 403 for credentials that may not read.
pub async fn project_of(app: &App, headers: &HeaderMap) -> Result<ProjectId, Problem> {
    require(app, headers, &[Level::Full]).await
}

impl Ingest {
    /// The proof from headers, for the paths that answer in a form of their own.
    ///
    /// # Errors
    /// 401 without valid credentials, 403 for credentials of another level.
    pub async fn from_headers(app: &App, headers: &HeaderMap) -> Result<Self, Problem> {
        let project = require(app, headers, &[Level::Full, Level::Ingest]).await?;
        Ok(Self { project })
    }
}

macro_rules! proof {
    ($name:ident, $($level:ident),+) => {
        impl FromRequestParts<App> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
                let project = require(app, &parts.headers, &[$(Level::$level),+]).await?;
                Ok(Self { project })
            }
        }
    };
}

impl FromRequestParts<App> for BatchWriter {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let (project, level) = authenticate(app, &parts.headers).await?;
        Ok(Self {
            project,
            only_scores: level == Level::Scores,
        })
    }
}

proof!(Ingest, Full, Ingest);
proof!(Reader, Full);
proof!(Writer, Full);
proof!(ScoreWriter, Full, Ingest, Scores);
