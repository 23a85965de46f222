//! The author's path: a project is made, built, checked, tried, tested, measured and pushed.
//!
//! The `perpend` program parses `perpend plugin ...` and calls this crate; what it prints is made here, so
//! that an author, a test and a server say the same.
//!
//! Invariants:
//! - **As the server does it.** Components are compiled, limited and checked by the host that servers use;
//!   nothing here decides on its own what a plug-in may do.
//! - **An author's file is never overwritten**, save what a build makes, what `update` says it renews, and imports
//!   of a module that it renames.
//! - **A tool that is missing is named with the command that installs it.**

mod answers;
mod bench;
mod build;
mod check;
mod componentize;
mod error;
mod golden;
mod items;
mod progress;
mod project;
mod python_module;
mod registry;
mod report;
mod run;
mod sandbox;
mod shape;
mod templates;
mod text;
mod tools;
mod watch;
mod workbench;

pub use bench::{Floor, Measure};
pub use build::{BuildError, build, missing};
pub use error::Error;
pub use progress::{Plain, Progress, Silent, Terminal};
pub use project::{
    COMPONENT, ITEMS, Language, MANIFEST, Manifest, Project, ProjectError, TESTS, UnknownLanguage,
};
pub use registry::{Answer, Registry, Remote};
pub use report::Report;
pub use sandbox::Sandbox;
pub use templates::{NewError, TEMPLATE_VERSION, age, new, update};
pub use tools::Tools;
pub use watch::{Snapshot, changed, outdated};
pub use workbench::{Component, Selection, Workbench};
