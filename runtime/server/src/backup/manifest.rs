//! What a backup says of itself.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{self, Entry};

pub(super) const FILE: &str = "manifest.json";
/// As `sha256sum` writes it. A directory without it is not a whole backup.
pub(super) const DIGEST: &str = "manifest.sha256";
pub(super) const FORMAT: &str = "perpend-backup/1";

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// `perpend-backup/1`.
    pub format: String,
    /// The version that made it.
    pub perpend_version: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// Of the database.
    pub schema_version: i64,
    /// Where the key of the stored secrets is.
    pub secrets_key: SecretsKey,
    /// Every file but the manifest and its digest.
    pub files: Vec<Entry>,
    /// Rows by table of the database.
    pub rows: BTreeMap<String, u64>,
}

/// Where the key that encrypts stored secrets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretsKey {
    /// In the backup.
    Included,
    /// In the data directory that the backup is of, and not in the backup.
    LeftOut,
    /// In the settings of the server.
    InSettings,
    /// The server has one, and it was neither in the data directory nor in the settings of the command.
    NotFound,
    /// There was none.
    None,
}

fn digest_of(manifest: &str) -> String {
    format!("{}  {FILE}\n", Digest::of(manifest.as_bytes()))
}

impl Manifest {
    pub(super) fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        files::write(&dir.join(FILE), &text)?;
        files::write(&dir.join(DIGEST), &digest_of(&text))
    }

    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| {
            std::fs::read_to_string(dir.join(name)).with_context(|| {
                format!("{} is not a whole backup: cannot read {name}", dir.display())
            })
        };
        let (text, digest) = (read(FILE)?, read(DIGEST)?);
        ensure!(
            digest == digest_of(&text),
            "{} is damaged: {DIGEST} does not fit it",
            dir.join(FILE).display()
        );
        let damaged = || format!("{} is not a manifest", dir.join(FILE).display());
        let manifest: Self = serde_json::from_str(&text).with_context(damaged)?;
        ensure!(
            manifest.format == FORMAT,
            "{} has the format {:?}, this program reads {FORMAT:?}",
            dir.display(),
            manifest.format
        );
        Ok(manifest)
    }
}
