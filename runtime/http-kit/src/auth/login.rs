//! Logging in with the token of the address that is printed at the start.

use axum::http::HeaderMap;
use perpend_catalog::SessionOrigin;
use perpend_domain::ids::ProjectId;

use super::login_token::LoginToken;
use super::session::begin_session;
use super::throttle::{Attempt, Target};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::problem::Problem;

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
    if !own.is(token.trim()) {
        let attempt = Attempt { client, request_id: None, public_key: None };
        let problem = web.throttle.failed(Target::LoginToken, attempt, now);
        return match problem.retry_after() {
            Some(_) => Err(problem),
            None => Ok(None),
        };
    }
    if !own.take(now) {
        return Ok(None);
    }
    // Also where the client goes away while the session is being stored.
    let mut unused = PutBack(Some(own));
    let origin = SessionOrigin::LoginToken(web.start_id.clone());
    let cookie = begin_session(web, headers, project, origin).await?;
    unused.0 = None;
    Ok(Some(cookie))
}

/// Makes a token usable again when it is dropped, unless a session began with it.
struct PutBack<'w>(Option<&'w LoginToken>);

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.0 {
            token.put_back();
        }
    }
}
