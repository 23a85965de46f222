//! A sandbox layer, and how far the platform provides it.

use perpend_worker_protocol::SandboxLayer;

/// The purpose of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs evaluations.
    Worker,
    /// Compiles a component and calls its `describe`.
    Compiler,
    /// Validates values against schemas.
    Checker,
}

/// A layer that is in force.
pub(super) struct Enforcement {
    /// What it covers.
    pub(super) extent: String,
    /// The part that the platform does not provide.
    pub(super) missing: Option<String>,
}

impl From<String> for Enforcement {
    fn from(extent: String) -> Self {
        Self { extent, missing: None }
    }
}

pub(super) fn layer(
    name: &str,
    enforcement: Result<impl Into<Enforcement>, String>,
) -> SandboxLayer {
    let (status, missing) = match enforcement.map(Into::into) {
        Ok(Enforcement { extent, missing }) => (Ok(extent), missing),
        Err(cause) => (Err(cause), None),
    };
    SandboxLayer { name: name.to_owned(), status, missing }
}
