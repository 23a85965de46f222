//! Pages of accounts: the first account, and one's own.

mod members;

use askama::Template;
use perpend_domain::time::Timestamp;

pub use members::{InvitationLine, LinkKind, LinkPage, MemberLine, MembersPage, OneTimeLinkPage};

use crate::{ProjectLink, RejectedForm, Shell, Text};

/// The form that creates the first account.
#[derive(Clone, Debug, Template)]
#[template(path = "setup_account.html")]
pub struct SetupAccountPage {
    /// Page frame.
    pub shell: Shell,
    /// Path of the form, with the token of the link.
    pub action: String,
    /// The rejected form, or empty.
    pub rejected_form: RejectedForm,
}

/// The account of the viewer.
#[derive(Clone, Debug, Template)]
#[template(path = "account.html")]
pub struct AccountPage {
    /// Page frame.
    pub shell: Shell,
    /// E-mail address.
    pub email: Text,
    /// Display name.
    pub name: String,
    /// Projects with a role, and the role.
    pub projects: Vec<(ProjectLink, &'static str)>,
    /// Open sessions, newest first.
    pub sessions: Vec<SessionLine>,
    /// Whether the password was just changed.
    pub is_password_changed: bool,
    /// The rejected form, or empty.
    pub rejected_form: RejectedForm,
}

impl AccountPage {
    pub(crate) fn has_other_sessions(&self) -> bool {
        1 < self.sessions.len()
    }
}

/// The form that requests the password again.
#[derive(Clone, Debug, Template)]
#[template(path = "confirm.html")]
pub struct ConfirmPage {
    /// Page frame.
    pub shell: Shell,
    /// E-mail address of the account.
    pub email: Text,
    /// Path to open afterwards.
    pub next: String,
    /// Error of the last attempt.
    pub problem: Option<&'static str>,
}

/// A session of an account.
#[derive(Clone, Debug)]
pub struct SessionLine {
    /// Id in forms.
    pub id: String,
    /// User agent of the browser.
    pub agent: Text,
    /// Address of the client at the sign-in.
    pub address: Text,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Time of the last request.
    pub seen_at: Timestamp,
    /// Whether it is the session of this page.
    pub is_current: bool,
}
