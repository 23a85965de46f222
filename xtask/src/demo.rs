//! `cargo xtask demo`: builds the program and the components of other languages at the same time, and starts the demo.
//!
//! The build shares everything with `cargo xtask check`. Components that cannot be built on this machine are reported in
//! one line each; the demo then scores with the rest.

use std::thread;

use anyhow::Context;

use crate::progress::Progress;
use crate::toolchains::{Extent, Source};
use crate::{plugins, program, shell};

/// The features and the profile of `cargo xtask check`, so that both share their build results.
const BUILD: &[&str] = &["--workspace", "--bin", "perpend"];

/// Arguments of the demo.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on to `perpend demo`, such as `--once` or `--listen 127.0.0.1:8080`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Builds outdated parts and runs the demo; `true` if it succeeded.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let target = shell::target_dir()?;
    Progress::show(|progress| {
        thread::scope(|scope| {
            let components = Source::ALL.map(|source| {
                let (task, target) = (progress.task(source.name()), &target);
                scope.spawn(move || plugins::build_all(source, Extent::Components, target, task))
            });
            let built = program::build(BUILD, progress.task("server"));
            for component in components {
                if let Err(error) = shell::joined(component) {
                    progress.line(&format!("  {error:#}"));
                }
            }
            built
        })
    })?;
    let program = target.join("debug").join("perpend");
    let mut demo = std::process::Command::new(&program);
    let status = demo.arg("demo").args(&args.args).status();
    Ok(status.with_context(|| program.display().to_string())?.success())
}
