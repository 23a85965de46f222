//! The token of the printed address, which opens the installation's first project.

use subtle::ConstantTimeEq as _;

use super::throttle::{Attempt, Target};
use crate::Web;
use crate::client_address::ClientAddress;
use crate::problem::Problem;

/// Whether this is the token; a wrong one is counted.
///
/// # Errors
/// 429 while the client's network is blocked.
pub fn check_login_token(web: &Web, client: ClientAddress, token: &str) -> Result<bool, Problem> {
    let (target, now) = (Target::LoginToken, web.clock.now());
    let attempt = Attempt {
        client,
        request_id: None,
        public_key: None,
    };
    if let Some(seconds) = web.throttle.blocked_for(&target, client, now) {
        return Err(web.throttle.refuse(&target, seconds, attempt, now));
    }
    let is_right = web.login_token.as_bytes().ct_eq(token.trim().as_bytes());
    if bool::from(is_right) {
        return Ok(true);
    }
    web.throttle.failed(target, attempt, now);
    Ok(false)
}
