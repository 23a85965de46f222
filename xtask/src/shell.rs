//! Paths of the repository, and calls of cargo.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread::ScopedJoinHandle;

use anyhow::Context;

/// The folder of the workspace, from cargo at run time: a target directory shared by two checkouts may contain the program
/// that was built in the other one.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let built_in = || env!("CARGO_MANIFEST_DIR").into();
        let here: PathBuf =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(built_in, Into::into);
        here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
    })
}

/// The cargo that runs this program, in the workspace's folder.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // Variables set by cargo for this program must not reach the next one.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// The same for builds: crates of the workspace are linted while they are compiled, and a warning is an error. A separate
/// Clippy run would check all libraries first, with results that tests cannot be linked with.
pub(crate) fn linting_cargo(args: &[&str]) -> anyhow::Result<Command> {
    let mut command = cargo(args);
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy_driver()?).env("CLIPPY_ARGS", LINTS);
    Ok(command)
}

/// As passed by `cargo clippy -- -D warnings`.
const LINTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

fn clippy_driver() -> anyhow::Result<PathBuf> {
    let driver = sysroot()?.join("bin/clippy-driver");
    anyhow::ensure!(driver.is_file(), "clippy is not installed: rustup component add clippy");
    Ok(driver)
}

/// The folder of the toolchain in use.
pub(crate) fn sysroot() -> anyhow::Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--print", "sysroot"]).current_dir(root());
    let out = command.output().context("rustc")?;
    Ok(String::from_utf8(out.stdout)?.trim().into())
}

/// The output of `cargo metadata` for the packages of the workspace.
pub(crate) fn metadata() -> anyhow::Result<serde_json::Value> {
    let out = cargo(&["metadata", "--format-version=1", "--no-deps"]).output()?;
    anyhow::ensure!(
        out.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).context("cargo metadata")
}

/// The target directory; honours `CARGO_TARGET_DIR` and the configuration.
pub(crate) fn target_dir() -> anyhow::Result<PathBuf> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().context("no target directory")?.into())
}

/// The result of a thread.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    let ended = thread.join();
    ended.map_err(|_| anyhow::anyhow!("a thread panicked"))?
}

/// Text in a colour, when standard error is a terminal.
pub(crate) fn coloured(code: u8, text: &str) -> String {
    if std::io::stderr().is_terminal() {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

/// Whether a file of a crate consists of tests: `tests.rs`, `rows_tests.rs`, or a file in a folder `tests`.
pub(crate) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs" || name.ends_with("_tests.rs") || path.contains("/tests/")
}

/// Every file git tracks, or would track, relative to the root.
pub(crate) fn files() -> anyhow::Result<Vec<PathBuf>> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("git ls-files")?;
    anyhow::ensure!(out.status.success(), "git ls-files: {}", String::from_utf8_lossy(&out.stderr));
    let names = String::from_utf8(out.stdout)?;
    let mut files: Vec<_> =
        names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}
