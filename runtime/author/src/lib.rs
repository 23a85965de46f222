//! The author's path: a project is made, built, checked, tried, tested, measured and pushed.
//!
//! The `assay` program parses `assay plugin ...` and calls this crate; what it prints is made here, so
//! that an author, a test and a server say the same.
//!
//! Invariants:
//! - **As the server does it.** Components are compiled, limited and checked by the host that servers use;
//!   nothing here decides on its own what a plug-in may do.
//! - **An author's file is never overwritten**, save what a build makes and what `update` says it renews.
//! - **A tool that is missing is named with the command that installs it.**

mod build;
mod progress;
mod project;
mod templates;
mod tools;

pub use build::{BuildError, build};
pub use progress::{Progress, Silent, Terminal};
pub use project::{
    COMPONENT, ITEMS, Language, MANIFEST, Manifest, Project, ProjectError, TESTS, UnknownLanguage,
};
pub use templates::{NewError, TEMPLATE_VERSION, contract_version, new, update};
pub use tools::Tools;
