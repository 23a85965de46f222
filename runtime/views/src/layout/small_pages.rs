//! Pages that show one thing: the forms to log in and out, and errors.

use askama::Template;

use crate::{RuleOutcome, ScoreView, Shell, Text};

/// The login form: takes the token that the server printed, or a key pair.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "login.html")]
pub struct LoginPage {
    /// Page frame.
    pub shell: Shell,
    /// Why the last try did not work.
    pub problem: Option<&'static str>,
    /// Seconds until the next try is looked at.
    pub retry_after_s: Option<u64>,
    /// The visitor is logged in to other projects, and stays so.
    pub is_additional: bool,
    /// The login token of the address that was opened: the page has a button that uses it, and no other form.
    pub token: String,
    /// Where to go afterwards: a path of this server.
    pub next: String,
    /// The public key as typed.
    pub public_key: String,
}

/// Asks whether to log out: pages without forms lead to it.
#[derive(Clone, Debug, Template)]
#[template(path = "logout.html")]
pub struct LogoutPage {
    /// Page frame.
    pub shell: Shell,
}

/// A trace or a session of which nothing is recorded but scores.
#[derive(Clone, Debug, Template)]
#[template(path = "scored.html")]
pub struct ScoresOnlyPage {
    /// Page frame.
    pub shell: Shell,
    /// Of the trace or session.
    pub id: Text,
    /// It is a session.
    pub is_session: bool,
    /// Scores of it itself.
    pub scores: Vec<ScoreView>,
    /// What rules say of it: nothing, as long as nothing of it has arrived.
    pub outcomes: Vec<RuleOutcome>,
    /// The list of the scores of a trace, where its steps have some.
    pub observation_scores_href: Option<String>,
}

/// An error, with ways out.
#[derive(Clone, Debug, Template)]
#[template(path = "error.html")]
pub struct ErrorPage {
    /// Page frame.
    pub shell: Shell,
    /// HTTP status.
    pub status: u16,
    /// What happened, in a few words.
    pub title: &'static str,
    /// What it means and what to do.
    pub message: Text,
    /// Seconds until the same page is asked for again, where that may help.
    pub retry_after_s: Option<u64>,
    /// To be named in a report; its line in the log has the cause.
    pub request_id: Option<Text>,
}
