//! Child processes that end with the value that owns them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use anyhow::{Context, Result};

use crate::patience::PATIENCE;

/// A child process that is ended with this value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The output until it was ready.
    pub(crate) output: String,
}

impl Process {
    /// Starts a program and waits until it prints a line that `is_ready` takes.
    pub(crate) fn start(command: &mut Command, is_ready: fn(&str) -> bool) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("standard output")?;
        let (send, output) = mpsc::channel();
        // Reads on to the end, so that the program never waits for a full pipe.
        std::thread::spawn(move || {
            let mut output = String::new();
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                output.push_str(&line);
                output.push('\n');
                if is_ready(&line) {
                    let _ = send.send(std::mem::take(&mut output));
                }
            }
        });
        let output = output.recv_timeout(PATIENCE);
        let mut process = Self { child, output: String::new() };
        process.output = output.with_context(|| format!("{command:?} did not become ready"))?;
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM lets the server stop its workers.
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}
