//! Where the toolchains of other languages are found, and how they are called.
//!
//! One look-up for authors and for the tests: first the project's own `node_modules` and `.venv`, then the
//! folder named by `PERPEND_TOOLCHAINS` (with `bin/` and `node_modules/` in it), then `PATH`.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::build::BuildError;
use crate::progress::Progress;

/// The folders that programs and node modules are looked for in, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    programs: Vec<PathBuf>,
    node_modules: Vec<PathBuf>,
}

/// Lines of a failed tool that are shown; its last ones say what went wrong.
const MAX_LINES_SHOWN: usize = 60;

impl Tools {
    /// What this process was given: `PERPEND_TOOLCHAINS` and `PATH`.
    #[must_use]
    pub fn from_env() -> Self {
        let toolchains = std::env::var_os("PERPEND_TOOLCHAINS").filter(|value| !value.is_empty());
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::new(toolchains.map(PathBuf::from), &path)
    }

    /// A folder of toolchains, where there is one, and a search path.
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

    /// These, and before them what the project itself has installed.
    pub(crate) fn of_project(&self, dir: &Path) -> Self {
        let mut tools = Self::default();
        tools.add(dir);
        tools.programs.push(dir.join(".venv/bin"));
        tools.programs.extend(self.programs.iter().cloned());
        tools.node_modules.extend(self.node_modules.iter().cloned());
        tools
    }

    /// The program of this name.
    #[must_use]
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let files = self.programs.iter().map(|folder| folder.join(program));
        files.into_iter().find(|file| is_program(file))
    }

    /// The folder of an npm package, such as `@bytecodealliance/jco`.
    #[must_use]
    pub fn node_module(&self, package: &str) -> Option<PathBuf> {
        let folders = self.node_modules.iter().map(|folder| folder.join(package));
        folders
            .into_iter()
            .find(|folder| folder.join("package.json").is_file())
    }

    /// A command whose own look-ups see the same folders.
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
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What a tool wrote to its standard output.
pub(crate) fn run(command: &mut Command, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
    let tool = Path::new(command.get_program())
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let ran = listen(command, progress);
    let (succeeded, out, said) = ran.map_err(|error| BuildError::ToolFailed {
        tool: tool.clone(),
        said: format!("it cannot be run: {error}"),
    })?;
    if succeeded {
        return Ok(out);
    }
    let mut lines = said;
    // Some tools complain on their standard output.
    if lines.iter().all(|line| line.trim().is_empty()) {
        let out = String::from_utf8_lossy(&out);
        lines = out.lines().map(str::to_owned).collect();
    }
    let first = lines.len().saturating_sub(MAX_LINES_SHOWN);
    Err(BuildError::ToolFailed {
        tool,
        said: lines[first..].join("\n"),
    })
}

/// Whether it succeeded, its standard output, and the lines of its standard error.
fn listen(
    command: &mut Command,
    progress: &dyn Progress,
) -> io::Result<(bool, Vec<u8>, Vec<String>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let missing = || io::Error::other("a pipe is missing");
    let mut stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let reading = std::thread::spawn(move || {
        let mut out = Vec::new();
        stdout.read_to_end(&mut out).map(|_| out)
    });
    let mut said = Vec::new();
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        progress.line(&line);
        said.push(line);
    }
    let out = reading
        .join()
        .map_err(|_| io::Error::other("its output was not read"))??;
    Ok((child.wait()?.success(), out, said))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::progress::Silent;

    #[test]
    fn the_toolchain_folder_is_asked_before_the_path_and_files_must_be_executable() {
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
        let tools = Tools::new(
            Some(folder.path().join("chains")),
            &path.clone().into_os_string(),
        );
        assert_eq!(tools.find("both"), Some(bin.join("both")));
        assert_eq!(tools.find("text"), None);
        assert_eq!(Tools::new(None, &path.into_os_string()).find("none"), None);
    }

    #[test]
    fn a_tool_that_fails_says_what_it_said() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo out; echo wrong >&2; exit 3"]);
        let failed = run(&mut command, &Silent).unwrap_err().to_string();
        assert!(
            failed.contains("sh") && failed.contains("wrong"),
            "{failed}"
        );
    }
}
