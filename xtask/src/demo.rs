//! `cargo xtask demo`: builds the program and, beside it, the components of other languages, and starts the demo.
//!
//! The build has a profile of its own, which takes half the time of a release build. What cannot be built on this
//! machine is left out, in one line; the demo then scores with the rest.

use std::collections::VecDeque;
use std::io::{BufReader, Read};
use std::process::{ChildStderr, Stdio};
use std::thread;

use anyhow::Context;

use crate::progress::{Part, Progress};
use crate::toolchains::{Extent, Source};
use crate::{plugins, shell};

const PROFILE: &str = "demo";
/// Lines of the build that are shown when it fails.
const N_LINES: usize = 200;

/// What the demo is given.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `perpend demo`, such as `--once` or `--listen 127.0.0.1:8080`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Builds what is not up to date and runs the demo; whether it succeeded.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let target = shell::target_dir()?;
    Progress::show(|progress| {
        thread::scope(|scope| {
            let components = Source::ALL.map(|source| {
                let (part, target) = (progress.part(source.name()), &target);
                scope.spawn(move || plugins::build_all(source, Extent::Components, target, part))
            });
            let built = build(progress.part("server"));
            for component in components {
                if let Err(error) = shell::joined(component) {
                    progress.line(&format!("  {error:#}"));
                }
            }
            built
        })
    })?;
    let program = target.join(PROFILE).join("perpend");
    let mut demo = std::process::Command::new(&program);
    let status = demo.arg("demo").args(&args.args).status();
    Ok(status
        .with_context(|| program.display().to_string())?
        .success())
}

fn build(part: Part<'_>) -> anyhow::Result<()> {
    let build = ["build", "--profile", PROFILE, "-p", "perpend"];
    let mut cargo = shell::cargo(&build);
    // The C library's allocator does: ours takes a minute to build.
    cargo.arg("--no-default-features");
    // The progress bar of cargo, read here: it knows how many crates there are.
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always");
    cargo.env("CARGO_TERM_PROGRESS_WIDTH", "200");
    part.step("building the program", || {
        let mut cargo = cargo.stderr(Stdio::piped()).spawn()?;
        let said = cargo.stderr.take().context("standard error")?;
        let last = follow(said, part)?;
        anyhow::ensure!(cargo.wait()?.success(), "{}", last.join("\n"));
        Ok(())
    })
}

/// Shows how far the build is; its last lines.
fn follow(said: ChildStderr, part: Part<'_>) -> anyhow::Result<Vec<String>> {
    let mut last = VecDeque::new();
    let mut line = Vec::new();
    for byte in BufReader::new(said).bytes() {
        let byte = byte?;
        if byte != b'\n' && byte != b'\r' {
            line.push(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        match position(&text) {
            Some(position) => part.doing(position),
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
