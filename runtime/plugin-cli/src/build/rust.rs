//! Rust: `cargo build` for `wasm32-wasip2`, whose output is a component.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::BuildError;
use super::tool;
use crate::progress::Progress;
use crate::project::Project;

const TARGET: &str = "wasm32-wasip2";
const INSTALL: &str = "https://rustup.rs, then `rustup target add wasm32-wasip2`";

/// The commands that install the missing tools. Only cargo can detect a missing target.
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
    // Not a shared target directory: the file has the same name in every project.
    command.arg("--target-dir").arg(project.dir().join("target"));
    let messages = tool::run(&mut command, progress).map_err(with_hint)?;
    let built = artifact(&messages, project.dir()).ok_or_else(|| {
        BuildError::Componentize(
            "cargo produced no .wasm file: Cargo.toml must have `crate-type = [\"cdylib\"]` under [lib]"
                .to_owned(),
        )
    })?;
    std::fs::copy(&built, out).map_err(|source| BuildError::file(&built, source))?;
    Ok(())
}

/// Reports a missing target instead of a missing crate.
fn with_hint(error: BuildError) -> BuildError {
    match error {
        BuildError::ToolFailed { output, .. }
            if output.contains("can't find crate for `core`")
                || output.contains("can't find crate for `std`")
                || output.contains("target may not be installed") =>
        {
            BuildError::ToolMissing {
                tool: format!("the Rust target {TARGET}"),
                install: format!("rustup target add {TARGET}"),
            }
        }
        other => other,
    }
}

/// The component of the package in `dir`, from the messages of cargo.
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
    fn the_error_for_a_missing_target_has_the_command_that_adds_it() {
        let failed = with_hint(BuildError::ToolFailed {
            tool: "cargo".to_owned(),
            output: "error[E0463]: can't find crate for `core`".to_owned(),
        });
        let text = failed.to_string();
        assert!(text.contains("rustup target add wasm32-wasip2"), "{text}");
    }
}
