//! The manifest of a backup.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::files::{self, FileEntry};

pub(super) const FILE: &str = "manifest.json";
/// In the format of `sha256sum`. A directory without it is not a complete backup.
pub(super) const DIGEST: &str = "manifest.sha256";
pub(super) const FORMAT: &str = "perpend-backup/1";

/// Describes the contents of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// `perpend-backup/1`.
    pub format: String,
    /// The version of Perpend that created the backup.
    pub perpend_version: String,
    /// When the backup was started.
    pub created_at: Timestamp,
    /// Schema version of the database.
    pub schema_version: i64,
    /// Where the key of the stored secrets is.
    pub secrets_key: SecretsKey,
    /// All files except the manifest and its digest.
    pub files: Vec<FileEntry>,
    /// Number of rows by table.
    pub rows: BTreeMap<String, u64>,
}

/// Where the key that encrypts stored secrets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SecretsKey {
    /// In the backup.
    Included,
    /// Only in the data directory of the server.
    LeftOut,
    /// In the settings of the server.
    InSettings,
    /// The database has a key, but it is neither in the data directory nor in the settings of the command.
    NotFound,
    /// The installation has no key yet.
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
                format!("{} is not a complete backup: cannot read {name}", dir.display())
            })
        };
        let (text, digest) = (read(FILE)?, read(DIGEST)?);
        ensure!(
            digest == digest_of(&text),
            "{} is damaged: it does not match {DIGEST}",
            dir.join(FILE).display()
        );
        let invalid = || format!("{} is not a valid manifest", dir.join(FILE).display());
        let manifest: Self = serde_json::from_str(&text).with_context(invalid)?;
        ensure!(
            manifest.format == FORMAT,
            "{} has the format {:?}, expected {FORMAT:?}",
            dir.display(),
            manifest.format
        );
        Ok(manifest)
    }
}
