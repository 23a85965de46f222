//! Accounts: creation of the first one, the page of one's own, a fresh sign-in, members, and their invitations and resets.

pub(crate) mod confirm;
pub(crate) mod links;
pub(crate) mod members;
pub(crate) mod own;
pub(crate) mod setup;

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use perpend_catalog::Account;
use perpend_http_kit::auth::begin_account_session;
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::cookies::append_cookie;
use perpend_http_kit::problem::Problem;

use crate::state::App;

/// Longest name of a person, in characters.
const MAX_NAME_CHARS: usize = 200;

/// A name without surrounding space.
fn checked_name(raw: &str) -> Result<String, Problem> {
    let name = raw.trim();
    let n_chars = name.chars().count();
    match (1..=MAX_NAME_CHARS).contains(&n_chars) && !name.chars().any(char::is_control) {
        true => Ok(name.to_owned()),
        false => Err(Problem::body("name", "must have between 1 and 200 characters in one line")),
    }
}

/// Begins a session of an account whose holder has proven it, and redirects to a path of this server.
pub(crate) async fn redirect_signed_in(
    app: &App,
    sender: (ClientAddress, &HeaderMap),
    account: &Account,
    path: &str,
) -> Result<Response, Problem> {
    let cookies = begin_account_session(&app.web, sender, account).await?;
    let mut response = Redirect::to(path).into_response();
    cookies.iter().for_each(|cookie| append_cookie(&mut response, cookie));
    Ok(response)
}
