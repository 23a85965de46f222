//! Pages of the key pairs of a project: list, one key pair, creation, revocation. Only [`KeySecretPage`] has a secret.

#[cfg(test)]
mod tests;

use std::fmt;

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{RejectedForm, Shell, Text};

/// The key pairs of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "keys.html")]
pub struct KeysPage {
    /// Page frame.
    pub shell: Shell,
    /// Key pairs, oldest first.
    pub keys: Vec<KeyLine>,
    /// Whether the viewer may change keys.
    pub may_write: bool,
}

/// A key pair.
#[derive(Clone, Debug)]
pub struct KeyLine {
    /// Name, or the public key of an unnamed pair.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// Public half.
    pub public_key: Text,
    /// The ends of the secret half.
    pub secret_ends: Text,
    /// `full`, `read` or `ingest`.
    pub scope: Text,
    /// Time of creation.
    pub created_at: Timestamp,
    /// It is refused from this time on.
    pub expires_at: Option<Timestamp>,
    /// Time of the last use.
    pub last_used_at: Option<Timestamp>,
    /// Its state.
    pub state: KeyState,
    /// The last rotation.
    pub rotation: Option<KeyRotationView>,
}

/// The state of a key pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It is accepted.
    Valid,
    /// It expires within 30 days.
    ExpiresSoon,
    /// It is refused.
    Expired,
}

impl KeyState {
    /// Class of the tag.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Valid => "good",
            Self::ExpiresSoon => "waiting",
            Self::Expired => "bad",
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::ExpiresSoon => "expires soon",
            Self::Expired => "expired",
        }
    }
}

/// A rotation of a key pair.
#[derive(Clone, Debug)]
pub struct KeyRotationView {
    /// Time of the rotation.
    pub rotated_at: Timestamp,
    /// Time of the last use with the new secret.
    pub new_last_used_at: Option<Timestamp>,
    /// The ends of the previous secret.
    pub previous_ends: Text,
    /// The previous secret is refused from this time on.
    pub previous_expires_at: Timestamp,
    /// Time of the last use with the previous secret.
    pub previous_last_used_at: Option<Timestamp>,
    /// Whether the previous secret is still accepted.
    pub is_overlapping: bool,
}

/// A key pair, with the forms that change and rotate it.
#[derive(Clone, Debug, Template)]
#[template(path = "key.html")]
pub struct KeyPage {
    /// Page frame.
    pub shell: Shell,
    /// The key pair.
    pub key: KeyLine,
    /// Value of the field `name`.
    pub name_field: String,
    /// Value of the field `expires`, a date.
    pub expires_field: String,
    /// Value of the field `public_scores`; absent for a key pair that does not write scores.
    pub public_scores_field: Option<bool>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
    /// Whether the viewer may change keys.
    pub may_write: bool,
}

impl KeyPage {
    /// Overlaps to choose from: hours, label, and whether it is selected at first.
    pub(crate) const OVERLAPS: [(u32, &'static str, bool); 5] = [
        (1, "1 hour", false),
        (24, "1 day", true),
        (168, "7 days", false),
        (720, "30 days", false),
        (0, "0 hours: it ends at once", false),
    ];

    pub(crate) fn is_overlapping(&self) -> bool {
        self.key.rotation.as_ref().is_some_and(|rotation| rotation.is_overlapping)
    }
}

/// The form that creates a key pair.
#[derive(Clone, Debug, Template)]
#[template(path = "key_new.html")]
pub struct NewKeyPage {
    /// Page frame.
    pub shell: Shell,
    /// The rejected form, or empty.
    pub rejected_form: RejectedForm,
}

impl NewKeyPage {
    /// Scopes and their descriptions.
    pub(crate) const SCOPES: [(&'static str, &'static str); 3] = [
        ("ingest", "ingest: sends telemetry and scores, reads nothing"),
        ("read", "read: reads everything, changes nothing"),
        ("full", "full: everything except keys and members"),
    ];
}

/// A new secret, which is shown once.
#[derive(Template)]
#[template(path = "key_secret.html")]
pub struct KeySecretPage {
    /// Page frame.
    pub shell: Shell,
    /// URL of the page of the key pair.
    pub href: String,
    /// Public half.
    pub public_key: Text,
    /// Secret half.
    pub secret_key: Text,
    /// The previous secret is accepted until this time; absent for a new key pair.
    pub previous_expires_at: Option<Timestamp>,
}

/// Omits the secret.
impl fmt::Debug for KeySecretPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySecretPage").field("href", &self.href).finish_non_exhaustive()
    }
}

/// The confirmation of the revocation of a key pair.
#[derive(Clone, Debug, Template)]
#[template(path = "key_revoke.html")]
pub struct RevokeKeyPage {
    /// Page frame.
    pub shell: Shell,
    /// The key pair.
    pub key: KeyLine,
}
