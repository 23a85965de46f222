//! Backups of an installation on SQLite: made, verified and restored.
//!
//! A backup is a directory: `perpend.db`, with leave `secrets.key`, `manifest.json`, and `manifest.sha256`, which
//! is written last.
//!
//! Invariants:
//! - **What has the name is whole.** Everything is written under another name, synchronised and checked; one
//!   rename gives it its name.
//! - **Every byte is covered.** The manifest has a digest of each file, `manifest.sha256` that of the manifest, and
//!   no other file may be there.
//! - **Nothing is replaced.** Neither a backup nor a restore writes over anything.

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
use files::Partial;

pub use files::Entry;

pub use manifest::{Manifest, SecretsKey};

/// The database, in a backup and in a data directory.
const DATABASE: &str = "perpend.db";
/// The key that encrypts stored secrets, in both.
pub const KEY: &str = "secrets.key";
/// A table whose first row is the canary of the key (`secrets`): every start makes it before any other, and a
/// restore keeps it.
const PROOF: &str = "server_secrets";
/// How often a person hears how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// Takes lines about how far it is.
pub type Progress<'p> = &'p mut dyn FnMut(String);

/// What is to be in a backup.
#[derive(Debug)]
pub struct Wanted<'w> {
    /// The backup; nothing may be there.
    pub to: &'w Path,
    /// Include the key that encrypts stored secrets.
    pub with_keys: bool,
    /// Said in the manifest.
    pub now: Timestamp,
}

fn sqlite(config: &Config, command: &str) -> anyhow::Result<PathBuf> {
    match config.database() {
        DatabaseUrl::Sqlite(path) => Ok(path),
        url @ DatabaseUrl::Postgres(_) => bail!(
            "perpend {command} is for SQLite, and --database-url names {url}: use PostgreSQL's own pg_dump and \
             pg_restore, and keep {} with the dump",
            config.data_dir.join(KEY).display()
        ),
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Writes a backup and verifies it, while a server may be running.
///
/// # Errors
/// When anything cannot be read or written, or the database is damaged; then nothing has the name of the backup.
pub async fn create(
    config: &Config,
    wanted: &Wanted<'_>,
    progress: Progress<'_>,
) -> anyhow::Result<Manifest> {
    let source = sqlite(config, "backup")?;
    ensure!(
        source.exists(),
        "there is no database {} (--data-dir, --database-url)",
        source.display()
    );
    ensure!(
        !is_there(wanted.to),
        "{} exists already: a backup replaces nothing, name another directory",
        wanted.to.display()
    );
    if wanted.with_keys {
        ensure_key_file(config)?;
    }
    let partial = Partial::beside(wanted.to)?;
    let copy = partial.path().join(DATABASE);
    copy_database(&source, &copy, config.database_wait, progress).await?;
    files::make_private(&copy)?;
    progress("checking the copy".to_owned());
    let contents = database::inspect(&copy)
        .await
        .with_context(|| format!("the copy of {} is not sound", source.display()))?;
    let mut entries = vec![files::entry(partial.path(), DATABASE)?];
    let mut secrets_key = copy_key(config, wanted.with_keys, &partial, &mut entries)?;
    if secrets_key == SecretsKey::None && contents.rows.get(PROOF).is_some_and(|n| 0 < *n) {
        // A server has a key for this database, wherever that is.
        secrets_key = SecretsKey::NotFound;
    }
    let manifest = Manifest {
        format: manifest::FORMAT.to_owned(),
        perpend_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: wanted.now,
        schema_version: contents.schema_version,
        rows: contents.rows,
        secrets_key,
        files: entries,
    };
    manifest.write(partial.path())?;
    partial.publish(wanted.to)?;
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
    let mut reports = tokio::time::interval(REPORT_EVERY);
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

/// Refuses to include a key where there is no file with it, before anything is copied.
fn ensure_key_file(config: &Config) -> anyhow::Result<()> {
    ensure!(
        config.secrets.key.is_none(),
        "--with-keys includes the file {KEY}, and here the key is in the settings (PERPEND_SECRETS_KEY): leave \
         --with-keys out, and keep a copy of the key where the settings are kept"
    );
    let file = config.data_dir.join(KEY);
    ensure!(
        file.exists(),
        "--with-keys finds no key: {} is not there. Where the server has its key in the settings \
         (PERPEND_SECRETS_KEY), run this command with them and leave --with-keys out",
        file.display()
    );
    Ok(())
}

fn copy_key(
    config: &Config,
    with_keys: bool,
    partial: &Partial,
    entries: &mut Vec<Entry>,
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

/// Reads all of a backup and compares it with what its manifest says.
///
/// # Errors
/// When a byte differs, a file is missing or too many, or the database is damaged or newer than this program.
pub async fn verify(backup: &Path, progress: Progress<'_>) -> anyhow::Result<Manifest> {
    let manifest = Manifest::read(backup)?;
    let mut there = files::below(backup)?;
    there.retain(|name| name != manifest::FILE && name != manifest::DIGEST);
    for entry in &manifest.files {
        progress(format!("reading {} ({} MiB)", entry.path, entry.bytes >> 20));
        let at = there.iter().position(|name| *name == entry.path);
        let at = at.with_context(|| format!("{} lacks {}", backup.display(), entry.path))?;
        there.swap_remove(at);
        let found = files::entry(backup, &entry.path)?;
        ensure!(
            found == *entry,
            "{} is damaged: it has {} bytes with SHA-256 {}, and the manifest says {} bytes with {}",
            backup.join(&entry.path).display(),
            found.bytes,
            found.sha256,
            entry.bytes,
            entry.sha256
        );
    }
    ensure!(
        there.is_empty(),
        "{} holds what the manifest does not name: {}",
        backup.display(),
        there.join(", ")
    );
    ensure!(
        manifest.schema_version <= SCHEMA_VERSION,
        "{} has schema version {}, this program knows up to {SCHEMA_VERSION}: it was made by Perpend {}, use that \
         version or a later one",
        backup.display(),
        manifest.schema_version,
        manifest.perpend_version
    );
    progress("checking the database".to_owned());
    let contents = database::inspect(&backup.join(DATABASE))
        .await
        .with_context(|| format!("{} is not sound", backup.join(DATABASE).display()))?;
    ensure!(
        contents.schema_version == manifest.schema_version && contents.rows == manifest.rows,
        "{} does not hold the rows that the manifest counts",
        backup.join(DATABASE).display()
    );
    Ok(manifest)
}

/// Verifies a backup and makes it the data directory of the settings. Sessions of browsers end, and leases of the
/// server that it was taken from are given back.
///
/// # Errors
/// When the backup does not verify, or the data directory is a link, a mount point or not empty; then nothing is
/// there afterwards that was not before.
pub async fn restore(
    config: &Config,
    backup: &Path,
    progress: Progress<'_>,
) -> anyhow::Result<Manifest> {
    let target = sqlite(config, "restore")?;
    let data_dir = &config.data_dir;
    ensure!(
        target == data_dir.join(DATABASE),
        "perpend restore puts the database at {}: leave --database-url out, and move the file afterwards",
        data_dir.join(DATABASE).display()
    );
    files::ensure_movable_to(data_dir)?;
    ensure_empty(data_dir)?;
    let manifest = verify(backup, progress).await?;
    let partial = Partial::beside(data_dir)?;
    for entry in &manifest.files {
        progress(format!("copying {} ({} MiB)", entry.path, entry.bytes >> 20));
        let copied = files::copy(backup, partial.path(), &entry.path)?;
        ensure!(
            copied == *entry,
            "{} changed while it was restored",
            backup.join(&entry.path).display()
        );
    }
    let copy = partial.path().join(DATABASE);
    database::begin_anew(&copy)
        .await
        .with_context(|| format!("cannot change {}", copy.display()))?;
    files::sync(&copy)?;
    // A server that was started meanwhile has a lock beside its database, so the directory is not empty.
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
        "{} is not empty, and a restore replaces nothing: name another --data-dir, or move this one away",
        data_dir.display()
    );
    Ok(())
}
