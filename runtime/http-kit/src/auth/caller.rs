//! From the headers of a request to who sent it, by a key or in a session.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use perpend_catalog::{BrowserSession, KeyOwner, Project, SecretHash, SessionOrigin};
use perpend_domain::access::{Permission, Scope};
use perpend_domain::ids::{ProjectId, PublicKey};

use super::Credentials;
use super::act::{Act, Allowed, decide, unguarded};
use super::cache::Remembered;
use super::key::{Caller, KnownKey};
use super::refusals::Refusal;
use super::session::{self, FormToken, Sessions};
use super::throttle::{Attempt, Target, refused};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::otlp;
use crate::problem::{Code, Problem};
use crate::request_id::REQUEST_ID;

/// The key with this public half, while it is valid.
pub(super) async fn known_key(
    web: &Web,
    public_key: &str,
) -> Result<Option<Arc<KnownKey>>, Problem> {
    let now = web.clock.now();
    let is_valid = |key: &Arc<KnownKey>| key.expires_at.is_none_or(|end| now < end);
    let since = match web.keys.get(public_key, now) {
        Remembered::Key(found) => return Ok(found.filter(is_valid)),
        Remembered::Nothing(since) => since,
    };
    let Ok(id) = PublicKey::new(public_key) else {
        return Ok(None);
    };
    let key = web.catalog.api_key(&id).await?.map(|key| {
        Arc::new(KnownKey {
            id: key.made.id,
            owner: key.owner,
            secret_hash: key.made.secret_hash,
            rights: key.made.rights,
            expires_at: key.made.expires_at,
            last_used_at: key.last_used_at,
        })
    });
    web.keys.put(public_key, key.clone(), since, now);
    Ok(key.filter(is_valid))
}

/// Why credentials open nothing.
pub(super) enum Failure {
    /// There are none, or they cannot be read.
    Missing,
    /// They are wrong.
    Wrong(Target),
    /// Anything else.
    Problem(Problem),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<perpend_db::Error> for Failure {
    fn from(error: perpend_db::Error) -> Self {
        Self::Problem(error.into())
    }
}

/// Who sent these headers. Wrong credentials are counted and logged: once for a request.
pub(super) async fn authenticate(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let failure = match identify(web, client, headers).await {
        Ok(caller) => return Ok(caller),
        Err(failure) => failure,
    };
    let is_of_key = matches!(failure, Failure::Wrong(Target::Key(_)));
    let problem = counted(web, client, headers, failure);
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    if let Some(credentials) = credentials.filter(|_| is_of_key) {
        note_refusal(web, credentials.public_key(), problem.code().status()).await;
    }
    Err(problem)
}

/// What the caller is told; what was wrong counts against it.
fn counted(web: &Web, client: ClientAddress, headers: &HeaderMap, failure: Failure) -> Problem {
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    let attempt = Attempt {
        client,
        request_id: headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        public_key: credentials.as_ref().map(Credentials::public_key),
    };
    let now = web.clock.now();
    match failure {
        Failure::Problem(problem) => problem,
        Failure::Missing => {
            web.throttle.missing(attempt, now);
            refused()
        }
        Failure::Wrong(target) => web.throttle.failed(target, attempt, now),
    }
}

/// Remembers for the project of a known key that its secret was wrong.
async fn note_refusal(web: &Web, public_key: &str, status: StatusCode) {
    let why = match status {
        StatusCode::TOO_MANY_REQUESTS => "too many wrong secrets from this network",
        _ => "wrong secret",
    };
    if let Ok(Some(key)) = known_key(web, public_key).await
        && let KeyOwner::Project(project) = &key.owner
    {
        let at = web.clock.now();
        web.refusals.note(project, Refusal { at, status, why });
    }
}

/// [`authenticate`] without counting.
pub(super) async fn identify(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<Caller, Failure> {
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    match credentials.ok_or(Failure::Missing)? {
        Credentials::Pair { public_key, secret_key } => {
            by_pair(web, client, &public_key, &secret_key).await
        }
        Credentials::PublicKey(bearer) => match otlp::either(headers, "admin-api-key") {
            Some(admin_key) => by_admin_key(web, client, headers, [&bearer, &admin_key]).await,
            None => by_public_key(web, &bearer).await,
        },
    }
}

async fn by_pair(
    web: &Web,
    client: ClientAddress,
    public_key: &str,
    secret_key: &str,
) -> Result<Caller, Failure> {
    let Some(key) = known_key(web, public_key).await? else {
        // As much work as for a known key, so that the time tells nothing.
        let _ = SecretHash::new("", [0; 16]).matches(secret_key);
        return Err(Failure::Wrong(Target::UnknownKey));
    };
    let (target, now) = (Target::Key(key.id.clone()), web.clock.now());
    let may_compare = web.throttle.may_compare(&target, client, secret_key, now);
    if !may_compare || !key.secret_hash.matches(secret_key) {
        return Err(Failure::Wrong(target));
    }
    web.throttle.succeeded(target, client, secret_key, now);
    web.keys.note_use(&key, now);
    Ok(Caller::pair(&key))
}

async fn by_public_key(web: &Web, public_key: &str) -> Result<Caller, Failure> {
    let Some(key) = known_key(web, public_key).await? else {
        return Err(Failure::Wrong(Target::UnknownKey));
    };
    Ok(Caller {
        owner: key.owner.clone(),
        scope: Scope::PublicHalf,
        public_half: Some(key.id.clone()),
    })
}

/// The administrator of the installation, who names the project: the one way to a project without a key of
/// its own, and closed where no administrator's key is configured.
async fn by_admin_key(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
    shown: [&str; 2],
) -> Result<Caller, Failure> {
    let (target, now) = (Target::Administrator, web.clock.now());
    let configured = web.config.admin.api_key.as_deref();
    // Without a key there is nothing to compare with, and the same work is done.
    let hash = SecretHash::new(configured.unwrap_or_default(), [0; 16]);
    let matches = shown.map(|shown| hash.matches(shown));
    let may_compare = web.throttle.may_compare(&target, client, shown[0], now);
    if configured.is_none() || !may_compare || matches.contains(&false) {
        return Err(Failure::Wrong(target));
    }
    web.throttle.succeeded(target, client, shown[0], now);
    let id = otlp::either(headers, "project-id").ok_or_else(|| {
        let message = "the header x-perpend-project-id is missing: it names the project";
        Problem::new(Code::InvalidRequest, message)
    })?;
    let project = match ProjectId::new(&id) {
        Ok(id) => web.catalog.project(&id).await?,
        Err(_) => None,
    };
    let project = project.ok_or_else(|| Problem::new(Code::NotFound, "no such project"))?;
    Ok(Caller { owner: KeyOwner::Project(project.id), scope: Scope::Full, public_half: None })
}

/// What a browser is logged in to.
#[derive(Clone, Debug)]
pub struct Session {
    /// What is done in the project that is looked at.
    pub act: Act,
    /// That project.
    pub project: Project,
    /// The others that the browser is logged in to, the last used first.
    pub others: Vec<Project>,
    /// What the forms of its pages carry.
    pub token: FormToken,
}

/// The session in these headers, while what began it is valid: in this project, or in the one that was used last.
///
/// # Errors
/// When the database fails.
pub async fn session_of(
    web: &Web,
    headers: &HeaderMap,
    wanted: Option<&str>,
) -> Result<Option<Session>, Problem> {
    let Some(Sessions { all, token }) = session::sessions(web, headers).await? else {
        return Ok(None);
    };
    let mut acts = Vec::with_capacity(all.len());
    for one in all {
        acts.extend(act_in(web, one).await?);
    }
    let ids: Vec<ProjectId> = acts.iter().map(|act| act.project.clone()).collect();
    let mut projects = web.catalog.projects_named(&ids).await?;
    let open = acts.into_iter().filter_map(|act| {
        let at = projects.iter().position(|one| one.id == act.project)?;
        Some((act, projects.swap_remove(at)))
    });
    let mut open: Vec<(Act, Project)> = open.collect();
    if open.is_empty() {
        return Ok(None);
    }
    let is_wanted = |(_, project): &(Act, Project)| Some(project.id.as_str()) == wanted;
    let (act, project) = open.remove(open.iter().position(is_wanted).unwrap_or(0));
    Ok(Some(Session {
        act,
        project,
        others: open.into_iter().map(|(_, project)| project).collect(),
        token,
    }))
}

/// What a session may do, while what began it is valid.
async fn act_in(web: &Web, session: BrowserSession) -> Result<Option<Act>, Problem> {
    let project = session.project;
    let scope = match session.origin {
        SessionOrigin::LoginToken(start) if start == web.start_id => Scope::Full,
        SessionOrigin::LoginToken(_) => return Ok(None),
        SessionOrigin::KeyPair(public_key) => match known_key(web, &public_key).await? {
            Some(key) if key.owner == KeyOwner::Project(project.clone()) => {
                Caller::pair(&key).scope
            }
            _ => return Ok(None),
        },
    };
    Ok(Some(Act { project, scope, public_half: None }))
}

/// The act of who sent these headers in a project, for what has no guard in front. A refusal here is not counted as a
/// refused request of the project: a secret was perhaps mistyped in the login form.
///
/// # Errors
/// 401 without valid credentials, 403 for credentials that may not do it.
pub async fn act_of(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
    permission: Permission,
) -> Result<Act, Problem> {
    let caller = identify(web, client, headers).await;
    let caller = caller.map_err(|failure| counted(web, client, headers, failure))?;
    match decide(caller, &[permission])? {
        Allowed::InProject(act) => Ok(act),
        Allowed::InOrganization(_) => Err(unguarded()),
    }
}
