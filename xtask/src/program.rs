//! Builds the program and shows the progress of the build.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::process::{ChildStderr, Stdio};

use anyhow::Context;

use crate::progress::Task;
use crate::shell;

/// Lines of the build that are shown when it fails.
const N_LINES: usize = 200;

/// Runs `cargo build` with these arguments.
pub(crate) fn build(args: &[&str], task: Task<'_>) -> anyhow::Result<()> {
    let mut cargo = shell::linting_cargo(&[&["build"], args].concat())?;
    // The progress bar of cargo contains the number of crates.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always");
    cargo.env("CARGO_TERM_PROGRESS_WIDTH", "200");
    task.step("building the program", || {
        let mut cargo = cargo.stderr(Stdio::piped()).spawn()?;
        let stderr = cargo.stderr.take().context("standard error")?;
        let last = follow(stderr, task)?;
        anyhow::ensure!(cargo.wait()?.success(), "{}", last.join("\n"));
        Ok(())
    })
}

/// Shows the progress of the build and returns its last lines.
fn follow(stderr: ChildStderr, task: Task<'_>) -> anyhow::Result<Vec<String>> {
    let mut last = VecDeque::new();
    let mut line = Vec::new();
    for byte in BufReader::new(stderr).bytes() {
        let byte = byte?;
        if byte != b'\n' && byte != b'\r' {
            line.push(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        match position(&text) {
            Some(position) => task.doing(position),
            None => last.push_back(text),
        }
        if N_LINES < last.len() {
            last.pop_front();
        }
    }
    Ok(last.into())
}

/// `212/390 object_store, axum` out of `    Building [===>   ] 212/390: object_store, axum`.
fn position(line: &str) -> Option<String> {
    let (_, after) = line.trim().strip_prefix("Building [")?.split_once("] ")?;
    Some(after.replacen(':', "", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_read_from_the_bar_of_cargo() {
        let bar = "    Building [=======>    ] 212/390: object_store, axum";
        assert_eq!(position(bar).unwrap(), "212/390 object_store, axum");
        assert_eq!(position("   Compiling axum v0.8.9"), None);
    }
}
