//! `cargo xtask demo`: builds the program and, beside it, the components of other languages, and starts the demo.
//!
//! The build has a profile of its own, which takes half the time of a release build. What cannot be built on this
//! machine is left out, in one line; the demo then scores with the rest.

use std::thread;

use anyhow::Context;

use crate::progress::Progress;
use crate::toolchains::{Extent, Source};
use crate::{plugins, program, shell};

const PROFILE: &str = "demo";
/// Without jemalloc: it takes a minute to build, and the allocator of the C library does for a demo.
const BUILD: &[&str] = &["--profile", PROFILE, "--no-default-features"];

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
    let program = target.join(PROFILE).join("perpend");
    let mut demo = std::process::Command::new(&program);
    let status = demo.arg("demo").args(&args.args).status();
    Ok(status.with_context(|| program.display().to_string())?.success())
}
