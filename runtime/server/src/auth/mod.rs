//! Who calls: key pairs, and extractors that are the proof of a right.
//!
//! Invariants:
//! - **Only an extractor makes a proof.** A handler that takes a [`Reader`] cannot be reached without one.
//! - **A project comes from the key.** No parameter of a request names it. Two callers name one: the
//!   administrator of the installation, and an organization, which manages its own projects and reads none.
//! - **Secrets are compared as digests, in constant time**, and an unknown public key takes the same way.
//! - **Guessing is slow.** Wrong credentials block the network they come from (`throttle`).

mod basic;
mod cache;
mod caller;
mod counted;
mod login;
mod pair;
mod throttle;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use perpend_domain::ids::{OrganizationId, ProjectId};

use crate::App;
use crate::client_address::ClientAddress;
use crate::problem::{Code, Problem};

pub use basic::Credentials;
pub(crate) use cache::{KEPT_MS, KeyCache};
pub(crate) use caller::KnownKey;
use caller::{Caller, Level, authenticate};
pub(crate) use counted::{CountedKey, charge_to_key, counted_key};
pub(crate) use login::check_login_token;
pub use pair::KeyPair;
pub(crate) use throttle::Throttle;

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

/// The right to manage one organization: its projects, keys and people.
#[derive(Clone, Debug)]
pub struct Organizer {
    /// The organization.
    pub organization: OrganizationId,
}

fn denied(message: &str) -> Problem {
    Problem::new(Code::AccessDenied, message)
}

/// The project and the level of credentials that open one.
async fn in_project(
    app: &App,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<(ProjectId, Level), Problem> {
    match authenticate(app, client, headers).await? {
        Caller::Project(project, level) => Ok((project, level)),
        Caller::Organization(_) | Caller::OrganizationPublic => Err(denied(
            "an organization key manages projects, keys and members, and opens no project; send a key \
             pair of the project",
        )),
    }
}

/// The project, when the credentials in these headers open one of `levels`.
async fn require(
    app: &App,
    client: ClientAddress,
    headers: &HeaderMap,
    levels: &[Level],
) -> Result<ProjectId, Problem> {
    let (project, level) = in_project(app, client, headers).await?;
    if levels.contains(&level) {
        return Ok(project);
    }
    Err(denied(match level {
        Level::Scores => {
            "a public key alone may only write scores; send the key pair with Basic authentication"
        }
        _ => "this key pair may send telemetry and scores, and read nothing",
    }))
}

/// The project of a key pair in these headers, for what is neither handler nor OTLP.
///
/// # Errors
/// 401 without valid credentials, 403 for credentials that may not read.
pub async fn project_of(
    app: &App,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<ProjectId, Problem> {
    require(app, client, headers, &[Level::Full]).await
}

impl Ingest {
    /// The proof from headers, for the paths that answer in a form of their own.
    ///
    /// # Errors
    /// 401 without valid credentials, 403 for credentials of another level.
    pub async fn from_headers(
        app: &App,
        client: ClientAddress,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let project = require(app, client, headers, &[Level::Full, Level::Ingest]).await?;
        Ok(Self { project })
    }
}

macro_rules! proof {
    ($name:ident, $($level:ident),+) => {
        impl FromRequestParts<App> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
                let client = ClientAddress::in_request(&parts.extensions);
                let project = require(app, client, &parts.headers, &[$(Level::$level),+]).await?;
                charge_to_key(&parts.extensions, &parts.headers);
                Ok(Self { project })
            }
        }
    };
}

impl FromRequestParts<App> for BatchWriter {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let client = ClientAddress::in_request(&parts.extensions);
        let (project, level) = in_project(app, client, &parts.headers).await?;
        charge_to_key(&parts.extensions, &parts.headers);
        Ok(Self {
            project,
            only_scores: level == Level::Scores,
        })
    }
}

impl FromRequestParts<App> for Organizer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let client = ClientAddress::in_request(&parts.extensions);
        match authenticate(app, client, &parts.headers).await? {
            Caller::Organization(organization) => {
                charge_to_key(&parts.extensions, &parts.headers);
                Ok(Self { organization })
            }
            Caller::OrganizationPublic => Err(denied(
                "a public key alone manages nothing; send the key pair with Basic authentication",
            )),
            Caller::Project(..) => Err(denied(
                "this needs a key pair of the organization; that of a project opens the project alone",
            )),
        }
    }
}

proof!(Ingest, Full, Ingest);
proof!(Reader, Full);
proof!(Writer, Full);
proof!(ScoreWriter, Full, Ingest, Scores);
