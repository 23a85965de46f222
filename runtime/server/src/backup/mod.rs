//! Backups of an installation on SQLite: creation, verification and restore.
//!
//! A backup is a directory with `perpend.db`, optionally `secrets.key`, `manifest.json`, and `manifest.sha256`, which is written
//! last.
//!
//! Invariants:
//! - **A backup is complete.** All files are written to a temporary directory, flushed and checked. One rename gives it the final
//!   name.
//! - **Every byte is covered.** The manifest has a digest of each file, `manifest.sha256` that of the manifest, and there are no
//!   other files.
//! - **Nothing is overwritten**, neither by a backup nor by a restore.

mod files;
mod manifest;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use perpend_config::Config;
use perpend_db::DatabaseUrl;
use perpend_domain::time::Timestamp;
use perpend_storage::backup::{self as database, SCHEMA_VERSION};

use crate::lock::Lock;
use files::PartialDirectory;

pub use files::FileEntry;

pub use manifest::{Manifest, SecretsKey};

/// File name of the database, in a backup and in a data directory.
const DATABASE: &str = "perpend.db";
/// File name of the key that encrypts stored secrets, in both.
pub const KEY: &str = "secrets.key";
/// The table with the canary of the key (`secrets`). A row shows that the database has a key.
const CANARY_TABLE: &str = "server_secrets";
/// Interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// Receives progress messages.
pub type Progress<'p> = &'p mut dyn FnMut(String);

/// Options of a backup.
#[derive(Debug)]
pub struct BackupOptions<'a> {
    /// Directory to create; it must not exist.
    pub to: &'a Path,
    /// Whether to include the key that encrypts stored secrets.
    pub with_keys: bool,
    /// Time of the backup, for the manifest.
    pub now: Timestamp,
}

fn sqlite(config: &Config, command: &str) -> anyhow::Result<PathBuf> {
    match config.database() {
        DatabaseUrl::Sqlite(path) => Ok(path),
        url @ DatabaseUrl::Postgres(_) => bail!(
            "perpend {command} supports SQLite only, got --database-url {url}; use pg_dump and pg_restore of PostgreSQL, \
             and keep {} with the dump",
            config.data_dir.join(KEY).display()
        ),
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates a backup and verifies it; a server may be running.
///
/// # Errors
/// If a file cannot be read or written, or the database is damaged. The directory is not created then.
pub async fn create(
    config: &Config,
    options: &BackupOptions<'_>,
    progress: Progress<'_>,
) -> anyhow::Result<Manifest> {
    let source = sqlite(config, "backup")?;
    ensure!(
        source.exists(),
        "the database {} does not exist (--data-dir, --database-url)",
        source.display()
    );
    ensure!(!exists(options.to), "{} already exists; use another directory", options.to.display());
    if options.with_keys {
        ensure_key_file(config)?;
    }
    let partial = PartialDirectory::next_to(options.to)?;
    let copy = partial.path().join(DATABASE);
    copy_database(&source, &copy, config.database_wait, progress).await?;
    files::make_private(&copy)?;
    progress("checking the copy".to_owned());
    let contents = database::inspect(&copy)
        .await
        .with_context(|| format!("the copy of {} is damaged", source.display()))?;
    let mut entries = vec![files::entry(partial.path(), DATABASE)?];
    let mut secrets_key = copy_key(config, options.with_keys, &partial, &mut entries)?;
    if secrets_key == SecretsKey::None && contents.rows.get(CANARY_TABLE).is_some_and(|n| 0 < *n) {
        // The database has a key elsewhere.
        secrets_key = SecretsKey::NotFound;
    }
    let manifest = Manifest {
        format: manifest::FORMAT.to_owned(),
        perpend_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: options.now,
        schema_version: contents.schema_version,
        rows: contents.rows,
        secrets_key,
        files: entries,
    };
    manifest.write(partial.path())?;
    partial.publish(options.to)?;
    Ok(manifest)
}

async fn copy_database(
    source: &Path,
    copy: &Path,
    wait: Duration,
    progress: Progress<'_>,
) -> anyhow::Result<()> {
    let copying = database::copy(source, copy, wait);
    tokio::pin!(copying);
    let mut reports = tokio::time::interval(PROGRESS_INTERVAL);
    let size = |path: &Path| path.metadata().map_or(0, |file| file.len() >> 20);
    let copied = loop {
        tokio::select! {
            copied = &mut copying => break copied,
            _ = reports.tick() => progress(format!(
                "copying the database: {} MiB of at most {} MiB",
                size(copy),
                size(source)
            )),
        }
    };
    copied.with_context(|| format!("cannot copy {} to {}", source.display(), copy.display()))?;
    files::sync(copy)
}

/// Fails if there is no key file to include. Called before anything is copied.
fn ensure_key_file(config: &Config) -> anyhow::Result<()> {
    ensure!(
        config.secrets.key.is_none(),
        "--with-keys includes the file {KEY}, but the key is in the settings (PERPEND_SECRETS_KEY); omit --with-keys, and \
         keep a copy of the settings"
    );
    let file = config.data_dir.join(KEY);
    ensure!(
        file.exists(),
        "--with-keys requires the file {}, which does not exist. If the key of the server is in the settings \
         (PERPEND_SECRETS_KEY), run this command with these settings and without --with-keys",
        file.display()
    );
    Ok(())
}

fn copy_key(
    config: &Config,
    with_keys: bool,
    partial: &PartialDirectory,
    entries: &mut Vec<FileEntry>,
) -> anyhow::Result<SecretsKey> {
    if config.secrets.key.is_some() {
        return Ok(SecretsKey::InSettings);
    }
    if !config.data_dir.join(KEY).exists() {
        return Ok(SecretsKey::None);
    }
    if !with_keys {
        return Ok(SecretsKey::LeftOut);
    }
    entries.push(files::copy(&config.data_dir, partial.path(), KEY)?);
    Ok(SecretsKey::Included)
}

/// Reads a complete backup and compares it with its manifest.
///
/// # Errors
/// If a file differs, is missing or not in the manifest, or the database is damaged or newer than this program.
pub async fn verify(backup: &Path, progress: Progress<'_>) -> anyhow::Result<Manifest> {
    let manifest = Manifest::read(backup)?;
    let mut unlisted = files::list(backup)?;
    unlisted.retain(|name| name != manifest::FILE && name != manifest::DIGEST);
    for entry in &manifest.files {
        progress(format!("reading {} ({} MiB)", entry.path, entry.bytes >> 20));
        let at = unlisted.iter().position(|name| *name == entry.path);
        let at =
            at.with_context(|| format!("{} does not contain {}", backup.display(), entry.path))?;
        unlisted.swap_remove(at);
        let found = files::entry(backup, &entry.path)?;
        ensure!(
            found == *entry,
            "{} is damaged: it has {} bytes with SHA-256 {}, expected {} bytes with {}",
            backup.join(&entry.path).display(),
            found.bytes,
            found.sha256,
            entry.bytes,
            entry.sha256
        );
    }
    ensure!(
        unlisted.is_empty(),
        "{} contains files that are not in the manifest: {}",
        backup.display(),
        unlisted.join(", ")
    );
    ensure!(
        manifest.schema_version <= SCHEMA_VERSION,
        "{} has schema version {}, this program supports up to {SCHEMA_VERSION}; use Perpend {}, which created it, or \
         later",
        backup.display(),
        manifest.schema_version,
        manifest.perpend_version
    );
    progress("checking the database".to_owned());
    let contents = database::inspect(&backup.join(DATABASE))
        .await
        .with_context(|| format!("{} is damaged", backup.join(DATABASE).display()))?;
    ensure!(
        contents.schema_version == manifest.schema_version && contents.rows == manifest.rows,
        "{} does not have the number of rows in the manifest",
        backup.join(DATABASE).display()
    );
    Ok(manifest)
}

/// Verifies a backup and copies it to the data directory of the settings. Browser sessions in it are ended, and leases of its
/// server are released.
///
/// # Errors
/// If the backup is invalid, or the data directory is a symbolic link, a mount point or not empty. Nothing is created then.
pub async fn restore(
    config: &Config,
    backup: &Path,
    progress: Progress<'_>,
) -> anyhow::Result<Manifest> {
    let target = sqlite(config, "restore")?;
    let data_dir = &config.data_dir;
    ensure!(
        target == data_dir.join(DATABASE),
        "perpend restore creates the database at {}; omit --database-url, and move the file afterwards",
        data_dir.join(DATABASE).display()
    );
    files::ensure_replaceable(data_dir)?;
    ensure_empty(data_dir)?;
    let manifest = verify(backup, progress).await?;
    let partial = PartialDirectory::next_to(data_dir)?;
    for entry in &manifest.files {
        progress(format!("copying {} ({} MiB)", entry.path, entry.bytes >> 20));
        let copied = files::copy(backup, partial.path(), &entry.path)?;
        ensure!(
            copied == *entry,
            "{} changed during the restore",
            backup.join(&entry.path).display()
        );
    }
    let copy = partial.path().join(DATABASE);
    database::begin_anew(&copy)
        .await
        .with_context(|| format!("cannot change {}", copy.display()))?;
    files::sync(&copy)?;
    // If a server was started in the meantime, its lock file is in the directory, which is then not empty.
    let _lock = Lock::take(&copy)?;
    ensure_empty(data_dir)?;
    partial.publish(data_dir)?;
    Ok(manifest)
}

fn ensure_empty(data_dir: &Path) -> anyhow::Result<()> {
    let is_empty = match std::fs::read_dir(data_dir) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", data_dir.display()));
        }
    };
    ensure!(
        is_empty,
        "{} is not empty; use another --data-dir, or move this one away",
        data_dir.display()
    );
    Ok(())
}
