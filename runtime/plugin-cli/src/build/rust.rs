//! Rust: `cargo build` for `wasm32-wasip2`, whose output is a component as it is.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::BuildError;
use super::tool;
use crate::progress::Progress;
use crate::project::Project;

const TARGET: &str = "wasm32-wasip2";
const INSTALL: &str = "https://rustup.rs, then `rustup target add wasm32-wasip2`";

/// Commands for what a build would not find. Whether the target is there, cargo alone knows.
pub(super) fn missing(project: &Project) -> Vec<String> {
    match project.tools().find("cargo") {
        Some(_) => Vec::new(),
        None => vec![format!("# cargo: {INSTALL}")],
    }
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let cargo = project.need("cargo", INSTALL)?;
    progress.step("cargo build");
    let mut command = project.tools().command(&cargo);
    command.current_dir(project.dir()).args([
        "build",
        "--release",
        "--lib",
        "--target",
        TARGET,
        "--message-format=json-render-diagnostics",
    ]);
    // Not one that is shared: the file has the same name in every project.
    command.arg("--target-dir").arg(project.dir().join("target"));
    let messages = tool::run(&mut command, progress).map_err(explained)?;
    let built = artifact(&messages, project.dir()).ok_or_else(|| {
        BuildError::Componentize(
            "cargo made no .wasm file: Cargo.toml needs `crate-type = [\"cdylib\"]` under [lib]"
                .to_owned(),
        )
    })?;
    std::fs::copy(&built, out).map_err(|source| BuildError::file(&built, source))?;
    Ok(())
}

/// A target that is not installed looks like a crate that is not found.
fn explained(error: BuildError) -> BuildError {
    match error {
        BuildError::ToolFailed { said, .. }
            if said.contains("can't find crate for `core`")
                || said.contains("can't find crate for `std`")
                || said.contains("target may not be installed") =>
        {
            BuildError::ToolMissing {
                tool: format!("the Rust target {TARGET}"),
                install: format!("rustup target add {TARGET}"),
            }
        }
        other => other,
    }
}

/// The component among the messages of cargo: that of the package in `dir` itself.
fn artifact(messages: &[u8], dir: &Path) -> Option<PathBuf> {
    let manifest = dir.join("Cargo.toml");
    let messages = messages.split(|byte| *byte == b'\n');
    let messages = messages.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let own = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest)
    });
    own.filter_map(|message| {
        let files = message["filenames"].as_array()?;
        let mut paths = files.iter().filter_map(Value::as_str).map(PathBuf::from);
        paths.find(|path| path.extension().is_some_and(|ending| ending == "wasm"))
    })
    .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_is_the_one_of_the_package_itself() {
        let messages = br#"{"reason":"compiler-artifact","manifest_path":"/p/perpend/rust/Cargo.toml","filenames":["/t/sdk.wasm"]}
{"reason":"compiler-artifact","manifest_path":"/p/Cargo.toml","filenames":["/t/libplugin.rlib","/t/plugin.wasm"]}
{"reason":"build-finished","success":true}"#;
        let found = artifact(messages, Path::new("/p"));
        assert_eq!(found, Some(PathBuf::from("/t/plugin.wasm")));
        assert_eq!(artifact(b"", Path::new("/p")), None);
    }

    #[test]
    fn a_missing_target_says_the_command_that_adds_it() {
        let failed = explained(BuildError::ToolFailed {
            tool: "cargo".to_owned(),
            said: "error[E0463]: can't find crate for `core`".to_owned(),
        });
        let text = failed.to_string();
        assert!(text.contains("rustup target add wasm32-wasip2"), "{text}");
    }
}
