//! Execution of the tools of a build.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::BuildError;
use crate::progress::Progress;
use crate::project::Project;

/// The number of lines of a failed tool that are shown, from the end of its output.
const MAX_LINES_SHOWN: usize = 60;

impl Project {
    /// A program that the build needs.
    ///
    /// # Errors
    /// [`BuildError::ToolMissing`] with `install`, the command that installs it.
    pub fn need(&self, program: &str, install: &str) -> Result<PathBuf, BuildError> {
        let found = self.tools().find(program);
        found.ok_or_else(|| BuildError::missing(program.to_owned(), install))
    }

    /// The folder of an npm package that the build needs.
    ///
    /// # Errors
    /// As [`Self::need`].
    pub fn need_module(&self, package: &str, install: &str) -> Result<PathBuf, BuildError> {
        let found = self.tools().node_module(package);
        found.ok_or_else(|| BuildError::missing(format!("the npm package {package}"), install))
    }
}

/// Runs a tool and returns its standard output.
pub(super) fn run(command: &mut Command, progress: &dyn Progress) -> Result<Vec<u8>, BuildError> {
    let tool = Path::new(command.get_program())
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let ran = listen(command, progress);
    let (succeeded, out, stderr) = ran.map_err(|error| BuildError::ToolFailed {
        tool: tool.clone(),
        output: format!("it cannot be started: {error}"),
    })?;
    if succeeded {
        return Ok(out);
    }
    let mut lines = stderr;
    // Some tools write errors to standard output.
    if lines.iter().all(|line| line.trim().is_empty()) {
        let out = String::from_utf8_lossy(&out);
        lines = out.lines().map(str::to_owned).collect();
    }
    let first = lines.len().saturating_sub(MAX_LINES_SHOWN);
    Err(BuildError::ToolFailed { tool, output: lines[first..].join("\n") })
}

/// Runs a tool. Returns its success, its standard output, and the lines of its standard error.
fn listen(
    command: &mut Command,
    progress: &dyn Progress,
) -> io::Result<(bool, Vec<u8>, Vec<String>)> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let missing = || io::Error::other("a pipe is missing");
    let mut stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let reading = std::thread::spawn(move || {
        let mut out = Vec::new();
        stdout.read_to_end(&mut out).map(|_| out)
    });
    let mut lines = Vec::new();
    for line in BufReader::new(stderr).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        progress.line(&line);
        lines.push(line);
    }
    let out = reading.join().map_err(|_| io::Error::other("its output cannot be read"))??;
    Ok((child.wait()?.success(), out, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn the_error_of_a_failed_tool_has_its_output() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo out; echo wrong >&2; exit 3"]);
        let failed = run(&mut command, &Silent).unwrap_err().to_string();
        assert!(failed.contains("sh") && failed.contains("wrong"), "{failed}");
    }
}
