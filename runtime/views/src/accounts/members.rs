//! Pages of members of an organization, and of the one-time links for them.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{RejectedForm, Shell, Text};

/// The members of the organization of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "members.html")]
pub struct MembersPage {
    /// Page frame.
    pub shell: Shell,
    /// Name of the organization.
    pub organization: Text,
    /// Members, oldest first.
    pub members: Vec<MemberLine>,
    /// Open invitations, oldest first.
    pub invitations: Vec<InvitationLine>,
    /// Roles that the viewer may give; empty if none.
    pub roles: Vec<&'static str>,
    /// The rejected form, or empty.
    pub rejected_form: RejectedForm,
}

/// A member of an organization.
#[derive(Clone, Debug)]
pub struct MemberLine {
    /// Id in the organization.
    pub id: String,
    /// Display name.
    pub name: Text,
    /// E-mail address.
    pub email: Text,
    /// Role in the organization.
    pub role: &'static str,
    /// Role of its own in the project.
    pub project_role: Option<&'static str>,
    /// Whether the member can sign in.
    pub has_account: bool,
    /// Whether the viewer may change the roles and remove the member.
    pub is_changeable: bool,
    /// Whether the viewer may create a link that sets the password.
    pub is_resettable: bool,
}

impl MemberLine {
    pub(crate) fn has_project_role(&self, role: &str) -> bool {
        self.project_role == Some(role)
    }
}

/// An open invitation.
#[derive(Clone, Debug)]
pub struct InvitationLine {
    /// Id in forms.
    pub id: String,
    /// E-mail address of the invited person.
    pub email: Text,
    /// Role in the organization.
    pub role: &'static str,
    /// End of its validity.
    pub expires_at: Timestamp,
}

/// A new one-time link, which is shown once.
#[derive(Clone, Debug, Template)]
#[template(path = "one_time_link.html")]
pub struct OneTimeLinkPage {
    /// Page frame.
    pub shell: Shell,
    /// Whether it sets a password; else it is an invitation.
    pub is_reset: bool,
    /// E-mail address of the person.
    pub email: Text,
    /// The link.
    pub url: Text,
    /// End of its validity.
    pub expires_at: Timestamp,
}

/// An invitation or a reset, opened by its link.
#[derive(Clone, Debug, Template)]
#[template(path = "link.html")]
pub struct LinkPage {
    /// Page frame.
    pub shell: Shell,
    /// Path of the form, with the token of the link.
    pub action: String,
    /// E-mail address of the person.
    pub email: Text,
    /// What the link is for.
    pub kind: LinkKind,
    /// The rejected form, or empty.
    pub rejected_form: RejectedForm,
}

/// What a link is for.
#[derive(Clone, Debug)]
pub enum LinkKind {
    /// A new password.
    Reset,
    /// A new account that joins this organization with this role.
    NewAccount(Text, &'static str),
    /// The account of the session joins this organization with this role.
    Join(Text, &'static str),
    /// The person must log in to the account of the e-mail address first.
    LogIn(Text),
}

impl LinkPage {
    /// Path of the form as the value of a query parameter.
    pub(crate) fn login_next(&self) -> String {
        crate::encode(&self.action)
    }

    pub(crate) const fn sets_password(&self) -> bool {
        matches!(self.kind, LinkKind::Reset | LinkKind::NewAccount(..))
    }
}
