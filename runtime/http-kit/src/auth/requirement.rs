//! The permission that a route requires.

use perpend_domain::access::{Permission, PermissionLevel, Scope};

/// The permission that a route requires. There is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// No credentials.
    Public,
    /// One permission.
    One(Permission),
    /// One of two; the handler checks the permission of each part of the request.
    Either(Permission, Permission),
    /// A signed address, or this permission: the handler checks the signature.
    Signed(Permission),
    /// The token of the setting `metrics.token`.
    MetricsToken,
}

impl From<Permission> for Requirement {
    fn from(one: Permission) -> Self {
        Self::One(one)
    }
}

impl Requirement {
    /// The permissions, any of which is sufficient.
    pub fn permissions(self) -> Vec<Permission> {
        match self {
            Self::Public | Self::MetricsToken => Vec::new(),
            Self::One(one) | Self::Signed(one) => vec![one],
            Self::Either(one, other) => vec![one, other],
        }
    }

    /// Whether it is a permission of organizations.
    pub fn is_of_organization(self) -> bool {
        matches!(self, Self::One(one) if one.level() == PermissionLevel::Organization)
    }

    /// Whether a key of this scope is sufficient.
    pub fn is_held_by(self, scope: Scope) -> bool {
        self.permissions().iter().any(|one| scope.holds(*one))
    }

    /// Name in documents: `trace.read`, `public`, `metrics.token`, `ingest.write or score.write`.
    pub fn name(self) -> String {
        match self {
            Self::Public => "public".to_owned(),
            Self::MetricsToken => "metrics.token".to_owned(),
            _ => self.permissions().iter().map(|one| one.name()).collect::<Vec<_>>().join(" or "),
        }
    }
}
