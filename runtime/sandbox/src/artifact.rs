//! Compiled components, as files of a folder or as sealed files that a worker receives.
//!
//! Invariant: a file is mapped as native code only after its checksum was verified. Only the server can write to the folder.
//! Files are replaced by rename and never changed in place, and the verified file is the mapped one. The files of workers
//! are sealed against changes.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_worker_protocol::artifact::{self, IntegrityError, Layout, TRAILER, TailBuilder};
use tempfile::NamedTempFile;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The component was not compiled.
    #[error("not compiled yet")]
    Missing,
    /// The checksum does not match, or the file is incomplete.
    #[error(transparent)]
    IntegrityError(#[from] IntegrityError),
    /// The description is invalid.
    #[error("the artifact is damaged: its description cannot be read")]
    Description,
    /// The engine rejects it.
    #[error("the engine rejects the artifact: {0}")]
    Refused(String),
    /// The folder is not protected against other users.
    #[error("{0}")]
    Folder(String),
    /// Reading or writing failed.
    #[error("cannot read or write an artifact: {0}")]
    Io(#[from] io::Error),
}

/// The folder of compiled components.
#[derive(Clone, Debug)]
pub struct Artifacts {
    folder: PathBuf,
    engine_key: String,
    /// Files whose checksum was verified.
    checked: Arc<Mutex<HashMap<Digest, Stamp>>>,
}

/// Identifies the state of a file.
type Stamp = [i64; 6];

fn stamp(metadata: &fs::Metadata) -> Stamp {
    [
        metadata.ino().cast_signed(),
        metadata.size().cast_signed(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    ]
}

/// The contract on which the description in an artifact is based.
const CONTRACT: [&str; 3] = [
    include_str!("../../../plugin-sdk/wit/host.wit"),
    include_str!("../../../plugin-sdk/wit/types.wit"),
    include_str!("../../../plugin-sdk/wit/world.wit"),
];

/// Identifies compatible artifacts: the version of the engine and a hash of its settings, target, processor features and the
/// contract. After a change of the contract, components are compiled and described again.
pub(crate) fn engine_key(engine: &Engine) -> String {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    CONTRACT.hash(&mut hasher);
    format!("48.0.8-{:016x}", hasher.finish())
}

impl Artifacts {
    /// Opens the folder; creates it if it does not exist.
    ///
    /// # Errors
    /// When other users can write to the folder.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, ArtifactError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        let error = |reason: &str| {
            let folder = folder.display();
            Err(ArtifactError::Folder(format!("the cache folder {folder} {reason}")))
        };
        if metadata.mode() & 0o022 != 0 {
            return error("can be written by others: set its mode to 0700");
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return error("belongs to another user");
        }
        Ok(Self { folder: folder.to_owned(), ..Self::without_folder(engine) })
    }

    /// Without a folder, for sealed files.
    pub(crate) fn without_folder(engine: &Engine) -> Self {
        Self { folder: PathBuf::new(), engine_key: engine_key(engine), checked: Arc::default() }
    }

    pub(crate) fn engine_key(&self) -> &str {
        &self.engine_key
    }

    /// The path of the artifact of a component.
    #[must_use]
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}-{}.cwasm", self.engine_key))
    }

    /// Writes an artifact atomically.
    pub(crate) fn write(
        &self,
        digest: Digest,
        image: &[u8],
        info: &PluginInfo,
    ) -> Result<(), ArtifactError> {
        let description = serde_json::to_vec(info).map_err(io::Error::other)?;
        let mut tail = TailBuilder::default();
        tail.add(image);
        let tail = tail.finish(&description);
        // A name per writer, because a component may be compiled twice concurrently.
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(image)?;
        file.write_all(&tail)?;
        file.as_file().sync_all()?;
        file.persist(self.path(digest)).map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }

    /// Maps the component and reads its description. The checksum of a file is verified once per process.
    pub(crate) fn load(
        &self,
        engine: &Engine,
        digest: Digest,
    ) -> Result<(Component, PluginInfo), ArtifactError> {
        let file = match File::open(self.path(digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ArtifactError::Missing);
            }
            other => other?,
        };
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = file.metadata()?;
        let stamp = stamp(&metadata);
        let was_checked = checked().get(&digest) == Some(&stamp);
        if !was_checked {
            artifact::check(metadata.size(), &file, |_| Ok(()))?;
            checked().insert(digest, stamp);
        }
        map(engine, &file)
    }
}

/// Loads a component from a sealed file. The server verified its checksum.
pub(crate) fn load_sealed(
    engine: &Engine,
    file: &File,
) -> Result<(Component, PluginInfo), ArtifactError> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{SealFlags, fcntl_get_seals};
        let needed = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        let is_sealed = fcntl_get_seals(file).is_ok_and(|seals| seals.contains(needed));
        if !is_sealed {
            return Err(ArtifactError::Refused("it is not sealed".into()));
        }
    }
    map(engine, file)
}

/// Maps the image of a verified file.
fn map(engine: &Engine, file: &File) -> Result<(Component, PluginInfo), ArtifactError> {
    let length = file.metadata()?.len();
    let at = length
        .checked_sub(TRAILER as u64)
        .ok_or(IntegrityError::Damaged("the file is too short"))?;
    let mut trailer = [0; TRAILER];
    file.read_exact_at(&mut trailer, at)?;
    let Layout { image, description } = artifact::layout(length, &trailer)?;
    let mut json = vec![0; description];
    file.read_exact_at(&mut json, image)?;
    let info = serde_json::from_slice(&json).map_err(|_| ArtifactError::Description)?;
    // The engine accepts only a path. This one refers to the descriptor, even if the file was replaced. A confined process
    // cannot open paths; its trap handler handles this one (`confine`).
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    #[expect(
        unsafe_code,
        reason = "the image is native code of our own compiler: its checksum was verified, the folder is \
                  writable by its owner only (checked in `open`), and the server verified and sealed the \
                  files that it sends. The engine checks version, settings and processor features. A \
                  file of the folder is never changed in place, and a sealed file cannot be changed"
    )]
    let component = unsafe { Component::deserialize_file(engine, &path) };
    let component = component.map_err(|error| ArtifactError::Refused(format!("{error:#}")))?;
    Ok((component, info))
}

/// FNV-1a: a hash that is stable across processes and builds, unlike the standard one.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
