//! Who looks: the signed session cookie that a login is exchanged for.
//!
//! Invariants:
//! - **The cookie is the whole session.** It names a project and an end, signed with a key that the
//!   installation keeps; nothing is remembered here, so any node can read it.
//! - **Signatures are compared in constant time.**

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::Timestamp;
use perpend_store::Store;
use sha2::Sha256;

/// How long a login lasts.
const SESSION_SECONDS: i64 = 14 * 24 * 3_600;
/// The cookie's name.
const COOKIE: &str = "perpend_session";
/// Name of the signing key among the installation's secrets.
pub(crate) const SESSION_KEY: &str = "session-key";
/// Keeps a signature made here from being one anywhere else.
const DOMAIN: &[u8] = b"session/1";

/// Makes and reads sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    signer: Hmac<Sha256>,
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
    pub(super) async fn open(
        store: &Store,
        ids: &dyn IdSource,
        is_secure: bool,
    ) -> Result<Self, perpend_store::Error> {
        let fresh = random(ids);
        let key = store.secret(SESSION_KEY, || fresh.into_bytes()).await?;
        Ok(Self::new(&key, is_secure))
    }

    fn new(key: &[u8], is_secure: bool) -> Self {
        // HMAC takes a key of any length, an empty one included.
        let signer = Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
        Self { signer, is_secure }
    }

    fn signature(&self, until: i64, project: &str) -> Hmac<Sha256> {
        let mut signer = self.signer.clone();
        signer.update(DOMAIN);
        signer.update(&until.to_be_bytes());
        signer.update(project.as_bytes());
        signer
    }

    /// The `Set-Cookie` value of a session in `project` that starts `now`.
    pub(super) fn cookie(&self, project: &ProjectId, now: Timestamp) -> String {
        let until = now.as_millis() / 1_000 + SESSION_SECONDS;
        let signature = self
            .signature(until, project.as_str())
            .finalize()
            .into_bytes();
        let value = format!(
            "{until}.{}.{}",
            URL_SAFE_NO_PAD.encode(project.as_str()),
            URL_SAFE_NO_PAD.encode(signature)
        );
        self.attributes(&value, SESSION_SECONDS)
    }

    /// The `Set-Cookie` value that ends a session.
    pub(super) fn no_cookie(&self) -> String {
        self.attributes("", 0)
    }

    fn attributes(&self, value: &str, seconds: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }

    /// The project of the session in a `Cookie` header; `None` when there is none, or it has run out,
    /// or it was not signed here.
    pub(super) fn project(&self, header: &str, now: Timestamp) -> Option<ProjectId> {
        let cookies = header
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='));
        let mut ours = cookies
            .filter(|(name, _)| *name == COOKIE)
            .map(|(_, value)| value);
        ours.find_map(|value| self.read(value, now))
    }

    fn read(&self, value: &str, now: Timestamp) -> Option<ProjectId> {
        let mut parts = value.split('.');
        let (until, project, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let until: i64 = until.parse().ok()?;
        let project = String::from_utf8(URL_SAFE_NO_PAD.decode(project).ok()?).ok()?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        self.signature(until, &project)
            .verify_slice(&signature)
            .ok()?;
        (now.as_millis() / 1_000 < until).then(|| ProjectId::new(&project).ok())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(key: &str) -> Sessions {
        Sessions::new(key.as_bytes(), false)
    }

    fn pair(cookie: &str) -> &str {
        cookie.split(';').next().unwrap()
    }

    #[test]
    fn a_session_is_read_back_until_it_ends() {
        let (project, start) = (
            ProjectId::new("p 1;ü").unwrap(),
            Timestamp::from_millis(1_000_000),
        );
        let cookie = sessions("k").cookie(&project, start);
        assert!(
            cookie.ends_with("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax"),
            "{cookie}"
        );
        let header = format!("other=1; {}; last=2", pair(&cookie));
        assert_eq!(sessions("k").project(&header, start), Some(project.clone()));
        let end = start.plus_millis(SESSION_SECONDS * 1_000);
        assert_eq!(
            sessions("k").project(&header, end.plus_millis(-1)),
            Some(project)
        );
        assert_eq!(sessions("k").project(&header, end), None);
    }

    #[test]
    fn a_changed_or_foreign_cookie_is_none() {
        let (project, now) = (ProjectId::new("p1").unwrap(), Timestamp::from_millis(0));
        let cookie = sessions("k").cookie(&project, now);
        assert_eq!(sessions("other").project(pair(&cookie), now), None);
        let longer = pair(&cookie).replacen("=1", "=9", 1);
        assert_eq!(sessions("k").project(&longer, now), None);
        for broken in [
            "",
            "perpend_session=",
            "perpend_session=1.cDE.",
            "perpend_session=x.y.z",
            "a",
        ] {
            assert_eq!(sessions("k").project(broken, now), None, "{broken}");
        }
        assert_eq!(
            sessions("k").project(pair(&sessions("k").no_cookie()), now),
            None
        );
    }

    #[test]
    fn https_limits_the_cookie_to_https() {
        assert!(Sessions::new(b"k", true).no_cookie().ends_with("; Secure"));
        assert!(!sessions("k").no_cookie().contains("Secure"));
    }
}
