//! Browser sessions: rows in the database that a cookie refers to.
//!
//! The cookie holds either the sessions of key pairs, one for each project, or the session of an account with the
//! project that was used last.
//!
//! Invariants:
//! - **The cookie holds random references**, of 256 bits each, and the database their SHA-256: a copy of the database
//!   gives no access to a page.
//! - **A logout takes effect everywhere.** A session whose row is deleted is refused from the next request on, on any server.
//! - **A browser has one session for each project** that it logged in to, all in one cookie, the last used first.
//! - **A session ends with its origin**: when its key pair is deleted or expires, when the secret of a rotated pair ends, or
//!   when the server whose login token was used restarts.
//! - **A form is accepted only from a page of its session.** Its pages carry a token derived from the cookie, masked differently in each
//!   response: responses are compressed, and a constant text could be guessed from their length.

use std::fmt;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use perpend_catalog::{BrowserSession, SessionDigest, SessionOrigin};
use perpend_db::Error;
use perpend_domain::ids::{IdSource, ProjectId};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Web;
use crate::cookies::{cookie_values, set_cookie};

/// Lifetime of a session.
pub(super) const SESSION_SECONDS: i64 = 14 * 24 * 3_600;
/// The cookie's name.
const COOKIE: &str = "perpend_session";
const FORM_DOMAIN: &[u8] = b"form/2";
/// Sessions of one browser.
const MAX_AT_ONCE: usize = 12;
/// Cookies of this name that are read: a sibling host may have set another one.
const MAX_COOKIES: usize = 3;
/// Bytes of all sessions. Browsers drop a cookie of more than 4,096 bytes, name and attributes included.
const MAX_BYTES: usize = 3_900;
/// Separator of the sessions in a cookie.
const BETWEEN: char = '~';
/// Start of the session of an account in a cookie.
const OF_ACCOUNT: char = '@';

/// Token of the forms of one session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormToken([u8; 32]);

impl fmt::Debug for FormToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormToken")
    }
}

impl FormToken {
    /// The masked form in a page, different in each response.
    pub fn masked(&self, ids: &dyn IdSource) -> String {
        let mut hash = Sha256::new();
        for _ in 0..2 {
            hash.update(ids.uuid().as_bytes());
        }
        let mask: [u8; 32] = hash.finalize().into();
        let mut both = [0; 64];
        both[..32].copy_from_slice(&mask);
        for (at, byte) in both[32..].iter_mut().enumerate() {
            *byte = self.0[at] ^ mask[at];
        }
        URL_SAFE_NO_PAD.encode(both)
    }

    /// Identifies the session in browser storage without revealing the token.
    #[must_use]
    pub fn session_tag(&self) -> String {
        let digest = Sha256::new().chain_update(b"form-tag/1").chain_update(self.0).finalize();
        URL_SAFE_NO_PAD.encode(&digest[..9])
    }

    /// Whether a form carries this token.
    pub fn is_in(&self, masked: &str) -> bool {
        let Ok(both) = URL_SAFE_NO_PAD.decode(masked) else {
            return false;
        };
        let Some((mask, hidden)) = both.split_at_checked(32).filter(|(_, rest)| rest.len() == 32)
        else {
            return false;
        };
        let shown: Vec<u8> = mask.iter().zip(hidden).map(|(a, b)| a ^ b).collect();
        shown.ct_eq(&self.0).into()
    }
}

/// The sessions of a browser and the token of their forms.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    /// The last used first.
    pub(super) all: Vec<BrowserSession>,
    pub(super) token: FormToken,
}

/// A session in a cookie: project and reference.
#[derive(Clone, Copy)]
struct CookieSession<'h> {
    text: &'h str,
    project: &'h str,
    reference: &'h str,
}

impl<'h> CookieSession<'h> {
    fn read(text: &'h str) -> Option<Self> {
        let (project, reference) = text.split_once('.')?;
        Some(Self { text, project, reference })
    }

    fn digest(&self) -> SessionDigest {
        digest(self.reference)
    }

    fn is_of(&self, project: &ProjectId) -> bool {
        self.project == URL_SAFE_NO_PAD.encode(project.as_str())
    }
}

pub(super) fn digest(reference: &str) -> SessionDigest {
    let hash = Sha256::new().chain_update(b"session/3").chain_update(reference);
    hash.finalize().into()
}

/// 256 random bits.
pub(super) fn random(ids: &dyn IdSource) -> String {
    let mut hash = Sha256::new();
    // Four times 122 random bits.
    for _ in 0..4 {
        hash.update(ids.uuid().as_bytes());
    }
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

/// The sessions in each of our cookies, valid or not.
fn cookies(headers: &HeaderMap) -> Vec<Vec<CookieSession<'_>>> {
    let parts = cookie_values(headers, COOKIE).map(|value| {
        let parts = value.split(BETWEEN).take(MAX_AT_ONCE);
        parts.filter_map(CookieSession::read).collect()
    });
    parts.take(MAX_COOKIES).collect()
}

/// The valid sessions of the first cookie with any, and their entries in it.
async fn valid<'h>(
    web: &Web,
    headers: &'h HeaderMap,
) -> Result<Vec<(CookieSession<'h>, BrowserSession)>, Error> {
    let cookies = cookies(headers);
    let digests = cookies.iter().flatten().map(CookieSession::digest);
    let digests: Vec<SessionDigest> = digests.collect();
    let now = web.clock.now();
    let rows = web.catalog.browser_sessions(&digests, now).await?;
    let found = cookies.into_iter().map(|parts| {
        let with_row = parts.into_iter().filter_map(|part| {
            let digest = part.digest();
            let row = rows.iter().find(|row| row.digest == digest)?;
            part.is_of(&row.project).then(|| (part, row.clone()))
        });
        with_row.collect::<Vec<_>>()
    });
    Ok(found.into_iter().find(|some| !some.is_empty()).unwrap_or_default())
}

/// The valid sessions in the `Cookie` headers; `None` without any.
pub(super) async fn sessions(web: &Web, headers: &HeaderMap) -> Result<Option<Sessions>, Error> {
    let valid = valid(web, headers).await?;
    // Independent of the project used last and of later logins: forms of open pages stay valid until the
    // oldest session ends or is replaced.
    let oldest = valid.iter().min_by_key(|(_, row)| (row.created_at, row.digest));
    let Some((oldest, _)) = oldest else {
        return Ok(None);
    };
    let token = form_token(oldest.reference);
    let all = valid.into_iter().map(|(_, row)| row).collect();
    Ok(Some(Sessions { all, token }))
}

fn form_token(reference: &str) -> FormToken {
    let token = Sha256::new().chain_update(FORM_DOMAIN).chain_update(reference);
    FormToken(token.finalize().into())
}

/// The sessions of accounts in the cookies, valid or not.
fn account_parts(headers: &HeaderMap) -> Vec<CookieSession<'_>> {
    let parts = cookies(headers).into_iter().flatten();
    parts.filter(|part| part.project.starts_with(OF_ACCOUNT)).collect()
}

/// Digests of the sessions of accounts in the cookies, valid or not.
pub(super) fn account_digests(headers: &HeaderMap) -> Vec<SessionDigest> {
    account_parts(headers).iter().map(CookieSession::digest).collect()
}

/// The token of the forms of a session of an account.
pub(super) fn account_token(headers: &HeaderMap, session: &SessionDigest) -> Option<FormToken> {
    let parts = account_parts(headers);
    let part = parts.iter().find(|part| part.digest() == *session)?;
    Some(form_token(part.reference))
}

/// The project that was used last in a session of an account, or in any other one of the cookies.
pub(super) fn account_project(headers: &HeaderMap, session: &SessionDigest) -> Option<String> {
    let parts = account_parts(headers);
    let part = parts.iter().find(|part| part.digest() == *session).or(parts.first())?;
    let project = URL_SAFE_NO_PAD.decode(part.project.strip_prefix(OF_ACCOUNT)?).ok()?;
    String::from_utf8(project).ok()
}

/// The `Set-Cookie` value of a session of an account.
pub(super) fn account_cookie(web: &Web, project: Option<&str>, reference: &str) -> String {
    let project = URL_SAFE_NO_PAD.encode(project.unwrap_or_default());
    session_cookie(web, &format!("{OF_ACCOUNT}{project}.{reference}"), SESSION_SECONDS)
}

/// Creates a session in a project. Returns the `Set-Cookie` value, which keeps the sessions of the headers in other projects;
/// a session in the same project is replaced.
///
/// # Errors
/// When the database fails.
pub async fn create_session(
    web: &Web,
    headers: &HeaderMap,
    project: &ProjectId,
    origin: SessionOrigin,
) -> Result<String, Error> {
    let (replaced, others): (Vec<_>, Vec<_>) =
        valid(web, headers).await?.into_iter().partition(|(_, row)| row.project == *project);
    // Later than the others, so that the oldest one is unique.
    let after = others.iter().map(|(_, row)| row.created_at.plus_millis(1));
    let created_at = after.fold(web.clock.now(), Ord::max);
    let reference = random(&*web.ids);
    let session = BrowserSession {
        digest: digest(&reference),
        project: project.clone(),
        origin,
        created_at,
        expires_at: created_at.plus_millis(SESSION_SECONDS * 1_000),
    };
    let replaced: Vec<SessionDigest> = replaced.iter().map(|(_, row)| row.digest).collect();
    web.catalog.begin_browser_session(&session, &replaced).await?;
    let own = format!("{}.{reference}", URL_SAFE_NO_PAD.encode(project.as_str()));
    let others = others.iter().map(|(part, _)| part.text);
    let all = [own.as_str()].into_iter().chain(others);
    Ok(session_cookie(web, &joined(all), SESSION_SECONDS))
}

/// The `Set-Cookie` value that records a project as the one used last, in the session of an account with this digest or
/// else by the order of the sessions; `None` where it already is.
pub fn use_session(
    web: &Web,
    headers: &HeaderMap,
    account: Option<&SessionDigest>,
    project: &ProjectId,
) -> Option<String> {
    if let Some(session) = account {
        let parts = account_parts(headers);
        let part = parts.iter().find(|part| part.digest() == *session)?;
        let is_used =
            part.project.get(1..) == Some(URL_SAFE_NO_PAD.encode(project.as_str()).as_str());
        return (!is_used).then(|| account_cookie(web, Some(project.as_str()), part.reference));
    }
    let mut cookies = cookies(headers).into_iter();
    let mut parts = cookies.find(|parts| parts.iter().any(|part| part.is_of(project)))?;
    let at = parts.iter().position(|part| part.is_of(project))?;
    (0 < at).then(|| {
        parts[..=at].rotate_right(1);
        let value = joined(parts.iter().map(|part| part.text));
        session_cookie(web, &value, SESSION_SECONDS)
    })
}

/// Ends every session of the headers. Returns the `Set-Cookie` value that deletes the cookie.
///
/// # Errors
/// When the database fails.
pub async fn end_sessions(web: &Web, headers: &HeaderMap) -> Result<String, Error> {
    let digests = cookies(headers).into_iter().flatten();
    let digests: Vec<SessionDigest> = digests.map(|part| part.digest()).collect();
    web.catalog.end_browser_sessions(&digests).await?;
    web.catalog.end_account_sessions(&digests).await?;
    Ok(session_cookie(web, "", 0))
}

/// As many sessions as fit into a cookie.
fn joined<'p>(parts: impl Iterator<Item = &'p str>) -> String {
    let mut value = String::new();
    for part in parts.take(MAX_AT_ONCE) {
        if MAX_BYTES < value.len() + 1 + part.len() {
            break;
        }
        if !value.is_empty() {
            value.push(BETWEEN);
        }
        value.push_str(part);
    }
    value
}

fn session_cookie(web: &Web, value: &str, seconds: i64) -> String {
    set_cookie(&web.config, COOKIE, value, seconds)
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn a_cookie_keeps_the_newest_sessions_within_the_size_limit_of_browsers() {
        let part = format!("{}.{}", "p".repeat(800), "r".repeat(43));
        let parts = std::iter::repeat_n(part.as_str(), 20);
        let value = joined(["newest.r"].into_iter().chain(parts));
        assert!(value.len() <= MAX_BYTES && value.starts_with("newest.r~p"));
        assert_eq!(joined(std::iter::repeat_n("a.b", 20)).matches('~').count(), 11);
    }

    #[derive(Debug)]
    struct SequentialIds(std::sync::atomic::AtomicU64);

    impl IdSource for SequentialIds {
        fn uuid(&self) -> uuid::Uuid {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            uuid::Uuid::from_u128(u128::from(n))
        }
    }

    #[test]
    fn a_form_token_is_valid_in_one_session_and_differs_in_each_response() {
        let ids = SequentialIds(0.into());
        let own = FormToken([7; 32]);
        let (one, other) = (own.masked(&ids), own.masked(&ids));
        assert!(one != other && own.is_in(&one) && own.is_in(&other));
        assert!(!own.is_in(&FormToken([8; 32]).masked(&ids)));
        for forged in ["", "a", &one[..80], &format!("{one}AA"), &"A".repeat(86)] {
            assert!(!own.is_in(forged), "{forged}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let list = format!("other=1; {COOKIE}=cA.r1~nonsense~cQ.r2; last=2");
        let headers = HeaderMap::from_iter([(header::COOKIE, list.parse().unwrap())]);
        let read = cookies(&headers);
        let references: Vec<_> = read[0].iter().map(|part| part.reference).collect();
        assert_eq!((read.len(), references), (1, vec!["r1", "r2"]));
        assert!(read[0][1].is_of(&ProjectId::new("q").unwrap()));
    }
}
