//! Python: `build.py` of the SDK, which lets `componentize-py` run the project's modules once and keeps
//! the interpreter's memory as the component.

use std::path::{Path, PathBuf};

use super::error::BuildError;
use super::tool;
use crate::progress::Progress;
use crate::project::Project;

const INSTALL_PYTHON: &str = "https://www.python.org/downloads, 3.10 or later";
const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1";
/// The module that has the evaluators; `entry` under `[build]` names another.
const ENTRY: &str = "evaluators";

/// Commands for what a build would not find.
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
    let python = match beside(&componentize) {
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
    tool::run(&mut command, progress).map_err(explained)?;
    Ok(())
}

/// The Python that the program was installed with: it is new enough, and a virtual environment has pip.
fn beside(program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let python = program.parent()?.join("python3");
    python.is_file().then_some(python)
}

/// Ways out of what authors meet first.
fn explained(error: BuildError) -> BuildError {
    let BuildError::ToolFailed { tool, mut said } = error else {
        return error;
    };
    let hints = [
        (
            "ModuleNotFoundError",
            "packages are named in requirements.txt, and have to work without compiled extensions",
        ),
        (
            "No module named 'perpend'",
            "the SDK is imported as perpend_plugin; any other package is named in requirements.txt",
        ),
        (
            "No module named perpend_plugin",
            "the project's SDK is missing: `perpend plugin update` brings it back",
        ),
        (
            "world `scorer`",
            "the contract in perpend/wit does not fit this program: `perpend plugin update` renews it",
        ),
    ];
    if let Some((_, hint)) = hints.iter().rev().find(|(sign, _)| said.contains(sign)) {
        said.push_str("\nhint: ");
        said.push_str(hint);
    }
    BuildError::ToolFailed { tool, said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_cannot_be_imported_is_explained() {
        for (said, hint) in [
            (
                "ModuleNotFoundError: No module named 'pandas'",
                "packages are named in requirements.txt",
            ),
            (
                "ModuleNotFoundError: No module named 'perpend'",
                "the SDK is imported as perpend_plugin",
            ),
            ("python3: No module named perpend_plugin", "`perpend plugin update` brings it back"),
        ] {
            let failed = explained(BuildError::ToolFailed {
                tool: "python3".to_owned(),
                said: said.to_owned(),
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
        let found = beside(&link).unwrap();
        assert!(found.ends_with("venv/bin/python3"), "{}", found.display());
        assert_eq!(beside(&folder.path().join("none")), None);
    }
}
