//! Docstrings: their examples are run, and they are built without warnings.
//!
//! `cargo doc` would check all libraries for a second time, in a form that nothing else uses. What cargo hands to rustdoc
//! for the examples names the libraries that the tests are linked with. So this program takes the place of rustdoc there
//! and calls the real one twice.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::shell;

/// Set where this program stands in for rustdoc: where the real one is, and where the pages go.
const REAL: &str = "PERPEND_XTASK_RUSTDOC";
const PAGES: &str = "PERPEND_XTASK_DOC";

/// Tests and builds them; `true` when all is well.
pub(crate) fn run() -> anyhow::Result<bool> {
    let mut cargo = shell::linting_cargo(&["test", "--workspace", "--doc", "--locked"])?;
    cargo
        .env("RUSTDOC", std::env::current_exe()?)
        .env(REAL, shell::sysroot()?.join("bin/rustdoc"))
        .env(PAGES, shell::target_dir()?.join("doc"));
    Ok(cargo.status()?.success())
}

/// What this program does where cargo takes it for rustdoc; nothing where it does not.
pub(crate) fn stand_in() -> Option<ExitCode> {
    let real = PathBuf::from(std::env::var_os(REAL)?);
    let pages = PathBuf::from(std::env::var_os(PAGES)?);
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_well = call(&real, &args)
        && match building(&args, &pages) {
            Some(args) => call(&real, &args),
            None => true,
        };
    Some(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn call(rustdoc: &Path, args: &[OsString]) -> bool {
    match Command::new(rustdoc).args(args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", rustdoc.display());
            false
        }
    }
}

/// The arguments that build the pages of what these would test.
fn building(args: &[OsString], pages: &Path) -> Option<Vec<OsString>> {
    let is = |arg: &OsStr, name: &str| arg == name;
    if !args.iter().any(|arg| is(arg, "--test")) {
        return None;
    }
    let mut kept = Vec::new();
    let mut all = args.iter();
    while let Some(arg) = all.next() {
        match () {
            () if is(arg, "--test") => {}
            () if is(arg, "--test-run-directory") => {
                all.next();
            }
            () => kept.push(arg.clone()),
        }
    }
    kept.extend(["-D", "warnings", "--out-dir"].map(OsString::from));
    kept.push(pages.into());
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tests_examples_becomes_what_builds_pages() {
        let all = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let tested = all("--edition=2024 --test src/lib.rs --test-run-directory here --extern a=b");
        let built = building(&tested, Path::new("doc")).unwrap();
        let expected = "--edition=2024 src/lib.rs --extern a=b -D warnings --out-dir doc";
        assert_eq!(built, all(expected));
        assert_eq!(building(&all("-vV"), Path::new("doc")), None);
    }
}
