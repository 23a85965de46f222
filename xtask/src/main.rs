//! The command for developers and CI: `cargo xtask demo`, `check`, `debt`, `phrases`, `package`, `generate`, `pictures`, `bench`.

mod check;
mod contract;
mod crates;
mod debt;
mod demo;
mod docs;
mod editor;
mod generate;
mod package;
mod phrases;
mod pictures;
mod plugins;
mod program;
mod progress;
mod scratch;
mod setup;
mod shell;
mod tests;
mod tidy;
mod toolchains;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The command for developers and CI")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds everything and shows it: sample traces and their scores.
    Demo(demo::Args),
    /// Runs everything that CI checks.
    Check(check::Args),
    /// Counts known debt.
    Debt(debt::Args),
    /// Counts words and phrases that the text of this repository avoids; `--write` lowers their maxima.
    Phrases(phrases::Args),
    /// Builds the packages for users into `target/package`: an archive and a Python wheel.
    Package(package::Args),
    /// Writes the generated files: the references in docs/ and the bindings of the SDKs for C and Go.
    Generate,
    /// Builds the plug-ins that need toolchains of other languages and the code editor of the pages, into `target/share/perpend`.
    Plugins(plugins::Args),
    /// Visits the pages in a browser, writes a picture of each into `target/pictures`, and updates the pictures of the docs.
    Pictures,
    /// Measures the release build and prints a table; `--json FILE` also writes the figures.
    Bench {
        /// Passed on to the benchmark program; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    if let Some(code) = docs::stand_in() {
        return code;
    }
    let outcome = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Debt(args) => debt::run(&args),
        Command::Phrases(args) => phrases::run(&args),
        Command::Package(args) => package::run(&args),
        Command::Generate => generate::write(),
        Command::Plugins(args) => plugins::run(&args),
        Command::Pictures => pictures::run(),
        Command::Bench { args } => bench(&args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[String]) -> anyhow::Result<bool> {
    // The server is measured as users run it: its own process, release build.
    let built =
        shell::cargo(&["build", "--release", "-p", "perpend", "-p", "perpend-bench"]).status()?;
    if !built.success() {
        return Ok(false);
    }
    let program = shell::target_dir()?.join("release").join("perpend-bench");
    Ok(std::process::Command::new(program)
        .args(args)
        .current_dir(shell::root())
        .status()?
        .success())
}
