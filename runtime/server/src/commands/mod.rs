//! The commands of the `perpend` program.

mod audit;
mod backfill;
mod backtest;
mod backup;
mod common;
mod dataset;
mod demo;
mod docs;
mod experiment;
mod experiments_remote;
mod gate;
mod judge;
mod keys;
mod log;
mod organization_key;
mod otlp;
mod plugin;
mod plugin_add;
mod plugin_remote;
mod reset_link;
mod secrets;
mod serve;
mod wait;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use perpend_config::SettingArgs;
use perpend_domain::bundle::Bundle;

/// Observability and evaluation of LLM applications
#[derive(Debug, Parser)]
#[command(name = "perpend", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server
    Serve {
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Start a server with a new database, send sample traces and print their scores
    Demo(demo::DemoArgs),
    /// Create or revoke a key pair that manages an organization: its projects, their keys and its members
    OrganizationKey {
        /// Name or id of the organization; required only if there are several
        #[arg(long, value_name = "NAME")]
        organization: Option<String>,
        /// Note shown in the list of keys
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Revoke the key pair with this public key instead of creating one
        #[arg(long, value_name = "PUBLIC_KEY", conflicts_with_all = ["organization", "note"])]
        revoke: Option<String>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// List, create, rotate and revoke key pairs
    Keys {
        #[command(subcommand)]
        command: keys::KeysCommand,
    },
    /// Verify the audit trail
    Audit {
        #[command(subcommand)]
        command: audit::AuditCommand,
    },
    /// Print a one-time link that sets the password of an account
    ResetLink {
        /// E-mail address of the account
        email: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Manage the key that encrypts stored secrets
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Back up the database of an installation to a directory; the server may be running
    Backup(backup::BackupArgs),
    /// Create a data directory from a backup
    Restore(backup::RestoreArgs),
    /// Create, build, check, run, test, benchmark and register plug-ins
    Plugin(plugin::PluginArgs),
    /// Check evaluators against human labels
    Judge(judge::JudgeArgs),
    /// Run experiments over datasets, list and compare runs
    Experiment(experiment::ExperimentArgs),
    /// Apply a rule to stored traces, observations or sessions
    Backfill(backfill::BackfillArgs),
    /// Compare a version of an evaluator with its live scores
    Backtest(backtest::BacktestArgs),
    /// Check a run against requirements and a baseline
    Gate(gate::GateArgs),
    /// Import and export the items of datasets
    Dataset(dataset::DatasetArgs),
    /// Inspect OTLP payloads
    Otlp {
        #[command(subcommand)]
        command: OtlpCommand,
    },
    /// Print a generated reference page
    Docs {
        /// The page
        #[arg(value_enum)]
        page: docs::Page,
    },
    /// Internal: run evaluators for a server
    #[command(hide = true)]
    Worker,
    /// Internal: compile a component for a server
    #[command(hide = true)]
    Compile,
    /// Internal: validate values against schemas for a server
    #[command(hide = true)]
    Check,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Replace a lost key. Lists the secrets that are lost with it, and changes nothing without --confirm
    Reset {
        /// Replace the key; secrets encrypted with the previous key are lost
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

#[derive(Debug, Subcommand)]
enum OtlpCommand {
    /// Print the traces in a payload
    Show {
        /// A request body: protobuf, or JSON if the name ends in .json
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The command line. Exit status 2 of a gate means undecided, so its wrong usage has another one.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let is_gate = std::env::args_os().nth(1).is_some_and(|name| name == "gate");
        if is_gate && error.use_stderr() {
            let _ = error.print();
            std::process::exit(i32::from(gate::UNUSABLE));
        }
        error.exit()
    })
}

/// Entry point of the program with these embedded plug-ins.
#[must_use]
pub fn main(bundle: Bundle) -> ExitCode {
    // Child processes of a server start without runtime, settings and environment.
    let outcome = match parsed().command {
        Command::Worker => return perpend_sandbox::worker_main(),
        Command::Compile => return perpend_sandbox::compile_main(),
        Command::Check => return perpend_sandbox::check_main(),
        Command::Serve { settings } => serve::serve(&settings, bundle),
        Command::OrganizationKey { organization, note, revoke: None, settings } => {
            organization_key::create(&settings, organization.as_deref(), note)
        }
        Command::OrganizationKey { revoke: Some(public_key), settings, .. } => {
            organization_key::revoke(&settings, &public_key)
        }
        Command::Keys { command } => keys::keys(&command),
        Command::Audit { command } => audit::audit(&command),
        Command::Secrets { command: SecretsCommand::Reset { confirm, settings } } => {
            secrets::reset(&settings, confirm)
        }
        Command::ResetLink { email, settings } => reset_link::create(&settings, &email),
        Command::Demo(args) => demo::demo(args, bundle),
        Command::Otlp { command: OtlpCommand::Show { file, json } } => otlp::show(&file, json),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Plugin(args) => plugin::plugin(args, bundle),
        Command::Judge(args) => judge::judge(args),
        Command::Dataset(args) => dataset::dataset(&args),
        Command::Experiment(args) => experiment::experiment(args),
        Command::Backfill(args) => backfill::backfill(&args),
        Command::Backtest(args) => backtest::backtest(&args),
        Command::Gate(args) => gate::gate(&args),
        Command::Docs { page } => docs::print(page),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // One line with the chain of causes.
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
            ExitCode::FAILURE
        }
    }
}
