//! Sessions of accounts: sign-in with e-mail and password, and the projects that a session opens.
//!
//! Invariants:
//! - **One function begins sessions**, with a new random reference: a reference from before the sign-in is never used.
//! - **Roles are read with each request**, so that a change or an end of a membership applies to the next one.
//! - **An unknown address, a wrong password and a disabled account are one case**: same work, same answer.

use axum::http::HeaderMap;
use axum::http::header::USER_AGENT;
use perpend_catalog::{Account, AccountSession, Membership, Project};
use perpend_db::Error;
use perpend_domain::access::Role;
use perpend_domain::ids::ProjectId;

use super::act::{Act, Member, SessionPerson};
use super::browser::{Session, SignedIn};
use super::session::{self, SESSION_SECONDS};
use super::sign_in_limits::Attempt;
use crate::Web;
use crate::client_address::ClientAddress;
use crate::cookies::{cookie_values, set_cookie};
use crate::problem::Problem;

/// Cookie of a browser that signed in before.
const DEVICE_COOKIE: &str = "perpend_device";
const DEVICE_SECONDS: i64 = 180 * 24 * 3_600;
/// The time of the last request of a session is stored after this time.
const SEEN_STEP_MS: i64 = 5 * 60 * 1_000;
/// The password counts as entered recently for this time.
const FRESH_MS: i64 = 10 * 60 * 1_000;
/// Characters that are stored of a user agent.
const MAX_AGENT_CHARS: usize = 200;

/// The account of the session in these headers.
///
/// # Errors
/// When the database fails.
pub async fn signed_in(web: &Web, headers: &HeaderMap) -> Result<Option<SignedIn>, Error> {
    let digests = session::account_digests(headers);
    let now = web.clock.now();
    let Some((session, account)) = web.catalog.account_session(&digests, now).await? else {
        return Ok(None);
    };
    if session.seen_at.plus_millis(SEEN_STEP_MS) < now {
        web.catalog.note_session_use(&session.digest, now).await?;
    }
    let is_fresh = now < session.fresh_at.plus_millis(FRESH_MS);
    Ok(Some(SignedIn { account, session, is_fresh }))
}

/// The identity of the account in each project in which it has a role.
fn act_of(membership: &Membership, account: &Account) -> Option<Act> {
    let role = membership.role();
    (role != Role::None).then(|| Act {
        project: membership.project.clone(),
        permissions: role.into(),
        public_half: None,
        session: Some(SessionPerson::Member(Member {
            organization: membership.organization.clone(),
            id: membership.user.clone(),
            role: membership.organization_role,
            account: account.id.clone(),
        })),
    })
}

/// The session of an account in the requested project, otherwise in the one used last, otherwise in the oldest one.
pub(super) async fn session_in_project(
    web: &Web,
    headers: &HeaderMap,
    requested: Option<&str>,
) -> Result<Option<Session>, Problem> {
    let Some(signed_in) = signed_in(web, headers).await? else {
        return Ok(None);
    };
    let Some(token) = session::account_token(headers, &signed_in.session.digest) else {
        return Ok(None);
    };
    let memberships = web.catalog.memberships(&signed_in.account.id).await?;
    let acts = memberships.iter().filter_map(|one| act_of(one, &signed_in.account));
    let mut acts: Vec<Act> = acts.collect();
    let last = session::account_project(headers, &signed_in.session.digest);
    let is = |act: &Act, wanted: Option<&str>| Some(act.project.as_str()) == wanted;
    let at = acts.iter().position(|act| is(act, requested));
    let at = at.or_else(|| acts.iter().position(|act| is(act, last.as_deref())));
    if let Some(at) = at {
        acts[..=at].rotate_right(1);
    }
    let ids: Vec<ProjectId> = acts.iter().map(|act| act.project.clone()).collect();
    let mut projects: Vec<Project> = web.catalog.projects_named(&ids).await?;
    projects.sort_by_key(|project| ids.iter().position(|id| *id == project.id));
    if projects.is_empty() {
        return Ok(None);
    }
    let project = projects.remove(0);
    let act = acts.into_iter().find(|act| act.project == project.id);
    Ok(act.map(|act| Session {
        act,
        project,
        others: projects,
        is_of_login_token: false,
        account: Some(signed_in),
        token,
    }))
}

/// Begins a session of an account. Returns the `Set-Cookie` values of the session and of the known browser. Sessions of
/// the headers end.
///
/// # Errors
/// When the database fails.
pub async fn begin_account_session(
    web: &Web,
    (client, headers): (ClientAddress, &HeaderMap),
    account: &Account,
) -> Result<[String; 2], Error> {
    let (reference, now) = (session::random(&*web.ids), web.clock.now());
    let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let new_session = AccountSession {
        digest: session::digest(&reference),
        id: web.ids.uuid().to_string(),
        account: account.id.clone(),
        created_at: now,
        seen_at: now,
        fresh_at: now,
        expires_at: now.plus_millis(SESSION_SECONDS * 1_000),
        address: client.to_string(),
        agent: agent.unwrap_or_default().chars().take(MAX_AGENT_CHARS).collect(),
    };
    let replaced = session::account_digests(headers);
    web.catalog.begin_account_session(&new_session, &replaced).await?;
    let last = session::account_project(headers, &new_session.digest);
    let cookie = session::account_cookie(web, last.as_deref(), &reference);
    let device = web.sign_in_limits.device_cookie(&account.email, &*web.ids);
    Ok([cookie, set_cookie(&web.config, DEVICE_COOKIE, &device, DEVICE_SECONDS)])
}

/// The account with this e-mail address and password. Every attempt counts towards the limits.
///
/// # Errors
/// 429 after too many failures, 503 while too many people sign in; when the database fails.
pub async fn verify_password(
    web: &Web,
    (client, headers): (ClientAddress, &HeaderMap),
    (email, password): (&str, &str),
) -> Result<Option<Account>, Problem> {
    let email = canonical_email(email);
    let now = web.clock.now();
    let mut devices = cookie_values(headers, DEVICE_COOKIE);
    let device = devices.find_map(|cookie| web.sign_in_limits.device(cookie, &email));
    let attempt = Attempt { email: &email, client, device };
    if let Err(seconds) = web.sign_in_limits.begin(&attempt, now) {
        tracing::info!(client.address = %client, "too many attempts to sign in");
        return Err(Problem::too_many_attempts(seconds));
    }
    let account = web.catalog.account_by_email(&email).await?.filter(|one| one.is_active);
    let stored = account.as_ref().and_then(|account| account.password_hash.clone());
    if !web.passwords.matches(password, stored).await? {
        tracing::info!(client.address = %client, "sign-in refused");
        return Ok(None);
    }
    // The comparison may have waited: a password that was replaced meanwhile begins no session.
    let current = web.catalog.account_by_email(&email).await?.filter(|one| one.is_active);
    let hash_of = |account: &Option<Account>| account.as_ref()?.password_hash.clone();
    if hash_of(&current) != hash_of(&account) {
        return Ok(None);
    }
    web.sign_in_limits.succeeded(&attempt, now);
    Ok(current)
}

/// An e-mail address as accounts store it.
#[must_use]
pub fn canonical_email(email: &str) -> String {
    email.trim().to_lowercase()
}

/// Whether a text has the form of an e-mail address.
#[must_use]
pub fn is_email(email: &str) -> bool {
    let is_plain = email.chars().all(|c| !c.is_whitespace() && !c.is_control());
    let parts = email.split_once('@');
    let has_parts = parts.is_some_and(|(name, host)| !name.is_empty() && host.len() >= 2);
    is_plain && has_parts && email.len() <= 254
}
