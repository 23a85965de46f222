//! The login of a browser.

use perpend_catalog::{Account, AccountSession, Project};

use super::act::Act;
use super::session::FormToken;

/// An account that is signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The account.
    pub account: Account,
    /// Its session.
    pub session: AccountSession,
    /// Whether the password was entered within the last 10 minutes.
    pub is_fresh: bool,
}

/// The login of a browser, with its projects.
#[derive(Clone, Debug)]
pub struct Session {
    /// The identity in `project`.
    pub act: Act,
    /// The project of the page.
    pub project: Project,
    /// Other projects of the login, the last used first.
    pub others: Vec<Project>,
    /// Whether the login token of this server start started the session in one of these projects.
    pub is_of_login_token: bool,
    /// The account, in a session that began with its password.
    pub account: Option<SignedIn>,
    /// Token of the forms in its pages.
    pub token: FormToken,
}
