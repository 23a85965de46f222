//! Runs the examples in doc comments, and builds the documentation without warnings.
//!
//! `cargo doc` would check all libraries a second time, with build results that nothing else uses. For the examples, cargo
//! passes the libraries of the tests to rustdoc. So this program replaces rustdoc there and calls the real one twice.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::shell;

/// Variables that are set when cargo calls this program as rustdoc: the path of the real one, and the folder of the pages.
const REAL: &str = "PERPEND_XTASK_RUSTDOC";
const PAGES: &str = "PERPEND_XTASK_DOC";

/// Runs the examples and builds the documentation; `true` on success.
pub(crate) fn run() -> anyhow::Result<bool> {
    let mut cargo = shell::linting_cargo(&["test", "--workspace", "--doc", "--locked"])?;
    cargo
        .env("RUSTDOC", std::env::current_exe()?)
        .env(REAL, shell::sysroot()?.join("bin/rustdoc"))
        .env(PAGES, shell::target_dir()?.join("doc"));
    Ok(cargo.status()?.success())
}

/// Acts as rustdoc if cargo started this program as rustdoc; `None` otherwise.
pub(crate) fn stand_in() -> Option<ExitCode> {
    let real = PathBuf::from(std::env::var_os(REAL)?);
    let pages = PathBuf::from(std::env::var_os(PAGES)?);
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_well = call(&real, &args)
        && match building(&args, &pages) {
            Some(args) => build(&real, &args, &pages),
            None => true,
        };
    Some(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Builds the pages of a crate, unless they are newer than the compiled crate.
fn build(rustdoc: &Path, args: &[OsString], pages: &Path) -> bool {
    let compiled = compiled(args);
    let noted = compiled.as_deref().and_then(Path::file_name);
    let note = noted.map(|name| pages.join(name).with_extension("built"));
    let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified());
    if let (Some(compiled), Some(note)) = (&compiled, &note)
        && let (Ok(compiled), Ok(built)) = (changed(compiled), changed(note))
        && compiled < built
    {
        return true;
    }
    // Without the note they are built again the next time.
    call(rustdoc, args) && note.is_none_or(|note| std::fs::write(note, "").is_ok())
}

/// The library of these arguments: the linked library with the name of the crate.
fn compiled(args: &[OsString]) -> Option<PathBuf> {
    let name = args.iter().skip_while(|arg| *arg != "--crate-name").nth(1)?;
    let start = format!("{}=", name.to_str()?);
    let of_name = |arg: &OsString| Some(PathBuf::from(arg.to_str()?.strip_prefix(&start)?));
    args.iter().find_map(of_name)
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

/// The arguments that build the pages of the crate whose examples these arguments would test.
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
    fn arguments_of_doc_tests_become_arguments_of_rustdoc() {
        let all = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        let tested = all("--edition=2024 --test src/lib.rs --test-run-directory here --extern a=b");
        let built = building(&tested, Path::new("doc")).unwrap();
        let expected = "--edition=2024 src/lib.rs --extern a=b -D warnings --out-dir doc";
        assert_eq!(built, all(expected));
        assert_eq!(building(&all("-vV"), Path::new("doc")), None);
        let own = all("--crate-name a src/lib.rs --extern b=libb.rlib --extern a=liba.rlib");
        assert_eq!(compiled(&own), Some(PathBuf::from("liba.rlib")));
    }
}
