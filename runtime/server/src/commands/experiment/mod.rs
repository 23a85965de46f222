//! `perpend experiment`: runs of experiments.

mod config;
mod read;
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
    /// List runs, latest activity first
    List(read::ListArgs),
    /// Print the scores and figures of a run, or the results of its items
    Show(read::ShowArgs),
    /// Compare runs with a baseline: differences, verdicts and the largest regressions
    Compare(read::CompareArgs),
    /// Run prompts and models, or an endpoint of an application, over a dataset, and wait for the results
    Run(run::RunArgs),
    /// Call the failed items of a run again and wait for the results
    Retry(run::RetryArgs),
}

pub(super) fn experiment(args: ExperimentArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        ExperimentCommand::List(args) => read::list(&args),
        ExperimentCommand::Show(args) => read::show(&args),
        ExperimentCommand::Compare(args) => read::compare(&args),
        ExperimentCommand::Run(args) => run::run(&args),
        ExperimentCommand::Retry(args) => run::retry(&args),
    }
}
