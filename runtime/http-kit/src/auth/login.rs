//! Login with the token of the address that is printed at startup.

use axum::http::HeaderMap;
use perpend_catalog::SessionOrigin;
use perpend_domain::ids::ProjectId;

use super::login_token::LoginToken;
use super::session::create_session;
use super::throttle::{AuthAttempt, AuthTarget};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::problem::Problem;

/// Logs in to a project with the login token: the `Set-Cookie` value, or `None` for a token that is wrong, expired or
/// used. A wrong one counts towards the limit of the client.
///
/// # Errors
/// 429 after too many wrong tokens from the client's network; when the database fails, and the token stays usable.
pub async fn log_in_with_token(
    web: &Web,
    (client, headers): (ClientAddress, &HeaderMap),
    token: &str,
    project: &ProjectId,
) -> Result<Option<String>, Problem> {
    let (login_token, now) = (&web.login_token, web.clock.now());
    if !login_token.matches(token.trim()) {
        let attempt = AuthAttempt { client, request_id: None, public_key: None };
        let problem = web.throttle.failed(AuthTarget::LoginToken, attempt, now);
        return match problem.retry_after() {
            Some(_) => Err(problem),
            None => Ok(None),
        };
    }
    if !login_token.take(now) {
        return Ok(None);
    }
    // Also when the client disconnects while the session is being stored.
    let mut unused = RestoreToken(Some(login_token));
    let origin = SessionOrigin::LoginToken(web.start_id.clone());
    let cookie = create_session(web, headers, project, origin).await?;
    unused.0 = None;
    Ok(Some(cookie))
}

/// Makes a token usable again on drop, unless a session was created with it.
struct RestoreToken<'w>(Option<&'w LoginToken>);

impl Drop for RestoreToken<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.0 {
            token.restore();
        }
    }
}
