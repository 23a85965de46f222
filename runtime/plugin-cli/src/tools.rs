//! The search for the toolchains of languages.
//!
//! The order is: `node_modules` and `.venv` of the project, the folder in `PERPEND_TOOLCHAINS` (with `bin/` and
//! `node_modules/`), `PATH`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The search path for programs and node modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    programs: Vec<PathBuf>,
    node_modules: Vec<PathBuf>,
}

impl Tools {
    /// The search path from `PERPEND_TOOLCHAINS` and `PATH` of this process.
    #[must_use]
    pub fn from_env() -> Self {
        let toolchains = std::env::var_os("PERPEND_TOOLCHAINS").filter(|value| !value.is_empty());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::new(toolchains.map(PathBuf::from), &path)
    }

    /// An optional folder of toolchains, and a search path.
    #[must_use]
    pub fn new(toolchains: Option<PathBuf>, path: &OsString) -> Self {
        let mut tools = Self::default();
        if let Some(folder) = toolchains {
            tools.add(&folder);
        }
        tools.programs.extend(std::env::split_paths(path));
        tools
    }

    fn add(&mut self, folder: &Path) {
        self.programs.push(folder.join("bin"));
        self.programs.push(folder.join("node_modules/.bin"));
        self.node_modules.push(folder.join("node_modules"));
    }

    /// This search path, preceded by the folders of the project.
    pub(crate) fn of_project(&self, dir: &Path) -> Self {
        let mut tools = Self::default();
        tools.add(dir);
        tools.programs.push(dir.join(".venv/bin"));
        tools.programs.extend(self.programs.iter().cloned());
        tools.node_modules.extend(self.node_modules.iter().cloned());
        tools
    }

    /// The path of a program; `None` when it is not installed.
    #[must_use]
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let files = self.programs.iter().map(|folder| folder.join(program));
        files.into_iter().find(|file| is_program(file))
    }

    /// The folder of an npm package, such as `@bytecodealliance/jco`.
    #[must_use]
    pub fn node_module(&self, package: &str) -> Option<PathBuf> {
        let folders = self.node_modules.iter().map(|folder| folder.join(package));
        folders.into_iter().find(|folder| folder.join("package.json").is_file())
    }

    /// A command that has the same search path as `PATH`.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Ok(path) = std::env::join_paths(&self.programs) {
            command.env("PATH", path);
        }
        command
    }
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_toolchain_folder_precedes_the_path_and_files_must_be_executable() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("chains/bin");
        let path = folder.path().join("path");
        for place in [&bin, &path] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("both"), "").unwrap();
            fs::set_permissions(place.join("both"), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(path.join("text"), "").unwrap();
        let tools = Tools::new(Some(folder.path().join("chains")), &path.clone().into_os_string());
        assert_eq!(tools.find("both"), Some(bin.join("both")));
        assert_eq!(tools.find("text"), None);
        assert_eq!(Tools::new(None, &path.into_os_string()).find("none"), None);
    }
}
