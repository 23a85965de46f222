//! The key that an installation seals with: where it comes from, and the proof that it is the right one.
//!
//! Invariants:
//! - **A wrong key never seals.** A canary, sealed when the installation got its key, is opened at each start of
//!   each server; where it does not open, the start is refused. Otherwise a second key would come into use
//!   unnoticed, and what the first one sealed would be lost one value at a time.
//! - **A lost key is not replaced in silence.** A key is made only where nothing was sealed before; giving one up
//!   takes a command that says what is lost (`perpend secrets reset`).

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_catalog::sealed::{Sealed, SealedAt};
use perpend_config::Config;
use perpend_db::DatabaseUrl;
use perpend_domain::ids::IdSource;
use perpend_http_client::{Vault, parse_key, random_key};
use perpend_storage::Store;

const FILE: &str = "secrets.key";
/// Name of the canary among the secrets of the installation, and what it belongs to.
const CANARY: &str = "vault-canary";
const CANARY_TEXT: &str = "perpend";

/// Where the key of an installation is.
#[derive(Debug)]
pub(crate) enum Place {
    /// The setting `secrets.key`.
    Setting(String),
    /// A file in the data directory.
    File(PathBuf),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Setting(_) => f.write_str("the setting secrets.key (PERPEND_SECRETS_KEY)"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Place {
    pub(crate) fn of(config: &Config) -> Self {
        match &config.secrets.key {
            Some(key) => Self::Setting(key.clone()),
            None => Self::File(config.data_dir.join(FILE)),
        }
    }

    /// The vault with this key; none when there is no file.
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
        let key = parse_key(text).with_context(|| format!("{self} does not hold a key"))?;
        Ok(Some(Vault::new(&key)))
    }

    /// Makes a key and its file.
    fn make(&self, ids: &dyn IdSource) -> anyhow::Result<Vault> {
        let Self::File(path) = self else {
            anyhow::bail!("{self} does not hold a key");
        };
        let key = random_key(ids);
        write_private(path, &STANDARD.encode(key))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Vault::new(&key))
    }
}

/// What to warn about a key file with these permissions. Not an error: some platforms set the permissions of mounted
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

/// A new file that its owner alone can read.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
    let folder = std::fs::metadata(path.parent().unwrap_or(path))?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // Root may make it for a server that runs as another user, who could not read it.
    if rustix::process::geteuid().is_root() && folder.uid() != file.metadata()?.uid() {
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

const WAY_OUT: &str = "Start with the key that was used before: restore secrets.key in the data directory from a \
    backup, or set PERPEND_SECRETS_KEY to it; all servers on one database need the same key. If it is lost for \
    good, `perpend secrets reset` lists what cannot be read any more; with --confirm it goes on with another key";

/// The database was set up with another key, so this one sealed nothing in it.
#[derive(Debug, thiserror::Error)]
#[error("the key in {place} is not the one that this database was set up with. {}", WAY_OUT)]
struct Differs {
    place: String,
}

fn differs(place: &Place) -> Differs {
    Differs { place: place.to_string() }
}

/// Refuses to start without a database, or with one of 0 bytes, beside a key: SQLite would make a new one, and the
/// installation would seem to be empty. A first start that was killed leaves no key beside such a file, because the key is
/// made after the tables.
pub(crate) fn refuse_emptied(url: &DatabaseUrl, config: &Config) -> anyhow::Result<()> {
    let DatabaseUrl::Sqlite(database) = url else {
        return Ok(());
    };
    let key = config.data_dir.join(FILE);
    let found = std::fs::metadata(database);
    let is_missing = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    anyhow::ensure!(
        !is_missing || !key.exists(),
        "the database file {} is missing, although {} shows that this installation was in use. Correct --data-dir or \
         --database-url, or restore the file from a backup; to begin with an empty database, move secrets.key away, or \
         give its text in PERPEND_SECRETS_KEY and delete the file",
        database.display(),
        key.display()
    );
    let is_empty = found.is_ok_and(|file| file.len() == 0);
    anyhow::ensure!(
        !is_empty || !key.exists(),
        "the database file {} has 0 bytes, although {} shows that this installation was in use: something emptied \
         it. Restore it from a backup; to begin with an empty database, delete the file",
        database.display(),
        key.display()
    );
    Ok(())
}

/// The vault of this installation, with a new key on its first start.
pub(crate) async fn open(
    store: &Store,
    config: &Config,
    ids: &dyn IdSource,
) -> anyhow::Result<Vault> {
    let place = Place::of(config);
    if let Some(vault) = place.read()? {
        prove(store, &vault, &place, ids).await?;
        return Ok(vault);
    }
    let is_first = store.catalog.known_secret(CANARY).await?.is_none()
        && store.catalog.sealed_values().await?.is_empty();
    anyhow::ensure!(
        is_first,
        "{place} is missing, and this database was set up with the key in it. {WAY_OUT}"
    );
    begin(store, &place, ids).await
}

/// A new key, proved for the first time.
async fn begin(store: &Store, place: &Place, ids: &dyn IdSource) -> anyhow::Result<Vault> {
    let vault = place.make(ids)?;
    let proved = prove(store, &vault, place, ids).await;
    if let (Err(error), Place::File(path)) = (&proved, place)
        && error.is::<Differs>()
    {
        // Another server that started at the same time was first: its key counts. After any other error the canary
        // may be in the database, and the key that sealed it has to stay.
        let _ = std::fs::remove_file(path);
    }
    proved?;
    Ok(vault)
}

/// Proves that this is the key of the database, which gets its canary where it has none yet.
async fn prove(
    store: &Store,
    vault: &Vault,
    place: &Place,
    ids: &dyn IdSource,
) -> anyhow::Result<()> {
    let canary = match store.catalog.known_secret(CANARY).await? {
        Some(canary) => canary,
        None => {
            let sealed = store.catalog.sealed_values().await?;
            let lost = unreadable(vault, &sealed);
            anyhow::ensure!(opens_some(&lost, &sealed), differs(place));
            for name in lost {
                tracing::warn!("{name} was encrypted with another key and has to be entered again");
            }
            let fresh = vault.seal(CANARY, CANARY_TEXT, ids)?;
            store.catalog.secret(CANARY, || fresh).await?
        }
    };
    match vault.unseal(CANARY, &canary) {
        Ok(_) => Ok(()),
        Err(_) => Err(differs(place).into()),
    }
}

/// Whether a key may be the one of a database without a canary. One value that opens proves it: the others were
/// sealed with a key that was lost before there was a canary, and stay as lost as they are.
fn opens_some(lost: &[String], sealed: &[Sealed]) -> bool {
    sealed.is_empty() || lost.len() < sealed.len()
}

/// Names of the values that this key does not open.
fn unreadable(vault: &Vault, sealed: &[Sealed]) -> Vec<String> {
    let lost = sealed.iter().filter(|value| {
        let owner = value.at.owner(&value.project);
        vault.unseal(&owner, &value.secret).is_err()
    });
    lost.map(name).collect()
}

fn name(value: &Sealed) -> String {
    match &value.at {
        SealedAt::Connection(provider) => {
            format!("the LLM connection {provider:?} of project {}", value.project)
        }
        SealedAt::Export => format!("the key of the export of project {}", value.project),
    }
}

/// What giving up a lost key means.
#[derive(Debug)]
pub(crate) enum Reset {
    /// The key at hand is the right one.
    Fits,
    /// Another key takes over, and these values cannot be read.
    Lost(Vec<String>),
}

/// What [`reset`] would do.
pub(crate) async fn preview(store: &Store, config: &Config) -> anyhow::Result<Reset> {
    let sealed = store.catalog.sealed_values().await?;
    let canary = store.catalog.known_secret(CANARY).await?;
    let (fits, lost) = match Place::of(config).read()? {
        None => {
            let lost: Vec<_> = sealed.iter().map(name).collect();
            (canary.is_none() && lost.is_empty(), lost)
        }
        Some(vault) => {
            let lost = unreadable(&vault, &sealed);
            let fits = match canary {
                Some(canary) => vault.unseal(CANARY, &canary).is_ok(),
                None => opens_some(&lost, &sealed),
            };
            (fits, lost)
        }
    };
    Ok(if fits { Reset::Fits } else { Reset::Lost(lost) })
}

/// Makes the key at hand, or a new one, the key of the database. Values that it does not open stay as they are:
/// if the former key is found after all, another reset takes it back into use.
pub(crate) async fn reset(
    store: &Store,
    config: &Config,
    ids: &dyn IdSource,
) -> anyhow::Result<Place> {
    let place = Place::of(config);
    let vault = match place.read()? {
        Some(vault) => vault,
        None => place.make(ids)?,
    };
    let canary = vault.seal(CANARY, CANARY_TEXT, ids)?;
    store.catalog.replace_secret(CANARY, &canary).await?;
    Ok(place)
}

#[cfg(test)]
mod tests;
