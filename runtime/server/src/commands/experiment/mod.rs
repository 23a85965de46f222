//! `perpend experiment`: runs of experiments.

mod config;
mod run;

use std::process::ExitCode;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(super) struct ExperimentArgs {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Debug, Subcommand)]
enum ExperimentCommand {
    /// Run prompts and models, or an endpoint of an application, over a dataset, and wait for the results
    Run(run::RunArgs),
}

pub(super) fn experiment(args: ExperimentArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        ExperimentCommand::Run(args) => run::run(&args),
    }
}
