//! The cache of compiled components: files in a private folder, and sealed copies in memory that are passed to workers.
//!
//! Invariants:
//! - **The verified bytes are the mapped bytes.** Bytes are copied to an anonymous file while their checksum is computed. The
//!   file is sealed before it is shared, so that it cannot change between verification and use.
//! - **Only the server writes to the folder.** Workers and compile processes cannot access it; the output of a compile
//!   process arrives over a pipe.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_worker_protocol::artifact::{self, IntegrityError, TRAILER, TailBuilder};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use tempfile::NamedTempFile;

use crate::prune::{EXTENSION, PruneContext, PruneStats, prune};
use crate::queue::lock;

/// Maximum total size of sealed copies; the least recently used are evicted.
const MAX_SEALED_BYTES: u64 = 512 << 20;

pub(crate) struct Cache {
    folder: PathBuf,
    /// Maximum size of the folder.
    max_bytes: u64,
    /// The reason why the folder cannot be used, if any.
    usable: Result<(), String>,
    sealed: Mutex<SealedFiles>,
}

#[derive(Default)]
struct SealedFiles {
    files: HashMap<PathBuf, Entry>,
    n_bytes: u64,
    clock: u64,
}

struct Entry {
    file: Arc<File>,
    n_bytes: u64,
    last_used: u64,
}

impl Cache {
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            max_bytes,
            usable: make_private(folder),
            sealed: Mutex::default(),
        }
    }

    fn path(&self, digest: Digest, engine_key: &str) -> PathBuf {
        // The key is reported by a worker: it must not refer to a file outside the folder.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let engine_key: String = engine_key.chars().filter(|c| is_plain(*c)).take(64).collect();
        self.folder.join(format!("{digest}-{engine_key}{EXTENSION}"))
    }

    /// The sealed artifact, if a valid one exists. Blocks while a file is read.
    pub(crate) fn find(
        &self,
        digest: Digest,
        engine_key: &str,
    ) -> Result<Option<Arc<File>>, String> {
        self.usable.clone()?;
        let path = self.path(digest, engine_key);
        if let Some(file) = lock(&self.sealed).get(&path) {
            return Ok(Some(file));
        }
        match read_sealed(&path) {
            Ok(found) => Ok(found.map(|file| self.insert(path, file))),
            Err(error) => {
                // It is compiled again.
                let path = path.display();
                tracing::warn!(%path, %error, "cannot use a compiled component");
                Ok(None)
            }
        }
    }

    /// Stores a new artifact in memory and in the folder. Blocks until it is on disk.
    pub(crate) fn put(
        &self,
        digest: Digest,
        engine_key: &str,
        file: File,
    ) -> Result<Arc<File>, String> {
        self.usable.clone()?;
        let path = self.path(digest, engine_key);
        if let Err(error) = write_whole(&self.folder, &path, &file) {
            // The copy in memory is used; the next server compiles the component again.
            let path = path.display();
            tracing::error!(%path, %error, "cannot store a compiled component");
        }
        let sealed = self.insert(path, file);
        // The folder may exceed its maximum size now.
        self.prune(None, None);
        Ok(sealed)
    }

    /// Removes unneeded files from the folder. Blocks.
    pub(crate) fn prune(&self, engine_key: Option<&str>, registered: Option<&HashSet<Digest>>) {
        if self.usable.is_err() {
            return;
        }
        let in_use = lock(&self.sealed).files.keys().cloned().collect();
        let context =
            PruneContext { engine_key, registered, in_use: &in_use, max_bytes: self.max_bytes };
        match prune(&self.folder, &context) {
            Ok(PruneStats { n_files: 0, .. }) => {}
            Ok(PruneStats { n_files, n_bytes }) => {
                tracing::info!(n_files, n_bytes, "removed compiled components");
            }
            Err(error) => tracing::warn!(%error, "cannot prune the cache folder"),
        }
    }

    /// Removes an artifact that a worker rejected.
    pub(crate) fn forget(&self, digest: Digest, engine_key: &str) {
        let path = self.path(digest, engine_key);
        lock(&self.sealed).remove(&path);
        drop(fs::remove_file(path));
    }

    fn insert(&self, path: PathBuf, file: File) -> Arc<File> {
        let n_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let file = Arc::new(file);
        lock(&self.sealed).insert(path, Arc::clone(&file), n_bytes);
        file
    }
}

impl SealedFiles {
    fn get(&mut self, path: &Path) -> Option<Arc<File>> {
        self.clock += 1;
        let entry = self.files.get_mut(path)?;
        entry.last_used = self.clock;
        Some(Arc::clone(&entry.file))
    }

    fn remove(&mut self, path: &Path) {
        if let Some(entry) = self.files.remove(path) {
            self.n_bytes -= entry.n_bytes;
        }
    }

    fn insert(&mut self, path: PathBuf, file: Arc<File>, n_bytes: u64) {
        self.remove(&path);
        while MAX_SEALED_BYTES < self.n_bytes + n_bytes {
            let oldest = self.files.iter().min_by_key(|(_, entry)| entry.last_used);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.clock += 1;
        self.n_bytes += n_bytes;
        let last_used = self.clock;
        self.files.insert(path, Entry { file, n_bytes, last_used });
    }
}

/// Writes an artifact to an anonymous file.
pub(crate) struct ArtifactWriter {
    file: File,
    tail: TailBuilder,
}

impl ArtifactWriter {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { file: anonymous_file()?, tail: TailBuilder::default() })
    }

    pub(crate) fn add(&mut self, image: &[u8]) -> io::Result<()> {
        self.tail.add(image);
        self.file.write_all(image)
    }

    /// Completes and seals the artifact.
    pub(crate) fn seal(self, description: &[u8]) -> io::Result<File> {
        let Self { mut file, tail } = self;
        file.write_all(&tail.finish(description))?;
        seal(&file)?;
        Ok(file)
    }
}

/// Reads the description of a sealed artifact.
pub(crate) fn info(file: &File) -> Option<PluginInfo> {
    let length = file.metadata().ok()?.len();
    let mut trailer = [0; TRAILER];
    file.read_exact_at(&mut trailer, length.checked_sub(TRAILER as u64)?).ok()?;
    let layout = artifact::layout(length, &trailer).ok()?;
    let mut description = vec![0; layout.description];
    file.read_exact_at(&mut description, layout.image).ok()?;
    serde_json::from_slice(&description).ok()
}

/// A sealed copy of the artifact at `path`, after verification.
fn read_sealed(path: &Path) -> Result<Option<File>, IntegrityError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    // Marks the file as used, so that it is not pruned.
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let used = Timestamps { last_access: now, last_modification: now };
    let _ = futimens(&file, &used);
    let mut copy = anonymous_file()?;
    artifact::check(file.metadata()?.len(), &file, |chunk| copy.write_all(chunk))?;
    seal(&copy)?;
    Ok(Some(copy))
}

#[cfg(target_os = "linux")]
fn anonymous_file() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(memfd_create("perpend-artifact", flags)?))
}

#[cfg(target_os = "linux")]
fn seal(file: &File) -> io::Result<()> {
    use rustix::fs::{SealFlags, fcntl_add_seals};
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    Ok(fcntl_add_seals(file, seals)?)
}

/// Without seals, only processes that have the file open can change it.
#[cfg(not(target_os = "linux"))]
fn anonymous_file() -> io::Result<File> {
    tempfile::tempfile()
}

#[cfg(not(target_os = "linux"))]
fn seal(_: &File) -> io::Result<()> {
    Ok(())
}

/// Creates the folder, accessible only by its owner.
fn make_private(folder: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let refuse = |reason: &str| Err(format!("the cache folder {} {reason}", folder.display()));
    let metadata = match made.and_then(|()| fs::metadata(folder)) {
        Ok(metadata) => metadata,
        Err(error) => return refuse(&format!("cannot be used: {error}")),
    };
    if metadata.mode() & 0o022 != 0 {
        return refuse("can be written by others: set its mode to 0700");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    Ok(())
}

/// Writes a copy of `from` atomically.
fn write_whole(folder: &Path, path: &Path, from: &File) -> io::Result<()> {
    // A unique name for each writer, because servers of several machines may share the folder.
    let mut file = NamedTempFile::new_in(folder)?;
    let (mut chunk, mut at) = (vec![0; 256 << 10], 0);
    loop {
        // Not `read`, because the file position is shared with other processes.
        let n = from.read_at(&mut chunk, at)?;
        if n == 0 {
            break;
        }
        file.write_all(&chunk[..n])?;
        at += n as u64;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact() -> File {
        let mut writer = ArtifactWriter::new().unwrap();
        writer.add(b"native code").unwrap();
        writer.seal(b"{}").unwrap()
    }

    #[test]
    fn a_sealed_artifact_cannot_be_changed() {
        let file = artifact();
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(1).is_err() && file.set_len(1 << 20).is_err());
    }

    #[test]
    fn a_damaged_file_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let digest = Digest::of(b"component");
        let open = || Cache::open(&folder.path().join("cache"), u64::MAX);
        open().put(digest, "1", artifact()).unwrap();
        assert!(open().find(digest, "1").unwrap().is_some());
        assert!(open().find(digest, "2").unwrap().is_none());
        let path = open().path(digest, "1");
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(open().find(digest, "1").unwrap().is_none());
    }

    #[test]
    fn the_key_of_a_compromised_worker_cannot_refer_to_a_file_outside_the_folder() {
        let cache = {
            Cache {
                folder: "/cache".into(),
                max_bytes: u64::MAX,
                usable: Ok(()),
                sealed: Mutex::default(),
            }
        };
        let path = cache.path(Digest::of(b"x"), "../../etc/passwd\0");
        assert_eq!(path.parent(), Some(Path::new("/cache")));
    }

    #[test]
    fn a_folder_that_others_can_write_is_an_error() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Cache::open(folder.path(), u64::MAX).find(Digest::of(b"x"), "1");
        assert!(refused.unwrap_err().contains("set its mode to 0700"));
    }

    #[test]
    fn a_full_folder_is_pruned_on_insertion_and_sealed_copies_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let old = Cache::open(folder.path(), u64::MAX);
        old.put(Digest::of(b"old"), "1", artifact()).unwrap();
        let cache = Cache::open(folder.path(), 1);
        cache.put(Digest::of(b"new"), "1", artifact()).unwrap();
        assert!(!old.path(Digest::of(b"old"), "1").exists());
        assert!(old.find(Digest::of(b"old"), "1").unwrap().is_some());
        assert!(cache.path(Digest::of(b"new"), "1").exists());
    }

    #[test]
    fn the_least_recently_used_copies_are_evicted() {
        let mut sealed = SealedFiles::default();
        let file = Arc::new(artifact());
        for name in ["a", "b"] {
            sealed.insert(name.into(), Arc::clone(&file), MAX_SEALED_BYTES / 2);
        }
        assert!(sealed.get(Path::new("a")).is_some());
        sealed.insert("c".into(), Arc::clone(&file), 1);
        assert!(sealed.get(Path::new("a")).is_some());
        assert!(sealed.get(Path::new("b")).is_none());
    }
}
