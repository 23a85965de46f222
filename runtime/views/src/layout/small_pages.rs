//! Small pages: login, logout, errors, and traces or sessions with only scores.

use askama::Template;

use crate::{RuleOutcome, ScoreView, Shell, Text};

/// The login form: for an account, or before the first account for a login token or a key pair.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "login.html")]
pub struct LoginPage {
    /// Page frame.
    pub shell: Shell,
    /// Error of the last attempt.
    pub problem: Option<&'static str>,
    /// Seconds until the next attempt is accepted.
    pub retry_after_s: Option<u64>,
    /// Whether the login adds a project to the session.
    pub is_additional: bool,
    /// The login token of the opened link. The page then has only a button that uses it.
    pub token: String,
    /// Path to open after the login.
    pub next: String,
    /// Public key as typed.
    pub public_key: String,
    /// Whether people sign in with accounts.
    pub has_accounts: bool,
    /// E-mail address as typed.
    pub email: String,
}

/// Confirmation of the logout, for pages without forms.
#[derive(Clone, Debug, Template)]
#[template(path = "logout.html")]
pub struct LogoutPage {
    /// Page frame.
    pub shell: Shell,
}

/// The page of a trace or session with only scores.
#[derive(Clone, Debug, Template)]
#[template(path = "scored.html")]
pub struct ScoresOnlyPage {
    /// Page frame.
    pub shell: Shell,
    /// Id of the trace or session.
    pub id: Text,
    /// Whether it is a session.
    pub is_session: bool,
    /// Scores of the trace or session itself.
    pub scores: Vec<ScoreView>,
    /// Always empty, because rules need observations.
    pub outcomes: Vec<RuleOutcome>,
    /// URL of all scores of the trace, if its observations have some.
    pub observation_scores_href: Option<String>,
}

/// An error page.
#[derive(Clone, Debug, Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    /// Page frame.
    pub shell: Shell,
    /// HTTP status.
    pub status: u16,
    /// Title.
    pub title: &'static str,
    /// Explanation and remedy.
    pub message: Text,
    /// Seconds until the page is reloaded, if a retry can help.
    pub retry_after_s: Option<u64>,
    /// Request id, which identifies the log entry with the cause.
    pub request_id: Option<Text>,
}
