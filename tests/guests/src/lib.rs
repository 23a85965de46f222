//! What the tests of all guest languages share: a project as `perpend plugin new` writes it, built as
//! `perpend plugin build` builds it, and the real host to run the component in.
//!
//! A test is a function that is ignored if a toolchain is missing; its module lists its tests, and `main` lists the
//! modules:
//!
//! ```ignore
//! fn a_new_project_gives_scores() -> Tested {
//!     let template = guests::template("python")?; // leaves the test out where componentize-py is missing
//!     let scores = template.guest.scores("length", &json!({ "max_chars": 3 }), &output("four"));
//!     assert_eq!(scores[0].value, PluginScoreValue::Boolean(false));
//!     Ok(())
//! }
//!
//! pub(crate) fn all() -> Vec<Test> {
//!     tests![a_new_project_gives_scores]
//! }
//! ```
//!
//! An ignored test prints the missing toolchain; with `PERPEND_TEST_GUESTS=require` it fails.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod apart;
pub mod detective;
mod guest;
mod kept;
mod model;
mod template;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use tempfile::TempDir;

pub use apart::{apart, component};
pub use guest::{Guest, item, output};
pub use kept::{Shared, cache_of, compiled, guests};
pub use model::Model;
pub use template::{Template, build, built, new_project, template};

/// Set to `require`, what is missing on this machine is a failure.
const REQUIRE: &str = "PERPEND_TEST_GUESTS";

/// Why a test did not run, such as "componentize-py missing (install: pip install componentize-py)".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(pub String);

impl Missing {
    /// `what` is not on this machine; `install` is the command that brings it.
    #[must_use]
    pub fn tool(what: &str, install: &str) -> Self {
        Self(format!("{what} missing (install: {install})"))
    }
}

/// What a test gives: it passed, or something that it needs is not there. It fails by panicking.
pub type Tested = Result<(), Missing>;

/// A test with its path.
pub type Test = (&'static str, fn() -> Tested);

/// The named functions as tests.
#[macro_export]
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        vec![$((concat!(module_path!(), "::", stringify!($test)), $test as fn() -> $crate::Tested)),+]
     };
}

static SCRATCH: Mutex<Option<TempDir>> = Mutex::new(None);

/// A folder that lives as long as this test program.
///
/// # Panics
/// When none can be made.
#[must_use]
pub fn scratch(name: &str) -> PathBuf {
    let mut folder = SCRATCH.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = folder.get_or_insert_with(|| tempfile::tempdir().unwrap());
    // Never the same folder twice.
    let path = tempfile::Builder::new().prefix(name).tempdir_in(scratch.path());
    path.unwrap().keep()
}

/// What `main` of a test program does: runs the tests and cleans up.
#[must_use]
pub fn run(tests: Vec<Test>) -> ExitCode {
    let must_run = std::env::var_os(REQUIRE).is_some_and(|value| value == "require");
    let trials = tests.into_iter().map(|(name, test)| {
        let name = name.split_once("::").map_or(name, |(_program, path)| path);
        Trial::ignorable_test(name, move || match test() {
            Ok(()) => Ok(Completion::Completed),
            Err(Missing(why)) if must_run => {
                Err(Failed::from(format!("{REQUIRE}=require, and {why}")))
            }
            Err(Missing(why)) => {
                let _ = writeln!(std::io::stderr().lock(), "not run: {why}");
                Ok(Completion::ignored_with(why))
            }
        })
    });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    drop(SCRATCH.lock().unwrap_or_else(PoisonError::into_inner).take());
    conclusion.exit_code()
}
