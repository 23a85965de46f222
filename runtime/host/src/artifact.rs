//! Compiled components on disk.
//!
//! A file holds the engine's image, the description of the plug-in as JSON, and a trailer with the
//! lengths and a SHA-256 of all of it. Invariant: nothing is mapped as native code before the sum was
//! checked, and the folder belongs to the server alone, so that nobody else can write a file with a
//! right sum.

use std::fs::{self, DirBuilder, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use assay_domain::plugin::{Digest, PluginInfo};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

const MAGIC: [u8; 8] = *b"assayART";
/// Lengths of image and description, sum, magic.
const TRAILER: usize = 8 + 8 + 32 + 8;

/// Why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// There is none.
    #[error("not compiled yet")]
    Missing,
    /// The sum does not match, or parts are missing.
    #[error("the artifact is damaged: {0}")]
    Damaged(&'static str),
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
    /// Engine version and a hash of settings, target and processor features.
    engine_key: String,
}

impl Artifacts {
    /// Opens the folder, or makes it, for its owner only.
    ///
    /// # Errors
    /// When it is not ours alone.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> Result<Self, ArtifactError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let metadata = fs::metadata(folder)?;
        let refuse = |why: &str| {
            let folder = folder.display();
            Err(ArtifactError::Folder(format!(
                "the cache folder {folder} {why}"
            )))
        };
        if metadata.mode() & 0o022 != 0 {
            return refuse("can be written by others: set its mode to 0700");
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return refuse("belongs to another user");
        }
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let engine_key = format!("48.0.8-{:016x}", hasher.finish());
        Ok(Self {
            folder: folder.to_owned(),
            engine_key,
        })
    }

    /// Where the artifact of a component is.
    #[must_use]
    pub fn path(&self, digest: Digest) -> PathBuf {
        self.folder
            .join(format!("{digest}-{}.cwasm", self.engine_key))
    }

    /// Writes an artifact so that it is there whole or not at all.
    pub(crate) fn put(
        &self,
        digest: Digest,
        image: &[u8],
        info: &PluginInfo,
    ) -> Result<(), ArtifactError> {
        let description = serde_json::to_vec(info).map_err(io::Error::other)?;
        let lengths = [image.len() as u64, description.len() as u64]
            .map(u64::to_le_bytes)
            .concat();
        let mut sum = Sha256::new();
        let temporary = self
            .folder
            .join(format!("{digest}.{}.tmp", std::process::id()));
        let written = (|| {
            let mut file = File::options()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            for part in [image, &description, &lengths] {
                sum.update(part);
                file.write_all(part)?;
            }
            file.write_all(&sum.finalize())?;
            file.write_all(&MAGIC)?;
            file.sync_all()?;
            fs::rename(&temporary, self.path(digest))?;
            File::open(&self.folder)?.sync_all()
        })();
        written
            .inspect_err(|_| drop(fs::remove_file(&temporary)))
            .map_err(ArtifactError::Io)
    }

    /// The description in a sound artifact.
    pub(crate) fn info(&self, digest: Digest) -> Result<PluginInfo, ArtifactError> {
        let mut file = match File::open(self.path(digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ArtifactError::Missing);
            }
            other => other?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let rest = bytes
            .len()
            .checked_sub(TRAILER)
            .ok_or(ArtifactError::Damaged("it is too short"))?;
        let (content, trailer) = bytes.split_at(rest);
        let (lengths, tail) = trailer.split_at(16);
        if tail[32..] != MAGIC {
            return Err(ArtifactError::Damaged("its end is missing"));
        }
        let sum = Sha256::new()
            .chain_update(content)
            .chain_update(lengths)
            .finalize();
        if sum[..] != tail[..32] {
            return Err(ArtifactError::Damaged("its sum does not match"));
        }
        let length = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&lengths[at..at + 8]);
            usize::try_from(u64::from_le_bytes(word)).unwrap_or(usize::MAX)
        };
        if length(0).checked_add(length(8)) != Some(content.len()) {
            return Err(ArtifactError::Damaged("its lengths do not match"));
        }
        serde_json::from_slice(&content[length(0)..])
            .map_err(|_| ArtifactError::Damaged("its description cannot be read"))
    }

    /// The component, mapped, with its description.
    pub(crate) fn load(
        &self,
        engine: &Engine,
        digest: Digest,
    ) -> Result<(Component, PluginInfo), ArtifactError> {
        let info = self.info(digest)?;
        let path = self.path(digest);
        #[expect(
            unsafe_code,
            reason = "the image is native code. Its sum was checked just now, only our compile \
                      process writes sums, and the folder is writable by its owner alone (checked \
                      in `open`), so the bytes are what our own compiler made. The engine itself \
                      checks that version, settings and processor features fit. Files are replaced \
                      by rename and never changed in place, so the mapping stays as it was checked"
        )]
        let component = unsafe { Component::deserialize_file(engine, &path) };
        let component = component.map_err(|error| ArtifactError::Refused(format!("{error:#}")))?;
        Ok((component, info))
    }
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
