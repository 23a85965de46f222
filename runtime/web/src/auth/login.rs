//! The token of the address that is printed at the start. It opens the first project of the installation once.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::HeaderMap;
use perpend_catalog::SessionOrigin;
use perpend_domain::ids::{IdSource, ProjectId};
use perpend_domain::time::Timestamp;
use subtle::ConstantTimeEq as _;

use super::session::begin_session;
use super::throttle::{Attempt, Target};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::problem::Problem;

/// How long after the start the token can be used.
const LIFETIME_MS: i64 = 3_600 * 1_000;

/// A token that logs in once.
pub struct LoginToken {
    text: String,
    expires_at: Timestamp,
    is_used: AtomicBool,
}

// The token does not reach a log by way of `{:?}`.
impl fmt::Debug for LoginToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginToken")
    }
}

impl LoginToken {
    /// A random token of a server that starts now.
    #[must_use]
    pub fn new(ids: &dyn IdSource, now: Timestamp) -> Self {
        Self {
            text: ids.uuid().simple().to_string(),
            expires_at: now.plus_millis(LIFETIME_MS),
            is_used: AtomicBool::new(false),
        }
    }

    /// As it is printed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Logs in to a project with the login token: the `Set-Cookie` value, or `None` for a token that is wrong, expired or was
/// used. A wrong one is counted.
///
/// # Errors
/// 429 when too many wrong ones came from the client's network; when the database fails, and then the token is not used up.
pub async fn log_in_with_token(
    web: &Web,
    (client, headers): (ClientAddress, &HeaderMap),
    token: &str,
    project: &ProjectId,
) -> Result<Option<String>, Problem> {
    let (own, now) = (&web.login_token, web.clock.now());
    if !bool::from(own.text.as_bytes().ct_eq(token.trim().as_bytes())) {
        let attempt = Attempt {
            client,
            request_id: None,
            public_key: None,
        };
        let problem = web.throttle.failed(Target::LoginToken, attempt, now);
        return match problem.retry_after() {
            Some(_) => Err(problem),
            None => Ok(None),
        };
    }
    if own.expires_at <= now || own.is_used.swap(true, Ordering::SeqCst) {
        return Ok(None);
    }
    let origin = SessionOrigin::LoginToken(web.start_id.clone());
    let begun = begin_session(web, headers, project, origin).await;
    begun.map(Some).map_err(|error| {
        own.is_used.store(false, Ordering::SeqCst);
        error.into()
    })
}
