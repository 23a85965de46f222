//! Compiled components as the server keeps them: files in a folder of its own, and sealed copies in memory
//! that workers are handed.
//!
//! Invariants:
//! - **What was checked is what is mapped.** Bytes are copied into a file without a name while their sum is
//!   taken; it is sealed before anybody else sees it, so nothing can change between the check and the
//!   last use.
//! - **Only the server writes here.** Workers and compilers reach no folder; what a compiler makes comes
//!   over its pipe.

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

use crate::prune::{EXTENSION, Known, Pruned, prune};
use crate::queue::lock;

/// Sealed copies that are kept, together; over this the ones that were asked for least recently go.
const MAX_SEALED_BYTES: u64 = 512 << 20;

pub(crate) struct Cache {
    folder: PathBuf,
    /// What the folder may hold.
    max_bytes: u64,
    /// Nothing, or why the folder cannot be used.
    safe: Result<(), String>,
    sealed: Mutex<Sealed>,
}

#[derive(Default)]
struct Sealed {
    files: HashMap<PathBuf, Entry>,
    n_bytes: u64,
    n_asked: u64,
}

struct Entry {
    file: Arc<File>,
    n_bytes: u64,
    asked: u64,
}

impl Cache {
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            max_bytes,
            safe: make_private(folder),
            sealed: Mutex::default(),
        }
    }

    fn path(&self, digest: Digest, engine_key: &str) -> PathBuf {
        // The key comes from a worker: it names a file in the folder and nothing else.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let engine_key: String = engine_key.chars().filter(|c| is_plain(*c)).take(64).collect();
        self.folder.join(format!("{digest}-{engine_key}{EXTENSION}"))
    }

    /// The sealed artifact, where there is a sound one. Blocks while a file is read.
    pub(crate) fn find(
        &self,
        digest: Digest,
        engine_key: &str,
    ) -> Result<Option<Arc<File>>, String> {
        self.safe.clone()?;
        let path = self.path(digest, engine_key);
        if let Some(file) = lock(&self.sealed).get(&path) {
            return Ok(Some(file));
        }
        match read_sealed(&path) {
            Ok(found) => Ok(found.map(|file| self.keep(path, file))),
            Err(error) => {
                // It is made again.
                let path = path.display();
                tracing::warn!(%path, %error, "a compiled component cannot be used");
                Ok(None)
            }
        }
    }

    /// Keeps a new artifact, in the folder too. Blocks until it is on disk.
    pub(crate) fn put(
        &self,
        digest: Digest,
        engine_key: &str,
        file: File,
    ) -> Result<Arc<File>, String> {
        self.safe.clone()?;
        let path = self.path(digest, engine_key);
        if let Err(error) = write_whole(&self.folder, &path, &file) {
            // It can be used all the same, and is compiled again by the next server.
            let path = path.display();
            tracing::error!(%path, %error, "a compiled component cannot be kept on disk");
        }
        let kept = self.keep(path, file);
        // Over its size already, or now.
        self.prune(None, None);
        Ok(kept)
    }

    /// Removes from the folder what need not stay. Blocks.
    pub(crate) fn prune(&self, engine_key: Option<&str>, registered: Option<&HashSet<Digest>>) {
        if self.safe.is_err() {
            return;
        }
        let in_use = lock(&self.sealed).files.keys().cloned().collect();
        let known = Known { engine_key, registered, in_use: &in_use, max_bytes: self.max_bytes };
        match prune(&self.folder, &known) {
            Ok(Pruned { n_files: 0, .. }) => {}
            Ok(Pruned { n_files, n_bytes }) => {
                tracing::info!(n_files, n_bytes, "compiled components were removed");
            }
            Err(error) => tracing::warn!(%error, "the cache folder cannot be looked through"),
        }
    }

    /// An artifact that a worker could not use is not offered again.
    pub(crate) fn forget(&self, digest: Digest, engine_key: &str) {
        let path = self.path(digest, engine_key);
        lock(&self.sealed).remove(&path);
        drop(fs::remove_file(path));
    }

    fn keep(&self, path: PathBuf, file: File) -> Arc<File> {
        let n_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let file = Arc::new(file);
        lock(&self.sealed).insert(path, Arc::clone(&file), n_bytes);
        file
    }
}

impl Sealed {
    fn get(&mut self, path: &Path) -> Option<Arc<File>> {
        self.n_asked += 1;
        let entry = self.files.get_mut(path)?;
        entry.asked = self.n_asked;
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
            let oldest = self.files.iter().min_by_key(|(_, entry)| entry.asked);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
        self.n_asked += 1;
        self.n_bytes += n_bytes;
        let asked = self.n_asked;
        self.files.insert(path, Entry { file, n_bytes, asked });
    }
}

/// An artifact that is being written, out of everybody's reach.
pub(crate) struct Draft {
    file: File,
    tail: TailBuilder,
}

impl Draft {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { file: nameless()?, tail: TailBuilder::default() })
    }

    pub(crate) fn add(&mut self, image: &[u8]) -> io::Result<()> {
        self.tail.add(image);
        self.file.write_all(image)
    }

    /// The whole artifact; nobody can change it from now on.
    pub(crate) fn seal(self, description: &[u8]) -> io::Result<File> {
        let Self { mut file, tail } = self;
        file.write_all(&tail.finish(description))?;
        seal(&file)?;
        Ok(file)
    }
}

/// The description in a sealed artifact.
pub(crate) fn info(file: &File) -> Option<PluginInfo> {
    let length = file.metadata().ok()?.len();
    let mut trailer = [0; TRAILER];
    file.read_exact_at(&mut trailer, length.checked_sub(TRAILER as u64)?).ok()?;
    let layout = artifact::layout(length, &trailer).ok()?;
    let mut description = vec![0; layout.description];
    file.read_exact_at(&mut description, layout.image).ok()?;
    serde_json::from_slice(&description).ok()
}

/// A sealed copy of the artifact at `path`, checked.
fn read_sealed(path: &Path) -> Result<Option<File>, IntegrityError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    // It is in use: what is not is removed some day.
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let used = Timestamps { last_access: now, last_modification: now };
    let _ = futimens(&file, &used);
    let mut copy = nameless()?;
    artifact::check(file.metadata()?.len(), &file, |chunk| copy.write_all(chunk))?;
    seal(&copy)?;
    Ok(Some(copy))
}

#[cfg(target_os = "linux")]
fn nameless() -> io::Result<File> {
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

/// Without a name the file is out of reach of others; only its owners could change it.
#[cfg(not(target_os = "linux"))]
fn nameless() -> io::Result<File> {
    tempfile::tempfile()
}

#[cfg(not(target_os = "linux"))]
fn seal(_: &File) -> io::Result<()> {
    Ok(())
}

/// Makes the folder, for its owner only.
fn make_private(folder: &Path) -> Result<(), String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let refuse = |why: &str| Err(format!("the cache folder {} {why}", folder.display()));
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

/// Writes a copy of `from` so that it is there whole or not at all.
fn write_whole(folder: &Path, path: &Path, from: &File) -> io::Result<()> {
    // Its own name for every writer: servers of several machines may share the folder.
    let mut file = NamedTempFile::new_in(folder)?;
    let (mut chunk, mut at) = (vec![0; 256 << 10], 0);
    loop {
        // The position of the descriptor is shared with every process that has it.
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
        let mut draft = Draft::new().unwrap();
        draft.add(b"native code").unwrap();
        draft.seal(b"{}").unwrap()
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
    fn the_key_of_a_broken_worker_names_no_file_elsewhere() {
        let cache = {
            Cache {
                folder: "/cache".into(),
                max_bytes: u64::MAX,
                safe: Ok(()),
                sealed: Mutex::default(),
            }
        };
        let path = cache.path(Digest::of(b"x"), "../../etc/passwd\0");
        assert_eq!(path.parent(), Some(Path::new("/cache")));
    }

    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Cache::open(folder.path(), u64::MAX).find(Digest::of(b"x"), "1");
        assert!(refused.unwrap_err().contains("set its mode to 0700"));
    }

    #[test]
    fn what_does_not_fit_into_the_folder_goes_when_something_comes_and_its_copy_stays() {
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
    fn the_least_recently_used_copies_go_when_there_are_too_many() {
        let mut sealed = Sealed::default();
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
