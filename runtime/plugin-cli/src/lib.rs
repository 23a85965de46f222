//! The commands of `perpend plugin`: create, build, check, run, test, measure and register plug-ins.
//!
//! The `perpend` program parses the command line and calls this crate, which also formats the output.
//!
//! Invariants:
//! - **Same host as the server.** Components are compiled, limited and checked by the host that servers use;
//!   this crate has no rules of its own about plug-ins.
//! - **Files of the author are never overwritten**, except build output, the files that `update` lists, and imports
//!   of a renamed module.
//! - **The error for a missing tool contains the command that installs it.**

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

pub use bench::{Baseline, BenchParams};
pub use build::{BuildError, build, missing};
pub use error::Error;
pub use progress::{Plain, Progress, Silent, Terminal};
pub use project::{
    COMPONENT, ITEMS, Language, MANIFEST, Manifest, Project, ProjectError, TESTS, UnknownLanguage,
};
pub use registry::{Registry, Remote, RemoteResponse};
pub use report::Report;
pub use sandbox::Sandbox;
pub use templates::{NewError, TEMPLATE_VERSION, age, new, update};
pub use tools::Tools;
pub use watch::{Snapshot, changed, outdated};
pub use workbench::{Component, Selection, Workbench};
