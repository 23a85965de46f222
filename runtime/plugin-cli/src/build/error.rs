//! The errors of builds.

use std::path::Path;

use crate::project::{Language, ProjectError};

/// A failed build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A tool of the toolchain is not installed.
    #[error(
        "{tool} is needed to build this plug-in and was not found (searched in the project, in \
         $PERPEND_TOOLCHAINS and on PATH)\n  to install it: {install}"
    )]
    ToolMissing {
        /// The missing tool.
        tool: String,
        /// The command that installs it.
        install: String,
    },
    /// A tool failed.
    #[error("{tool} failed:\n{output}")]
    ToolFailed {
        /// The name of the tool.
        tool: String,
        /// The output of the tool.
        output: String,
    },
    /// The project is incomplete or invalid.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// The core module does not match the contract.
    #[error("the module cannot be converted to a component: {0}")]
    Componentize(String),
    /// This program cannot build the language.
    #[error("this version of perpend cannot build plug-ins in {0}")]
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
