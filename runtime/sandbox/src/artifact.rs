//! Compiled components: as files of a folder, and as the open descriptor a worker is handed.
//!
//! Invariant: nothing is mapped as native code before the sum of these very bytes was checked. A folder
//! belongs to the server alone, its files are replaced by rename and never changed in place, and the file
//! that was checked is the one that is mapped. What a worker gets is sealed: nobody can change it any more.

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
    /// There is none.
    #[error("not compiled yet")]
    Missing,
    /// The sum does not match, or parts are missing.
    #[error(transparent)]
    IntegrityError(#[from] IntegrityError),
    /// The description cannot be read.
    #[error("the artifact is damaged: its description cannot be read")]
    Description,
    /// The engine does not take it.
    #[error("the engine refuses the artifact: {0}")]
    Refused(String),
    /// The folder is not safe.
    #[error("{0}")]
    Folder(String),
    /// Reading or writing failed.
    #[error("reading or writing an artifact: {0}")]
    Io(#[from] io::Error),
}

/// The folder of compiled components.
#[derive(Clone, Debug)]
pub struct Artifacts {
    folder: PathBuf,
    engine_key: String,
    /// Files whose sum was checked, as long as they are those files.
    checked: Arc<Mutex<HashMap<Digest, Stamp>>>,
}

/// Tells one state of a file from another.
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

/// The contract that the description in an artifact was made by.
const CONTRACT: [&str; 3] = [
    include_str!("../../../plugin-sdk/wit/host.wit"),
    include_str!("../../../plugin-sdk/wit/types.wit"),
    include_str!("../../../plugin-sdk/wit/world.wit"),
];

/// Which artifacts fit an engine: its version and a hash of settings, target, processor features and the contract. A
/// component that fitted an earlier contract is asked to describe itself anew, and refused if it cannot.
pub(crate) fn engine_key(engine: &Engine) -> String {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    CONTRACT.hash(&mut hasher);
    format!("48.0.8-{:016x}", hasher.finish())
}

impl Artifacts {
    /// Opens the folder, or makes it, for its owner only.
    ///
    /// # Errors
    /// When it is not ours alone.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, ArtifactError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        let refuse = |why: &str| {
            let folder = folder.display();
            Err(ArtifactError::Folder(format!("the cache folder {folder} {why}")))
        };
        if metadata.mode() & 0o022 != 0 {
            return refuse("can be written by others: set its mode to 0700");
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return refuse("belongs to another user");
        }
        Ok(Self { folder: folder.to_owned(), ..Self::nowhere(engine) })
    }

    /// No folder: components come as open files.
    pub(crate) fn nowhere(engine: &Engine) -> Self {
        Self { folder: PathBuf::new(), engine_key: engine_key(engine), checked: Arc::default() }
    }

    pub(crate) fn engine_key(&self) -> &str {
        &self.engine_key
    }

    /// Where the artifact of a component is.
    #[must_use]
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{digest}-{}.cwasm", self.engine_key))
    }

    /// Writes an artifact so that it is there whole or not at all.
    pub(crate) fn put(
        &self,
        digest: Digest,
        image: &[u8],
        info: &PluginInfo,
    ) -> Result<(), ArtifactError> {
        let description = serde_json::to_vec(info).map_err(io::Error::other)?;
        let mut tail = TailBuilder::default();
        tail.add(image);
        let tail = tail.finish(&description);
        // Its own name for every writer: the same component may be compiled twice at once.
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(image)?;
        file.write_all(&tail)?;
        file.as_file().sync_all()?;
        file.persist(self.path(digest)).map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }

    /// The component, mapped, with its description. The sum of a file is checked once in a process.
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
        let known = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = file.metadata()?;
        let stamp = stamp(&metadata);
        let was_checked = known().get(&digest) == Some(&stamp);
        if !was_checked {
            artifact::check(metadata.size(), &file, |_| Ok(()))?;
            known().insert(digest, stamp);
        }
        map(engine, &file)
    }
}

/// The component in a file that nobody can change any more, as the server hands it to a worker after it
/// checked the sum.
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

/// Maps the image of a file whose sum was checked.
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
    // The engine opens paths only. This one is the descriptor itself, whatever stands at the file's name
    // by now; in a confined process the trap handler answers it (`confine`), as no path can be opened.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    #[expect(
        unsafe_code,
        reason = "the image is native code. Its sum was checked, and only our own server writes sums: \
                  the folder is writable by its owner alone (checked in `open`), and what comes over \
                  the socket was checked and sealed by the server. So the bytes are what our own \
                  compiler made. The engine itself checks that version, settings and processor \
                  features fit. A file of the folder is never changed in place, and a seal forbids \
                  it, so the mapping stays as it was checked"
    )]
    let component = unsafe { Component::deserialize_file(engine, &path) };
    let component = component.map_err(|error| ArtifactError::Refused(format!("{error:#}")))?;
    Ok((component, info))
}

/// A hash that is the same in every process and build, which the standard one does not promise.
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
