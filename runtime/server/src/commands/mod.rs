//! What the `perpend` program does.

mod backup;
mod demo;
mod docs;
mod judge;
mod kit;
mod log;
mod organization_key;
mod otlp;
mod plugin;
mod plugin_add;
mod plugin_remote;
mod secrets;
mod serve;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use perpend_config::SettingArgs;
use perpend_domain::bundle::Bundle;

/// Records what LLM applications do, and scores it.
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
    /// Start a server on a fresh database, send it sample traces and show their scores
    Demo(demo::DemoArgs),
    /// Make a key pair that manages an organization (its projects, their keys and its members), or take
    /// one away
    OrganizationKey {
        /// Its name or id; needed only where there are several
        #[arg(long, value_name = "NAME")]
        organization: Option<String>,
        /// For people, in the list of keys
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// Make none: take away the pair with this public half
        #[arg(long, value_name = "PUBLIC_KEY", conflicts_with_all = ["organization", "note"])]
        revoke: Option<String>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Look after the key that encrypts stored secrets
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Copy the database of an installation to a directory, while its server may be running
    Backup(backup::BackupArgs),
    /// Make a data directory out of a backup
    Restore(backup::RestoreArgs),
    /// Make, build, check, try, test, measure and register plug-ins
    Plugin(plugin::PluginArgs),
    /// Look after evaluators that judge
    Judge(judge::JudgeArgs),
    /// Look into OTLP payloads
    Otlp {
        #[command(subcommand)]
        command: OtlpCommand,
    },
    /// Print the reference pages that are generated from the code
    Docs {
        /// Which page
        #[arg(value_enum)]
        page: docs::Page,
    },
    /// Run evaluators for a server; started by it
    #[command(hide = true)]
    Worker,
    /// Compile a component for a server; started by it
    #[command(hide = true)]
    Compile,
    /// Hold values against schemas for a server; started by it
    #[command(hide = true)]
    Check,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Go on with another key after the former one was lost. Lists the secrets that are lost with it, and
    /// changes nothing without --confirm
    Reset {
        /// Give up what was encrypted with the former key
        #[arg(long)]
        confirm: bool,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

#[derive(Debug, Subcommand)]
enum OtlpCommand {
    /// Print the traces that a payload becomes
    Show {
        /// A request body: protobuf, or JSON when the name ends in .json
        file: PathBuf,
        /// Print JSON with the field names of the mapping fixtures
        #[arg(long)]
        json: bool,
    },
}

/// Runs the program, which brings these plug-ins.
#[must_use]
pub fn main(bundle: Bundle) -> ExitCode {
    // The children of a server take their own way: no runtime, no settings, no environment.
    let outcome = match Cli::parse().command {
        Command::Worker => return perpend_sandbox::worker_main(),
        Command::Compile => return perpend_sandbox::compile_main(),
        Command::Check => return perpend_sandbox::check_main(),
        Command::Serve { settings } => serve::serve(&settings, bundle),
        Command::OrganizationKey { organization, note, revoke: None, settings } => {
            organization_key::make(&settings, organization.as_deref(), note)
        }
        Command::OrganizationKey { revoke: Some(public_key), settings, .. } => {
            organization_key::revoke(&settings, &public_key)
        }
        Command::Secrets { command: SecretsCommand::Reset { confirm, settings } } => {
            secrets::reset(&settings, confirm)
        }
        Command::Demo(args) => demo::demo(args, bundle),
        Command::Otlp { command: OtlpCommand::Show { file, json } } => otlp::show(&file, json),
        Command::Backup(args) => backup::backup(&args),
        Command::Restore(args) => backup::restore(&args),
        Command::Plugin(args) => plugin::plugin(args, bundle),
        Command::Judge(args) => judge::judge(args),
        Command::Docs { page } => docs::print(page),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // One line: what, and why.
            let _ = writeln!(std::io::stderr(), "perpend: {error:#}");
            ExitCode::FAILURE
        }
    }
}
