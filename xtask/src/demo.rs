//! `cargo xtask demo`: builds the program and, beside it, the components of other languages, and starts the demo.
//!
//! The build shares everything with `cargo xtask check`. Components that cannot be built on this machine are reported in
//! one line each; the demo then scores with the rest.

use std::thread;

use anyhow::Context;

use crate::progress::Progress;
use crate::toolchains::{Extent, Source};
use crate::{plugins, program, shell};

/// With the features and the profile of `cargo xtask check`, so that neither compiles again what the other has built.
const BUILD: &[&str] = &["--workspace", "--bin", "perpend"];

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
            let built = program::build(BUILD, progress.part("server"));
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
