//! Logging in with the token of the address that is printed at the start.

use axum::http::HeaderMap;
use perpend_catalog::SessionOrigin;
use perpend_domain::ids::ProjectId;

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
    if !own.take(now) {
        return Ok(None);
    }
    let origin = SessionOrigin::LoginToken(web.start_id.clone());
    let begun = begin_session(web, headers, project, origin).await;
    begun.map(Some).map_err(|error| {
        own.put_back();
        error.into()
    })
}
