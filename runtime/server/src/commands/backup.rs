//! `perpend backup` and `perpend restore`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use perpend_config::SettingArgs;
use perpend_domain::time::Clock as _;

use super::common::{load, print_line};
use super::serve;
use crate::SystemClock;
use crate::backup::{self, BackupOptions, Manifest, SecretsKey};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct BackupArgs {
    #[command(subcommand)]
    verify: Option<BackupCommand>,
    /// The directory to create; it must not exist
    #[arg(value_name = "TO", required = true)]
    to: Option<PathBuf>,
    /// Include `secrets.key`, which decrypts the stored secrets; keep such a backup secret
    #[arg(long)]
    with_keys: bool,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Compare all files of a backup with its manifest
    Verify {
        /// The directory of the backup
        #[arg(value_name = "BACKUP")]
        backup: PathBuf,
        /// Print the manifest as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// The directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Prints progress to standard error.
fn progress(line: String) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub(super) fn backup(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    if let Some(BackupCommand::Verify { backup, json }) = &args.verify {
        let manifest = serve::runtime()?.block_on(backup::verify(backup, &mut progress))?;
        return print_manifest(&manifest, *json, || {
            print_line(&format!("{} is complete.", backup.display()));
            describe(&manifest);
        });
    }
    let to = args.to.as_deref().unwrap_or(Path::new(""));
    let config = load(&args.settings)?;
    let options = BackupOptions { to, with_keys: args.with_keys, now: SystemClock.now() };
    let runtime = serve::runtime()?;
    let manifest = runtime.block_on(backup::create(&config, &options, &mut progress))?;
    if manifest.secrets_key == SecretsKey::NotFound {
        // Also with --json, because scheduled backups often lack the settings.
        progress(format!(
            "warning: no key of the stored secrets was found, neither {} nor PERPEND_SECRETS_KEY. Run this command with \
             the settings of the server, and keep a copy of the key. Without the key, the stored secrets cannot be \
             decrypted after a restore.",
            config.data_dir.join(backup::KEY).display()
        ));
    }
    print_manifest(&manifest, args.json, || {
        print_line(&format!("{} was created and verified.", to.display()));
        describe(&manifest);
        if manifest.secrets_key == SecretsKey::LeftOut {
            let key = config.data_dir.join(backup::KEY);
            print_line(&format!(
                "{} is not included. Keep a copy of this file: without it, the stored secrets, such as keys of model \
                 providers, cannot be decrypted after a restore. --with-keys includes it.",
                key.display()
            ));
        }
    })
}

pub(super) fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let config = load(&args.settings)?;
    let runtime = serve::runtime()?;
    let manifest = runtime.block_on(backup::restore(&config, &args.backup, &mut progress))?;
    print_manifest(&manifest, args.json, || {
        let data_dir = config.data_dir.display();
        print_line(&format!("{data_dir} was restored."));
        describe(&manifest);
        match manifest.secrets_key {
            SecretsKey::LeftOut | SecretsKey::NotFound => print_line(&format!(
                "The backup does not include secrets.key. Copy it to {data_dir} before you start the server, or set \
                 PERPEND_SECRETS_KEY to its text. The server does not start without it."
            )),
            SecretsKey::InSettings => {
                print_line("Start the server with the same secrets.key setting as before.");
            }
            SecretsKey::Included | SecretsKey::None => {}
        }
        print_line(&format!("Start it with: perpend serve --data-dir {data_dir}"));
    })
}

fn describe(manifest: &Manifest) {
    let n_bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let rows = |table| manifest.rows.get(table).copied().unwrap_or_default();
    print_line(&format!(
        "  created    {} by Perpend {}, schema version {}",
        manifest.created_at, manifest.perpend_version, manifest.schema_version
    ));
    print_line(&format!(
        "  size       {} MiB in {}",
        n_bytes.div_ceil(1 << 20),
        match manifest.files.len() {
            1 => "1 file".to_owned(),
            n_files => format!("{n_files} files"),
        }
    ));
    print_line(&format!(
        "  contains   {} traces, {} observations, {} scores",
        rows("traces"),
        rows("observations"),
        rows("scores")
    ));
    let key = match manifest.secrets_key {
        SecretsKey::Included => "included; keep the backup secret",
        SecretsKey::LeftOut => "not included",
        SecretsKey::InSettings => "in the settings of the server, not included",
        SecretsKey::NotFound => "not found, not included",
        SecretsKey::None => "none",
    };
    print_line(&format!("  secrets.key  {key}"));
}

fn print_manifest(
    manifest: &Manifest,
    json: bool,
    print_text: impl FnOnce(),
) -> anyhow::Result<ExitCode> {
    if json {
        print_line(&serde_json::to_string_pretty(manifest)?);
    } else {
        print_text();
    }
    Ok(ExitCode::SUCCESS)
}
