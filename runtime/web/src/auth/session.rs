//! Who looks: the signed session cookie that a login is exchanged for.
//!
//! Invariants:
//! - **The cookie is the whole session.** It names a project, an end and what began it, signed with a key that
//!   the installation keeps; nothing is remembered here, so any node can read it.
//! - **A browser has one session for each project** that it logged in to, all in one cookie, the last used first.
//! - **A session ends with what began it**: a key pair that is deleted or expires, or the token of a start that
//!   another start took the place of.
//! - **Signatures are compared in constant time.**
//! - **A form is sent from a page of its session.** Its pages carry a token derived from the cookie, masked anew in each
//!   answer: answers are compressed, and a text that stays the same could be guessed from their length.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use perpend_catalog::Catalog;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::Timestamp;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// How long a login lasts.
const SESSION_SECONDS: i64 = 14 * 24 * 3_600;
/// The cookie's name.
const COOKIE: &str = "perpend_session";
/// Name of the signing key among the installation's secrets.
pub const SESSION_KEY: &str = "session-key";
/// Keeps a signature made here from being one anywhere else.
const DOMAIN: &[u8] = b"session/2";
const FORM_DOMAIN: &[u8] = b"form/1";
/// Sessions of one browser.
const MAX_AT_ONCE: usize = 12;
/// Bytes of all of them. A browser drops a cookie of more than 4,096 bytes, its name and attributes counted.
const MAX_BYTES: usize = 3_900;
/// Between the sessions of a cookie.
const BETWEEN: char = '~';

/// What the forms of one session carry.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FormToken([u8; 32]);

impl fmt::Debug for FormToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FormToken")
    }
}

impl FormToken {
    /// As a page carries it: no two answers have the same text.
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

    /// Names the session in what browsers keep of its pages, and tells nothing of the token.
    #[must_use]
    pub fn session_tag(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"form-tag/1")
            .chain_update(self.0)
            .finalize();
        URL_SAFE_NO_PAD.encode(&digest[..9])
    }

    /// Whether a form carries this token.
    pub fn is_in(&self, masked: &str) -> bool {
        let Ok(both) = URL_SAFE_NO_PAD.decode(masked) else {
            return false;
        };
        let Some((mask, hidden)) = both
            .split_at_checked(32)
            .filter(|(_, rest)| rest.len() == 32)
        else {
            return false;
        };
        let shown: Vec<u8> = mask.iter().zip(hidden).map(|(a, b)| a ^ b).collect();
        shown.ct_eq(&self.0).into()
    }
}

/// What a session was begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The key pair with this public half.
    Pair(String),
    /// The token that the server printed when it started.
    Token,
}

/// A session that was read from its cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) project: ProjectId,
    pub(super) begun: Begun,
}

/// The sessions of a browser as its cookie has them, and what their forms carry.
#[derive(Clone, Debug)]
pub(super) struct InCookie {
    pub(super) shown: Vec<Shown>,
    pub(super) token: FormToken,
}

/// One of them, and its text in the cookie.
struct Part<'h> {
    text: &'h str,
    until: i64,
    shown: Shown,
}

/// Makes and reads sessions.
#[derive(Clone)]
pub struct Sessions {
    signer: Hmac<Sha256>,
    /// Of this start.
    token: String,
    is_secure: bool,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

/// 256 bits as hexadecimal text.
fn random(ids: &dyn IdSource) -> String {
    format!("{}{}", ids.uuid().simple(), ids.uuid().simple())
}

impl Sessions {
    /// Reads the installation's signing key, making it when there is none. Cookies are limited to HTTPS
    /// when `is_secure`.
    pub async fn open(
        catalog: &Catalog,
        ids: &dyn IdSource,
        token: &str,
        is_secure: bool,
    ) -> Result<Self, perpend_sql::Error> {
        let fresh = random(ids);
        let key = catalog.secret(SESSION_KEY, || fresh.into_bytes()).await?;
        Ok(Self::new(&key, token, is_secure))
    }

    fn new(key: &[u8], token: &str, is_secure: bool) -> Self {
        // HMAC takes a key of any length, an empty one included.
        let signer = Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
        Self {
            signer,
            token: token.to_owned(),
            is_secure,
        }
    }

    fn signature(&self, until: i64, shown: &Shown) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(DOMAIN);
        signer.update(&until.to_be_bytes());
        // The lengths keep one text from going over into the next.
        let mut part = |text: &str| {
            signer.update(&(text.len() as u64).to_be_bytes());
            signer.update(text.as_bytes());
        };
        part(shown.project.as_str());
        match &shown.begun {
            Begun::Pair(public_key) => part(public_key),
            Begun::Token => {
                part("");
                part(&self.token);
            }
        }
        signer
    }

    /// The `Set-Cookie` value of a session in `project` that starts `now`, beside those that the headers have in other projects.
    pub fn cookie(
        &self,
        project: &ProjectId,
        begun: Begun,
        now: Timestamp,
        headers: &HeaderMap,
    ) -> String {
        let parts = self.parts(headers, now);
        // Later than the others, so that which is the oldest is certain.
        let others = parts.iter().map(|part| part.until + 1);
        let until = others.fold(now.as_millis() / 1_000 + SESSION_SECONDS, i64::max);
        let shown = Shown {
            project: project.clone(),
            begun,
        };
        let signature = self.signature(until, &shown).finalize().into_bytes();
        let begun = match &shown.begun {
            Begun::Pair(public_key) => public_key.as_str(),
            Begun::Token => "",
        };
        let own = format!(
            "{until}.{}.{}.{}",
            URL_SAFE_NO_PAD.encode(project.as_str()),
            URL_SAFE_NO_PAD.encode(begun),
            URL_SAFE_NO_PAD.encode(signature)
        );
        let others = parts.iter().filter(|part| part.shown.project != *project);
        let all = [own.as_str()]
            .into_iter()
            .chain(others.map(|part| part.text));
        self.of_parts(all)
    }

    /// The `Set-Cookie` value that puts the session of a project before the others; none where it is the first one.
    pub fn cookie_to(
        &self,
        project: &ProjectId,
        now: Timestamp,
        headers: &HeaderMap,
    ) -> Option<String> {
        let mut parts = self.parts(headers, now);
        let at = parts
            .iter()
            .position(|part| part.shown.project == *project)?;
        (0 < at).then(|| {
            parts[..=at].rotate_right(1);
            self.of_parts(parts.iter().map(|part| part.text))
        })
    }

    /// As many of them as a browser keeps.
    fn of_parts<'p>(&self, parts: impl Iterator<Item = &'p str>) -> String {
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
        self.attributes(&value, SESSION_SECONDS)
    }

    /// The `Set-Cookie` value that ends a session.
    pub fn no_cookie(&self) -> String {
        self.attributes("", 0)
    }

    fn attributes(&self, value: &str, seconds: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }

    /// The sessions in the `Cookie` headers; `None` when there is none that has not run out and was signed here.
    pub(super) fn in_cookies(&self, headers: &HeaderMap, now: Timestamp) -> Option<InCookie> {
        let parts = self.parts(headers, now);
        // The same whichever project was used last, and after a login to one more: forms of open pages stay good until the
        // oldest session ends or its project is logged in to anew.
        let oldest = parts.iter().min_by_key(|part| part.until)?;
        let token = self.form_token(oldest.text);
        let shown = parts.into_iter().map(|part| part.shown).collect();
        Some(InCookie { shown, token })
    }

    /// The valid sessions of the first cookie that has any.
    fn parts<'h>(&self, headers: &'h HeaderMap, now: Timestamp) -> Vec<Part<'h>> {
        let lists = headers.get_all(header::COOKIE).iter();
        let lists = lists.filter_map(|list| list.to_str().ok());
        let cookies = lists
            .flat_map(|list| list.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let ours = cookies.filter(|(name, _)| *name == COOKIE);
        let read = ours.map(|(_, value)| {
            let parts = value.split(BETWEEN).take(MAX_AT_ONCE);
            parts
                .filter_map(|text| self.read(text, now))
                .collect::<Vec<_>>()
        });
        let mut some = read.filter(|parts| !parts.is_empty());
        some.next().unwrap_or_default()
    }

    fn form_token(&self, cookie: &str) -> FormToken {
        let mut signer = self.signer.clone();
        signer.update(FORM_DOMAIN);
        signer.update(cookie.as_bytes());
        FormToken(signer.finalize().into_bytes().into())
    }

    fn read<'h>(&self, text: &'h str, now: Timestamp) -> Option<Part<'h>> {
        let mut parts = text.split('.');
        let until: i64 = parts.next()?.parse().ok()?;
        let mut bytes = || URL_SAFE_NO_PAD.decode(parts.next()?).ok();
        let project = ProjectId::new(&String::from_utf8(bytes()?).ok()?).ok()?;
        let begun = match String::from_utf8(bytes()?).ok()? {
            none if none.is_empty() => Begun::Token,
            public_key => Begun::Pair(public_key),
        };
        let signature = bytes()?;
        let shown = Shown { project, begun };
        self.signature(until, &shown)
            .verify_slice(&signature)
            .ok()?;
        let part = Part { text, until, shown };
        (now.as_millis() / 1_000 < until).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_keeps_the_newest_session_however_long_its_key_is() {
        let sessions = sessions("key");
        let mut headers = HeaderMap::new();
        for n in 0..6 {
            let project = ProjectId::new(&format!("project-{n}")).unwrap();
            let now = Timestamp::from_millis(n * 1_000);
            let long = Begun::Pair("k".repeat(800));
            let cookie = sessions.cookie(&project, long, now, &headers);
            assert!(pair(&cookie).len() < 4_000, "{}", pair(&cookie).len());
            headers = with(pair(&cookie));
            let shown = sessions.in_cookies(&headers, now).unwrap().shown;
            assert_eq!(shown[0].project, project);
        }
    }

    fn sessions(key: &str) -> Sessions {
        Sessions::new(key.as_bytes(), "token of a start", false)
    }

    fn pair(cookie: &str) -> &str {
        cookie.split(';').next().unwrap()
    }

    fn with(header: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, header.parse().unwrap())])
    }

    /// A session of a browser that has no other.
    fn first(sessions: &Sessions, project: &ProjectId, begun: Begun, now: Timestamp) -> String {
        sessions.cookie(project, begun, now, &HeaderMap::new())
    }

    fn begun() -> Begun {
        Begun::Pair("pk-1".to_owned())
    }

    fn read(sessions: &Sessions, header: &str, now: Timestamp) -> Option<Shown> {
        let found = sessions.in_cookies(&with(header), now)?;
        found.shown.into_iter().next()
    }

    #[derive(Debug)]
    struct Counted(std::sync::atomic::AtomicU64);

    impl IdSource for Counted {
        fn uuid(&self) -> uuid::Uuid {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            uuid::Uuid::from_u128(u128::from(n))
        }
    }

    #[test]
    fn a_form_is_of_one_session_and_no_two_answers_show_the_same_text() {
        let (project, now) = (ProjectId::new("p1").unwrap(), Timestamp::from_millis(0));
        let ids = Counted(0.into());
        let token = |key: &str, at: i64| {
            let sessions = sessions(key);
            let cookie = first(&sessions, &project, begun(), now.plus_millis(at));
            sessions
                .in_cookies(&with(pair(&cookie)), now)
                .unwrap()
                .token
        };
        let own = token("k", 0);
        let (one, other) = (own.masked(&ids), own.masked(&ids));
        assert!(one != other && own.is_in(&one) && own.is_in(&other));
        assert_eq!(own, token("k", 0));
        for foreign in [token("k", 5_000), token("other", 0)] {
            assert!(!own.is_in(&foreign.masked(&ids)));
        }
        for forged in ["", "a", &one[..80], &format!("{one}AA"), &"A".repeat(86)] {
            assert!(!own.is_in(forged), "{forged}");
        }
    }

    #[test]
    fn a_session_is_read_back_until_it_ends() {
        let (project, start) = (
            ProjectId::new("p 1;ü").unwrap(),
            Timestamp::from_millis(1_000_000),
        );
        for begun in [begun(), Begun::Token] {
            let cookie = first(&sessions("k"), &project, begun.clone(), start);
            assert!(
                cookie.ends_with("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax"),
                "{cookie}"
            );
            let header = format!("other=1; {}; last=2", pair(&cookie));
            let project = project.clone();
            let shown = Some(Shown { project, begun });
            assert_eq!(read(&sessions("k"), &header, start), shown);
            let end = start.plus_millis(SESSION_SECONDS * 1_000);
            let before = end.plus_millis(-1);
            assert_eq!(read(&sessions("k"), &header, before), shown);
            assert_eq!(read(&sessions("k"), &header, end), None);
        }
    }

    #[test]
    fn a_changed_or_foreign_cookie_is_none() {
        let (project, now) = (ProjectId::new("p1").unwrap(), Timestamp::from_millis(0));
        let cookie = first(&sessions("k"), &project, begun(), now);
        let cookie = pair(&cookie);
        assert_eq!(read(&sessions("other"), cookie, now), None);
        let longer = cookie.replacen("=1", "=9", 1);
        assert_eq!(read(&sessions("k"), &longer, now), None);
        // Neither another key pair nor the token began it.
        for other in ["pk-2", ""] {
            let encoded = |text: &str| format!(".{}.", URL_SAFE_NO_PAD.encode(text));
            let other = cookie.replacen(&encoded("pk-1"), &encoded(other), 1);
            assert_ne!(other, cookie);
            assert_eq!(read(&sessions("k"), &other, now), None);
        }
        for broken in [
            "",
            "perpend_session=",
            "perpend_session=1.cDE.",
            "perpend_session=x.y.z",
            "a",
        ] {
            assert_eq!(read(&sessions("k"), broken, now), None, "{broken}");
        }
        let ended = sessions("k").no_cookie();
        assert_eq!(read(&sessions("k"), pair(&ended), now), None);
    }

    #[test]
    fn a_session_that_the_token_began_ends_with_the_start_that_printed_it() {
        let (project, now) = (ProjectId::new("p1").unwrap(), Timestamp::from_millis(0));
        let next_start = Sessions::new(b"k", "token of the next start", false);
        let by_token = first(&sessions("k"), &project, Begun::Token, now);
        assert_eq!(read(&next_start, pair(&by_token), now), None);
        let by_pair = first(&sessions("k"), &project, begun(), now);
        assert!(read(&next_start, pair(&by_pair), now).is_some());
    }

    #[test]
    fn a_browser_has_a_session_for_each_project_the_last_used_first_and_one_token() {
        let (sessions, now) = (sessions("k"), Timestamp::from_millis(0));
        let project = |id: &str| ProjectId::new(id).unwrap();
        let projects = |cookie: &str| {
            let found = sessions.in_cookies(&with(pair(cookie)), now).unwrap();
            let ids = found.shown.iter().map(|shown| shown.project.to_string());
            (ids.collect::<Vec<_>>().join(" "), found.token)
        };
        let one = first(&sessions, &project("a"), begun(), now);
        let (_, token) = projects(&one);
        let later = now.plus_millis(1_000);
        let add = |id: &str, cookie: &str| {
            sessions.cookie(&project(id), Begun::Token, later, &with(pair(cookie)))
        };
        let three = add("c", &add("b", &one));
        assert_eq!(projects(&three), ("c b a".to_owned(), token));
        assert_eq!(projects(&add("b", &three)), ("b c a".to_owned(), token));
        let to = |id: &str| sessions.cookie_to(&project(id), now, &with(pair(&three)));
        assert_eq!(projects(&to("a").unwrap()), ("a c b".to_owned(), token));
        assert_eq!((to("c"), to("none")), (None, None));
        // One that was changed leaves the others.
        let broken = three.replacen('.', ".x", 1);
        assert_eq!(projects(&broken).0, "b a");
        let many = (0..40).fold(three, |cookie, at| add(&format!("{at:040}"), &cookie));
        assert!(pair(&many).len() < 4_000 && projects(&many).0.split(' ').count() == MAX_AT_ONCE);
    }

    #[test]
    fn https_limits_the_cookie_to_https() {
        let secure = Sessions::new(b"k", "", true);
        assert!(secure.no_cookie().ends_with("; Secure"));
        assert!(!sessions("k").no_cookie().contains("Secure"));
    }
}
