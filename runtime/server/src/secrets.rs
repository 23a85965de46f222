//! The key that encrypts stored secrets: its source and the check that it belongs to the database.
//!
//! Invariants:
//! - **A wrong key is never used.** A canary value, encrypted when the key is created, is decrypted at each start of each server;
//!   if that fails, the server does not start. Otherwise values would be encrypted with different keys without notice.
//! - **A lost key is not replaced automatically.** A key is created only if there are no encrypted values. Replacing a lost key
//!   requires a command that lists the lost values (`perpend secrets reset`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_catalog::sealed::{SealedAt, SealedValue};
use perpend_config::Config;
use perpend_db::DatabaseUrl;
use perpend_domain::ids::IdSource;
use perpend_http_client::{Vault, parse_key, random_key};
use perpend_storage::Store;

const FILE: &str = "secrets.key";
/// Name of the canary in the table of server secrets, and its owner for authenticated encryption.
const CANARY: &str = "vault-canary";
const CANARY_TEXT: &str = "perpend";

/// The source of the key.
#[derive(Debug)]
pub(crate) enum KeySource {
    /// The setting `secrets.key`.
    Setting(String),
    /// A file in the data directory.
    File(PathBuf),
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Setting(_) => f.write_str("the setting secrets.key (PERPEND_SECRETS_KEY)"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl KeySource {
    pub(crate) fn of(config: &Config) -> Self {
        match &config.secrets.key {
            Some(key) => Self::Setting(key.clone()),
            None => Self::File(config.data_dir.join(FILE)),
        }
    }

    /// The vault with this key; absent if the file does not exist.
    fn read(&self) -> anyhow::Result<Option<Vault>> {
        let read;
        let text = match self {
            Self::Setting(text) => text,
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => {
                    use std::os::unix::fs::PermissionsExt as _;
                    let mode = std::fs::metadata(path)?.permissions().mode();
                    if let Some(warning) = mode_warning(path, mode) {
                        tracing::warn!("{warning}");
                    }
                    read = text;
                    &read
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).with_context(|| format!("cannot read {self}")),
            },
        };
        let key =
            parse_key(text).with_context(|| format!("{self} does not contain a valid key"))?;
        Ok(Some(Vault::new(&key)))
    }

    /// Creates a key and its file.
    fn create(&self, ids: &dyn IdSource) -> anyhow::Result<Vault> {
        let Self::File(path) = self else {
            anyhow::bail!("{self} does not contain a valid key");
        };
        let key = random_key(ids);
        write_private(path, &STANDARD.encode(key))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Vault::new(&key))
    }
}

/// A warning about the permissions of a key file. It is not an error, because some platforms set the permissions of mounted
/// volumes themselves.
fn mode_warning(path: &Path, mode: u32) -> Option<String> {
    let risk = match mode & 0o777 {
        mode if mode & 0o022 != 0 => "read or replace",
        mode if mode & 0o044 != 0 => "read",
        _ => return None,
    };
    let shown = path.display();
    Some(format!(
        "{shown} has mode {:04o}: users other than its owner may {risk} the key. Run `chmod 600 {shown}`",
        mode & 0o777
    ))
}

/// Creates a file that only its owner can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
    let folder = std::fs::metadata(path.parent().unwrap_or(path))?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // If root creates the file, the user of the server, who owns the directory, must be able to read it.
    if rustix::process::geteuid().is_root() && folder.uid() != file.metadata()?.uid() {
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

const REMEDY: &str = "Start with the previous key: restore secrets.key in the data directory from a backup, or set \
    PERPEND_SECRETS_KEY to it; all servers on one database need the same key. If the key is lost, `perpend secrets \
    reset` lists the values that cannot be decrypted; with --confirm it replaces the key";

/// The key is not that of the database.
#[derive(Debug, thiserror::Error)]
#[error("the key in {source_name} is not the key of this database. {}", REMEDY)]
struct KeyMismatch {
    source_name: String,
}

fn key_mismatch(source: &KeySource) -> KeyMismatch {
    KeyMismatch { source_name: source.to_string() }
}

/// Fails if there is a key but the database file is missing or empty, because SQLite would create an empty database. A first
/// start that was killed does not leave a key, because the key is created after the tables.
pub(crate) fn ensure_database_not_lost(url: &DatabaseUrl, config: &Config) -> anyhow::Result<()> {
    let DatabaseUrl::Sqlite(database) = url else {
        return Ok(());
    };
    let key = config.data_dir.join(FILE);
    let metadata = std::fs::metadata(database);
    let is_missing = metadata.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    anyhow::ensure!(
        !is_missing || !key.exists(),
        "the database file {} is missing, but {} exists, so this installation was in use. Correct --data-dir or \
         --database-url, or restore the file from a backup; to start with an empty database, move secrets.key away, or \
         set PERPEND_SECRETS_KEY to its text and delete the file",
        database.display(),
        key.display()
    );
    let is_empty = metadata.is_ok_and(|file| file.len() == 0);
    anyhow::ensure!(
        !is_empty || !key.exists(),
        "the database file {} has 0 bytes, but {} exists, so this installation was in use. Restore the \
         database from a backup; to start with an empty database, delete the file",
        database.display(),
        key.display()
    );
    Ok(())
}

/// The vault of this installation; the first start creates the key.
pub(crate) async fn open(
    store: &Store,
    config: &Config,
    ids: &dyn IdSource,
) -> anyhow::Result<Vault> {
    let source = KeySource::of(config);
    if let Some(vault) = source.read()? {
        verify_key(store, &vault, &source, ids).await?;
        return Ok(vault);
    }
    let is_first = store.catalog.existing_secret(CANARY).await?.is_none()
        && store.catalog.sealed_values().await?.is_empty();
    anyhow::ensure!(
        is_first,
        "{source} is missing, and the key of this database was in it. {REMEDY}"
    );
    create_key(store, &source, ids).await
}

/// Creates a key and its canary.
async fn create_key(
    store: &Store,
    source: &KeySource,
    ids: &dyn IdSource,
) -> anyhow::Result<Vault> {
    let vault = source.create(ids)?;
    let verified = verify_key(store, &vault, source, ids).await;
    if let (Err(error), KeySource::File(path)) = (&verified, source)
        && error.is::<KeyMismatch>()
    {
        // Another server created its key at the same time, so this one is unused. After any other error, the canary may be
        // stored, so the key is kept.
        let _ = std::fs::remove_file(path);
    }
    verified?;
    Ok(vault)
}

/// Checks that this is the key of the database; stores the canary if there is none.
async fn verify_key(
    store: &Store,
    vault: &Vault,
    source: &KeySource,
    ids: &dyn IdSource,
) -> anyhow::Result<()> {
    let canary = match store.catalog.existing_secret(CANARY).await? {
        Some(canary) => canary,
        None => {
            let sealed = store.catalog.sealed_values().await?;
            let lost = unreadable(vault, &sealed);
            anyhow::ensure!(decrypts_some(&lost, &sealed), key_mismatch(source));
            for name in lost {
                tracing::warn!("{name} was encrypted with another key and must be entered again");
            }
            let new = vault.seal(CANARY, CANARY_TEXT, ids)?;
            store.catalog.secret(CANARY, || new).await?
        }
    };
    match vault.unseal(CANARY, &canary) {
        Ok(_) => Ok(()),
        Err(_) => Err(key_mismatch(source).into()),
    }
}

/// Whether the key may be that of a database without a canary. One decrypted value is sufficient: the others were encrypted with
/// an earlier key.
fn decrypts_some(lost: &[String], sealed: &[SealedValue]) -> bool {
    sealed.is_empty() || lost.len() < sealed.len()
}

/// Names of the values that this key does not decrypt.
fn unreadable(vault: &Vault, sealed: &[SealedValue]) -> Vec<String> {
    let lost = sealed.iter().filter(|value| {
        let owner = value.at.owner(&value.project);
        vault.unseal(&owner, &value.secret).is_err()
    });
    lost.map(name).collect()
}

fn name(value: &SealedValue) -> String {
    match &value.at {
        SealedAt::Connection(provider) => {
            format!("the LLM connection {provider:?} of project {}", value.project)
        }
        SealedAt::Export => format!("the key of the export of project {}", value.project),
        SealedAt::Endpoint(experiment) => format!(
            "the secret of the endpoint of experiment {experiment} of project {}",
            value.project
        ),
    }
}

/// The effect of [`reset`].
#[derive(Debug)]
pub(crate) enum ResetEffect {
    /// The current key is that of the database.
    KeyMatches,
    /// The key is replaced, and these values are lost.
    Lost(Vec<String>),
}

/// The effect of [`reset`], without changes.
pub(crate) async fn preview(store: &Store, config: &Config) -> anyhow::Result<ResetEffect> {
    let sealed = store.catalog.sealed_values().await?;
    let canary = store.catalog.existing_secret(CANARY).await?;
    let (matches, lost) = match KeySource::of(config).read()? {
        None => {
            let lost: Vec<_> = sealed.iter().map(name).collect();
            (canary.is_none() && lost.is_empty(), lost)
        }
        Some(vault) => {
            let lost = unreadable(&vault, &sealed);
            let matches = match canary {
                Some(canary) => vault.unseal(CANARY, &canary).is_ok(),
                None => decrypts_some(&lost, &sealed),
            };
            (matches, lost)
        }
    };
    Ok(if matches { ResetEffect::KeyMatches } else { ResetEffect::Lost(lost) })
}

/// Makes the current key, or a new one, the key of the database. Values that it does not decrypt are kept, so that another reset
/// can return to the previous key.
pub(crate) async fn reset(
    store: &Store,
    config: &Config,
    ids: &dyn IdSource,
) -> anyhow::Result<KeySource> {
    let source = KeySource::of(config);
    let vault = match source.read()? {
        Some(vault) => vault,
        None => source.create(ids)?,
    };
    let canary = vault.seal(CANARY, CANARY_TEXT, ids)?;
    store.catalog.replace_secret(CANARY, &canary).await?;
    Ok(source)
}

#[cfg(test)]
mod tests;
