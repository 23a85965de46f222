//! Python: `build.py` of the SDK runs `componentize-py`, which executes the modules of the project once and stores the
//! memory of the interpreter in the component.

use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::tool;
use crate::progress::Progress;
use crate::project::Project;

const INSTALL_PYTHON: &str = "https://www.python.org/downloads, 3.10 or later";
const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1";
/// The module with the evaluators; `entry` under `[build]` overrides it.
const ENTRY: &str = "evaluators";

/// The commands that install the missing tools.
pub(super) fn missing(project: &Project) -> Vec<String> {
    match project.tools().find("componentize-py") {
        Some(_) => Vec::new(),
        None => vec![INSTALL.to_owned()],
    }
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let componentize = project.need("componentize-py", INSTALL)?;
    let python = match interpreter_of(&componentize) {
        Some(python) => python,
        None => project.need("python3", INSTALL_PYTHON)?,
    };
    progress.step("building with componentize-py");
    let mut command = project.tools().command(&python);
    command
        .arg(project.sdk("python").join("build.py"))
        .arg("--project")
        .arg(project.dir())
        .arg("--wit")
        .arg(project.wit())
        .arg("--scratch")
        .arg(project.scratch()?)
        .arg("--componentize")
        .arg(&componentize)
        .arg("--out")
        .arg(out)
        .args(["--entry", project.option("entry").unwrap_or(ENTRY)]);
    tool::run(&mut command, progress).map_err(with_hint)?;
    Ok(())
}

/// The interpreter in the same folder as `componentize-py`.
fn interpreter_of(program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let python = program.parent()?.join("python3");
    python.is_file().then_some(python)
}

/// Adds hints to frequent errors.
fn with_hint(error: BuildError) -> BuildError {
    let BuildError::ToolFailed { tool, mut output } = error else {
        return error;
    };
    let hints = [
        (
            "ModuleNotFoundError",
            "packages must be listed in requirements.txt, and must not have compiled extensions",
        ),
        (
            "No module named 'perpend'",
            "the SDK is imported as perpend_plugin; other packages must be listed in requirements.txt",
        ),
        (
            "No module named perpend_plugin",
            "the SDK of the project is missing: `perpend plugin update` restores it",
        ),
        (
            "world `scorer`",
            "the contract in perpend/wit does not match this program: `perpend plugin update` updates it",
        ),
    ];
    if let Some((_, hint)) = hints.iter().rev().find(|(sign, _)| output.contains(sign)) {
        output.push_str("\nhint: ");
        output.push_str(hint);
    }
    BuildError::ToolFailed { tool, output }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_cannot_be_imported_is_explained() {
        for (output, hint) in [
            (
                "ModuleNotFoundError: No module named 'pandas'",
                "packages must be listed in requirements.txt",
            ),
            (
                "ModuleNotFoundError: No module named 'perpend'",
                "the SDK is imported as perpend_plugin",
            ),
            ("python3: No module named perpend_plugin", "`perpend plugin update` restores it"),
        ] {
            let failed = with_hint(BuildError::ToolFailed {
                tool: "python3".to_owned(),
                output: output.to_owned(),
            });
            assert!(failed.to_string().contains(hint), "{failed}");
        }
    }

    #[test]
    fn the_interpreter_of_a_virtual_environment_is_found_through_links() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("venv/bin");
        std::fs::create_dir_all(&bin).unwrap();
        for name in ["componentize-py", "python3"] {
            std::fs::write(bin.join(name), "").unwrap();
        }
        let link = folder.path().join("componentize-py");
        std::os::unix::fs::symlink(bin.join("componentize-py"), &link).unwrap();
        let found = interpreter_of(&link).unwrap();
        assert!(found.ends_with("venv/bin/python3"), "{}", found.display());
        assert_eq!(interpreter_of(&folder.path().join("none")), None);
    }
}
