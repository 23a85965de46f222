//! Files that are copied with their digests, and a directory that gets its name last.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const STEP: usize = 1 << 20;

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// From the directory of the backup.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

/// A directory under another name than the one that it will have. Dropped before that, it is removed.
pub(super) struct Partial {
    path: PathBuf,
    is_published: bool,
}

impl Partial {
    /// Makes an empty directory beside `target`, so that a rename moves it there.
    pub(super) fn beside(target: &Path) -> anyhow::Result<Self> {
        let target = std::path::absolute(target)?;
        let named = target.parent().zip(target.file_name());
        let (parent, name) = named.with_context(|| format!("{} is no name", target.display()))?;
        let name = format!(".{}.partial-{}", name.display(), std::process::id());
        let path = parent.join(name);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make the directory {}", path.display()))?;
        Ok(Self { path, is_published: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, for good.
    pub(super) fn publish(mut self, target: &Path) -> anyhow::Result<()> {
        let target = std::path::absolute(target)?;
        for name in below(&self.path)? {
            let path = self.path.join(name);
            path.parent().map_or(Ok(()), sync)?;
        }
        sync(&self.path)?;
        // A directory takes the place of an empty one and of nothing else.
        fs::rename(&self.path, &target).with_context(|| {
            format!("cannot rename {} to {}", self.path.display(), target.display())
        })?;
        self.is_published = true;
        target.parent().map_or(Ok(()), sync)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_published
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "an unfinished copy stays behind");
        }
    }
}

/// Refuses a target that a directory made beside it cannot replace, before anything is copied there.
pub(super) fn ensure_movable_to(target: &Path) -> anyhow::Result<()> {
    // Without a slash at the end, with which a link would be followed.
    let target: PathBuf = std::path::absolute(target)?.components().collect();
    let cannot = || format!("cannot read {}", target.display());
    let found = match fs::symlink_metadata(&target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.with_context(cannot)?,
    };
    ensure!(
        !found.is_symlink(),
        "{} is a symbolic link, and a restore would take its place: name the directory that it leads to (--data-dir)",
        target.display()
    );
    if let Some(parent) = target.parent() {
        ensure!(
            found.dev() == fs::metadata(parent).with_context(cannot)?.dev(),
            "{} is a mount point, which nothing can be moved to: name a directory in it, such as {} (--data-dir)",
            target.display(),
            target.join("data").display()
        );
    }
    Ok(())
}

/// Waits until a file or a directory is on the disk.
pub(super) fn sync(path: &Path) -> anyhow::Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.with_context(|| format!("cannot write {} to the disk", path.display()))
}

pub(super) fn make_private(path: &Path) -> anyhow::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot protect {}", path.display()))
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

/// The files below a directory by their paths from it, sorted. Anything else than files and directories is refused.
pub(super) fn below(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                left.push(path);
                continue;
            }
            ensure!(kind.is_file(), "{} is not a file", path.display());
            let name = path.strip_prefix(dir)?.to_str();
            let name = name.with_context(|| format!("{} is not UTF-8", path.display()))?;
            found.push(name.to_owned());
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Size and digest of a file.
pub(super) fn entry(dir: &Path, name: &str) -> anyhow::Result<Entry> {
    read(dir, name, |_| Ok(()))
}

/// Copies a file to the same place below another directory, and waits until it is on the disk there.
pub(super) fn copy(from: &Path, to: &Path, name: &str) -> anyhow::Result<Entry> {
    let target = to.join(name);
    let cannot = || format!("cannot write {}", target.display());
    if let Some(parent) = target.parent() {
        let mut folders = fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o700).create(parent);
        made.with_context(cannot)?;
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
) -> anyhow::Result<Entry> {
    let path = dir.join(name);
    let cannot = || format!("cannot read {}", path.display());
    let mut file = File::open(&path).with_context(cannot)?;
    let mut step = vec![0; STEP];
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    loop {
        let n = file.read(&mut step).with_context(cannot)?;
        if n == 0 {
            break;
        }
        hash.update(&step[..n]);
        bytes += n as u64;
        put(&step[..n])?;
    }
    let sha256 = hash.finalize();
    Ok(Entry {
        path: name.to_owned(),
        bytes,
        sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}
