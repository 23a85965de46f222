//! Why a build failed.

use std::path::Path;

use crate::project::{Language, ProjectError};

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The toolchain, or a part of it, is not on this machine.
    #[error(
        "{tool} is needed to build this plug-in and was not found (looked in the project, in \
         $PERPEND_TOOLCHAINS and on PATH)\n  to install it: {install}"
    )]
    ToolMissing {
        /// What is missing.
        tool: String,
        /// The command that installs it.
        install: String,
    },
    /// A tool ran and failed.
    #[error("{tool} failed:\n{said}")]
    ToolFailed {
        /// Which.
        tool: String,
        /// What it wrote.
        said: String,
    },
    /// The project lacks something.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The core module was built and cannot become a component of the contract.
    #[error("the module cannot be made a component: {0}")]
    Componentize(String),
    /// The language's recipe is not in this program.
    #[error("plug-ins in {0} cannot be built by this version of perpend yet")]
    NotBuiltIn(Language),
}

impl BuildError {
    pub(super) fn missing(tool: String, install: &str) -> Self {
        Self::ToolMissing { tool, install: install.to_owned() }
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(file: &Path, source: std::io::Error) -> Self {
        Self::Project(ProjectError::File { file: file.display().to_string(), source })
    }
}
