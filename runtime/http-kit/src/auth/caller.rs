//! Authentication of a request by key or session.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use perpend_catalog::{ApiKey, BrowserSession, KeyOwner, Project, SecretHash, SessionOrigin};
use perpend_domain::access::{Permission, Scope};
use perpend_domain::ids::{ProjectId, PublicKey};

use super::Credentials;
use super::account_session::session_in_project;
use super::act::{Act, Allowed, SessionPerson, decide, unguarded};
use super::browser::Session;
use super::cache::CacheLookup;
use super::key::{Caller, MatchedSecret};
use super::refusals::Refusal;
use super::session::{self, Sessions};
use super::throttle::{AuthAttempt, AuthTarget, refused};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::otlp;
use crate::problem::{Code, Problem};
use crate::request_id::REQUEST_ID;

/// The key with this public half, while it is valid.
pub(super) async fn known_key(web: &Web, public_key: &str) -> Result<Option<Arc<ApiKey>>, Problem> {
    let key = stored_key(web, public_key).await?;
    let now = web.clock.now();
    Ok(key.filter(|key| key.is_valid(now)))
}

/// The key with this public half, valid or expired.
async fn stored_key(web: &Web, public_key: &str) -> Result<Option<Arc<ApiKey>>, Problem> {
    match web.keys.get(public_key, web.clock.now()) {
        CacheLookup::Hit(found) => Ok(found),
        CacheLookup::Miss(since) => read_key(web, public_key, since).await,
    }
}

/// Reads a key from the database and caches it, unless it was changed here after `since` invalidations.
async fn read_key(web: &Web, public_key: &str, since: u64) -> Result<Option<Arc<ApiKey>>, Problem> {
    let now = web.clock.now();
    let Ok(id) = PublicKey::new(public_key) else {
        return Ok(None);
    };
    let key = web.catalog.api_key(&id).await?.map(Arc::new);
    web.keys.put(public_key, key.clone(), since, now);
    Ok(key)
}

/// Why authentication failed.
pub(super) enum AuthFailure {
    /// Missing or malformed credentials.
    Missing,
    /// Wrong credentials.
    Wrong(AuthTarget),
    /// The right secret of a key after its end.
    Expired(KeyOwner, Problem),
    /// Another problem.
    Problem(Problem),
}

impl From<Problem> for AuthFailure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<perpend_db::Error> for AuthFailure {
    fn from(error: perpend_db::Error) -> Self {
        Self::Problem(error.into())
    }
}

/// The caller that sent these headers. Wrong credentials are counted and logged once per request.
pub(super) async fn authenticate(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<Caller, Problem> {
    let failure = match identify(web, client, headers).await {
        Ok(caller) => return Ok(caller),
        Err(failure) => failure,
    };
    if let AuthFailure::Expired(KeyOwner::Project(project), problem) = &failure {
        let (at, status) = (web.clock.now(), problem.code().status());
        let refusal = Refusal { at, status, reason: "expired key pair or secret" };
        web.refusals.note(project, refusal);
    }
    let is_of_key = matches!(failure, AuthFailure::Wrong(AuthTarget::Key(_)));
    let problem = failure_problem(web, client, headers, failure);
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    if let Some(credentials) = credentials.filter(|_| is_of_key) {
        record_refusal(web, credentials.public_key(), problem.code().status()).await;
    }
    Err(problem)
}

/// The response to a failure; wrong credentials count towards the limit of the client.
fn failure_problem(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
    failure: AuthFailure,
) -> Problem {
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    let attempt = AuthAttempt {
        client,
        request_id: headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()),
        public_key: credentials.as_ref().map(Credentials::public_key),
    };
    let now = web.clock.now();
    match failure {
        AuthFailure::Problem(problem) => problem,
        AuthFailure::Expired(_, problem) => {
            web.throttle.expired(attempt, now);
            problem
        }
        AuthFailure::Missing => {
            web.throttle.missing(attempt, now);
            refused()
        }
        AuthFailure::Wrong(target) => web.throttle.failed(target, attempt, now),
    }
}

/// Records a refusal for the project of a key whose secret was wrong.
async fn record_refusal(web: &Web, public_key: &str, status: StatusCode) {
    let reason = match status {
        StatusCode::TOO_MANY_REQUESTS => "too many wrong secrets from this network",
        _ => "wrong secret",
    };
    if let Ok(Some(key)) = known_key(web, public_key).await
        && let KeyOwner::Project(project) = &key.owner
    {
        let at = web.clock.now();
        web.refusals.note(project, Refusal { at, status, reason });
    }
}

/// [`authenticate`] without counting.
pub(super) async fn identify(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
) -> Result<Caller, AuthFailure> {
    let credentials = headers.get(AUTHORIZATION).and_then(Credentials::parse);
    match credentials.ok_or(AuthFailure::Missing)? {
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
) -> Result<Caller, AuthFailure> {
    let Some(mut key) = stored_key(web, public_key).await? else {
        // As much work as for a known key: the response time does not reveal whether a key exists.
        let _ = SecretHash::new("", [0; 16]).matches(secret_key);
        return Err(AuthFailure::Wrong(AuthTarget::UnknownKey));
    };
    let (target, now) = (AuthTarget::Key(key.made.id.clone()), web.clock.now());
    if !web.throttle.may_compare(&target, client, secret_key, now) {
        return Err(AuthFailure::Wrong(target));
    }
    let mut secret = MatchedSecret::find(&key, secret_key);
    if secret.is_none()
        && let Some(since) = web.keys.may_reread(public_key, now)
        && let Some(newer) = read_key(web, public_key, since).await?
    {
        secret = MatchedSecret::find(&newer, secret_key);
        key = newer;
    }
    let Some(secret) = secret else {
        return Err(AuthFailure::Wrong(target));
    };
    if let Some(problem) = secret.expiry(now) {
        return Err(AuthFailure::Expired(key.owner.clone(), problem));
    }
    web.throttle.succeeded(target, client, secret_key, now);
    web.keys.note_use(&key, &secret, now);
    Ok(Caller::pair(&key))
}

async fn by_public_key(web: &Web, public_key: &str) -> Result<Caller, AuthFailure> {
    let now = web.clock.now();
    let key = known_key(web, public_key).await?;
    let Some(key) = key.filter(|key| key.accepts_public_half(now)) else {
        return Err(AuthFailure::Wrong(AuthTarget::UnknownKey));
    };
    Ok(Caller {
        owner: key.owner.clone(),
        scope: Scope::PublicHalf,
        public_half: Some(key.made.id.clone()),
    })
}

/// The administrator of the installation, who names the project in a header: the only access to a project without a
/// key of its own. Disabled unless an administrator key is configured.
async fn by_admin_key(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
    sent: [&str; 2],
) -> Result<Caller, AuthFailure> {
    let (target, now) = (AuthTarget::Administrator, web.clock.now());
    let configured = web.config.admin.api_key.as_deref();
    // The comparison also happens without a configured key, in the same time.
    let hash = SecretHash::new(configured.unwrap_or_default(), [0; 16]);
    let matches = sent.map(|secret| hash.matches(secret));
    let may_compare = web.throttle.may_compare(&target, client, sent[0], now);
    if configured.is_none() || !may_compare || matches.contains(&false) {
        return Err(AuthFailure::Wrong(target));
    }
    web.throttle.succeeded(target, client, sent[0], now);
    let id = otlp::either(headers, "project-id").ok_or_else(|| {
        let message = "the header x-perpend-project-id is required with the administrator key";
        Problem::new(Code::InvalidRequest, message)
    })?;
    let project = match ProjectId::new(&id) {
        Ok(id) => web.catalog.project(&id).await?,
        Err(_) => None,
    };
    let project = project.ok_or_else(|| Problem::new(Code::NotFound, "no such project"))?;
    Ok(Caller { owner: KeyOwner::Project(project.id), scope: Scope::Full, public_half: None })
}

/// The session in these headers while its origin is valid: in the requested project, otherwise in the last used one.
///
/// # Errors
/// When the database fails.
pub async fn session_of(
    web: &Web,
    headers: &HeaderMap,
    requested: Option<&str>,
) -> Result<Option<Session>, Problem> {
    if let Some(session) = session_in_project(web, headers, requested).await? {
        return Ok(Some(session));
    }
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
    let is_of_login_token =
        open.iter().any(|(act, _)| matches!(act.session, Some(SessionPerson::LoginToken)));
    let is_requested = |(_, project): &(Act, Project)| Some(project.id.as_str()) == requested;
    let (act, project) = open.remove(open.iter().position(is_requested).unwrap_or(0));
    Ok(Some(Session {
        act,
        project,
        others: open.into_iter().map(|(_, project)| project).collect(),
        is_of_login_token,
        account: None,
        token,
    }))
}

/// The identity of a session while its origin is valid.
async fn act_in(web: &Web, session: BrowserSession) -> Result<Option<Act>, Problem> {
    let project = session.project;
    let created_at = session.created_at;
    let (scope, person) = match session.origin {
        SessionOrigin::LoginToken(start) if start == web.start_id => {
            (Scope::Full, SessionPerson::LoginToken)
        }
        SessionOrigin::LoginToken(_) => return Ok(None),
        SessionOrigin::KeyPair(public_key) => {
            let (now, owner) = (web.clock.now(), KeyOwner::Project(project.clone()));
            let is_open = |key: &Arc<ApiKey>| {
                let since = key.sessions_since(now);
                key.owner == owner && since.is_none_or(|since| since <= created_at)
            };
            match known_key(web, &public_key).await?.filter(is_open) {
                Some(key) => (Caller::pair(&key).scope, SessionPerson::KeyPair(public_key)),
                None => return Ok(None),
            }
        }
    };
    Ok(Some(Act { project, permissions: scope.into(), public_half: None, session: Some(person) }))
}

/// The identity of the sender in a project, for routes without a guard. A refusal here is not recorded as a
/// refused request of the project: the login form uses this function too.
///
/// # Errors
/// 401 without valid credentials, 403 for credentials without the permission.
pub async fn act_of(
    web: &Web,
    client: ClientAddress,
    headers: &HeaderMap,
    permission: Permission,
) -> Result<Act, Problem> {
    let caller = identify(web, client, headers).await;
    let caller = caller.map_err(|failure| failure_problem(web, client, headers, failure))?;
    match decide(caller, &[permission])? {
        Allowed::InProject(act) => Ok(act),
        Allowed::InOrganization(_) => Err(unguarded()),
    }
}
