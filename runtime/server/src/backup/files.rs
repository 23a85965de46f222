//! Copies of files with digests, and directories that are renamed to their final name when complete.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileEntry {
    /// Path relative to the directory of the backup.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// SHA-256 digest, hexadecimal.
    pub sha256: String,
}

/// A directory with a temporary name, which is removed on drop unless it was published.
pub(super) struct PartialDirectory {
    path: PathBuf,
    is_published: bool,
}

impl PartialDirectory {
    /// Creates an empty directory next to `target`, so that a rename can move it there.
    pub(super) fn next_to(target: &Path) -> anyhow::Result<Self> {
        let target = std::path::absolute(target)?;
        let parts = target.parent().zip(target.file_name());
        let (parent, name) =
            parts.with_context(|| format!("{} has no parent directory", target.display()))?;
        let name = format!(".{}.partial-{}", name.display(), std::process::id());
        let path = parent.join(name);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        Ok(Self { path, is_published: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to `target`.
    pub(super) fn publish(mut self, target: &Path) -> anyhow::Result<()> {
        let target = std::path::absolute(target)?;
        for name in list(&self.path)? {
            let path = self.path.join(name);
            path.parent().map_or(Ok(()), sync)?;
        }
        sync(&self.path)?;
        // A rename replaces an empty directory and nothing else.
        fs::rename(&self.path, &target).with_context(|| {
            format!("cannot rename {} to {}", self.path.display(), target.display())
        })?;
        self.is_published = true;
        target.parent().map_or(Ok(()), sync)
    }
}

impl Drop for PartialDirectory {
    fn drop(&mut self) {
        if !self.is_published
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "removing an incomplete copy failed");
        }
    }
}

/// Fails if a directory created next to the target cannot be renamed to it. Called before anything is copied.
pub(super) fn ensure_replaceable(target: &Path) -> anyhow::Result<()> {
    // Without a slash at the end, which would follow a symbolic link.
    let target: PathBuf = std::path::absolute(target)?.components().collect();
    let cannot = || format!("cannot read {}", target.display());
    let metadata = match fs::symlink_metadata(&target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.with_context(cannot)?,
    };
    ensure!(
        !metadata.is_symlink(),
        "{} is a symbolic link, which a restore would replace; use the directory that it points to (--data-dir)",
        target.display()
    );
    if let Some(parent) = target.parent() {
        ensure!(
            metadata.dev() == fs::metadata(parent).with_context(cannot)?.dev(),
            "{} is a mount point, which cannot be replaced; use a directory in it, such as {} (--data-dir)",
            target.display(),
            target.join("data").display()
        );
    }
    Ok(())
}

/// Flushes a file or a directory to the disk.
pub(super) fn sync(path: &Path) -> anyhow::Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.with_context(|| format!("cannot flush {} to the disk", path.display()))
}

pub(super) fn make_private(path: &Path) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot set the permissions of {}", path.display()))
}

fn create(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600).open(path)
}

pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Relative paths of the files in a directory, sorted.
///
/// # Errors
/// If there is anything other than files and directories.
pub(super) fn list(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut remaining = vec![dir.to_owned()];
    while let Some(folder) = remaining.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                remaining.push(path);
                continue;
            }
            ensure!(kind.is_file(), "{} is not a file", path.display());
            let name = path.strip_prefix(dir)?.to_str();
            let name = name.with_context(|| format!("{} is not UTF-8", path.display()))?;
            paths.push(name.to_owned());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Size and digest of a file.
pub(super) fn entry(dir: &Path, name: &str) -> anyhow::Result<FileEntry> {
    read(dir, name, |_| Ok(()))
}

/// Copies a file to the same relative path in another directory and flushes it to the disk.
pub(super) fn copy(from: &Path, to: &Path, name: &str) -> anyhow::Result<FileEntry> {
    let target = to.join(name);
    let cannot = || format!("cannot write {}", target.display());
    if let Some(parent) = target.parent() {
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true).mode(0o700).create(parent).with_context(cannot)?;
    }
    let mut copy = create(&target).with_context(cannot)?;
    let entry = read(from, name, |bytes| copy.write_all(bytes).with_context(cannot))?;
    copy.sync_all().with_context(cannot)?;
    Ok(entry)
}

fn read(
    dir: &Path,
    name: &str,
    mut put: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<FileEntry> {
    let path = dir.join(name);
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(&path).with_context(cannot)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    loop {
        let n = file.read(&mut buffer).with_context(cannot)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        bytes += n as u64;
        put(&buffer[..n])?;
    }
    let sha256 = hash.finalize();
    Ok(FileEntry {
        path: name.to_owned(),
        bytes,
        sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}
