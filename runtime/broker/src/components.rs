//! Optional first-party components: interpreters and scorer libraries, installed as files.
//!
//! For a program `PREFIX/bin/perpend` they are in `PREFIX/share/perpend/components`
//! (docs/decisions/0004-optional-components.md). They are large and take seconds to compile, so that
//! each is registered when an evaluator first needs it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context as _;
use perpend_domain::plugin::{Digest, PluginInfo};
use perpend_storage::Store;

use crate::Engine;

/// Maximum size of an uncompressed component, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;
/// Prefix of the names of first-party plug-ins.
pub const VENDOR: &str = "perpend/";
const UNCOMPRESSED: &str = ".wasm";
const COMPRESSED: &str = ".wasm.zst";
/// Precedes the name of the base component in the name of a file that was compressed against another one.
const BASE_SEPARATOR: &str = ".from.";

/// The folder of optional components, and the files that this process registered.
#[derive(Debug, Default)]
pub struct ComponentFolder {
    folder: PathBuf,
    registered: Mutex<HashMap<String, ComponentFile>>,
}

/// A file of a component, with the metadata that detects replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentFile {
    pub path: PathBuf,
    n_bytes: u64,
    modified: Option<SystemTime>,
}

impl ComponentFolder {
    /// The folder of the installation of `program`.
    #[must_use]
    pub fn of_installation(program: &Path) -> Self {
        let prefix = program.ancestors().nth(2).unwrap_or(Path::new("."));
        Self { folder: prefix.join("share/perpend/components"), registered: Mutex::default() }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the plug-in `perpend/NAME`: `NAME.wasm`, compressed `NAME.wasm.zst`, or `NAME.from.BASE.wasm.zst`,
    /// compressed with another component of the folder as dictionary.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ComponentFile> {
        let path = find(&self.folder, name.strip_prefix(VENDOR)?)?;
        let found = fs::metadata(&path).ok()?;
        Some(ComponentFile { n_bytes: found.len(), modified: found.modified().ok(), path })
    }

    /// Whether the installation has the plug-in with this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether this process registered the file in its current state.
    #[must_use]
    pub fn is_registered(&self, name: &str, file: &ComponentFile) -> bool {
        let registered = self.registered.lock();
        let registered = registered.unwrap_or_else(PoisonError::into_inner);
        registered.get(name) == Some(file)
    }

    /// Records that the file was registered.
    pub fn mark_registered(&self, name: &str, file: ComponentFile) {
        let registered = self.registered.lock();
        let mut registered = registered.unwrap_or_else(PoisonError::into_inner);
        registered.insert(name.to_owned(), file);
    }
}

/// A file that needs no base.
fn standalone(folder: &Path, short: &str) -> Option<PathBuf> {
    let files = [UNCOMPRESSED, COMPRESSED].map(|ending| folder.join(format!("{short}{ending}")));
    files.into_iter().find(|path| path.is_file())
}

fn find(folder: &Path, short: &str) -> Option<PathBuf> {
    standalone(folder, short).or_else(|| {
        let start = format!("{short}{BASE_SEPARATOR}");
        let files = fs::read_dir(folder).ok()?.flatten();
        let mut files = files.map(|file| file.path());
        files.find(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&start) && name.ends_with(COMPRESSED))
        })
    })
}

/// The name of the base component of a compressed file.
fn base(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(COMPRESSED)?;
    Some(name.split_once(BASE_SEPARATOR)?.1)
}

/// Describes a component, in the sandbox of the server.
pub async fn inspect(engine: &Engine, component: &[u8]) -> anyhow::Result<PluginInfo> {
    let inspected = engine.inspect(component).await;
    inspected.map_err(|problems| {
        let problems = problems.iter().map(|p| format!("{}: {}", p.at, p.message));
        anyhow::anyhow!(problems.collect::<Vec<_>>().join("; "))
    })
}

/// Registers a plug-in for all projects.
pub async fn register(
    store: &Store,
    info: &PluginInfo,
    component: &[u8],
    now: perpend_domain::time::Timestamp,
) -> anyhow::Result<Digest> {
    let digest = store.catalog.put_plugin(None, info, component, now).await?;
    tracing::info!(plugin.name = info.name, plugin.version = info.version, "plug-in registered");
    Ok(digest)
}

/// Reads a component and decompresses it when necessary.
///
/// # Errors
/// When the file cannot be read or the component is too large.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let file_name = path.display();
    let base = base(path).map(|base| {
        let folder = path.parent().unwrap_or(Path::new("."));
        let found = standalone(folder, base)
            .with_context(|| format!("{file_name} needs {base}{COMPRESSED} in the same folder"))?;
        read(&found)
    });
    let base = base.transpose()?;
    let decompress = || -> io::Result<Vec<u8>> {
        let file = io::BufReader::new(File::open(path)?);
        let is_compressed = path.extension().is_some_and(|ending| ending == "zst");
        let bytes: Box<dyn io::Read> = match (is_compressed, &base) {
            (true, Some(base)) => Box::new(zstd::Decoder::with_ref_prefix(file, base)?),
            (true, None) => Box::new(zstd::Decoder::with_buffer(file)?),
            (false, _) => Box::new(file),
        };
        let mut component = Vec::new();
        let limit = MAX_COMPONENT_BYTES as u64 + 1;
        bytes.take(limit).read_to_end(&mut component)?;
        Ok(component)
    };
    let component = decompress().with_context(|| format!("cannot read {file_name}"))?;
    anyhow::ensure!(
        component.len() <= MAX_COMPONENT_BYTES,
        "{file_name} is larger than {} MiB, the limit for plug-ins",
        MAX_COMPONENT_BYTES >> 20
    );
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_files(files: &[(&str, &[u8])]) -> (tempfile::TempDir, ComponentFolder) {
        let prefix = tempfile::tempdir().unwrap();
        let components = ComponentFolder::of_installation(&prefix.path().join("bin/perpend"));
        fs::create_dir_all(components.folder()).unwrap();
        for (name, bytes) in files {
            fs::write(components.folder().join(name), bytes).unwrap();
        }
        (prefix, components)
    }

    #[test]
    fn compressed_and_uncompressed_components_are_found_under_the_prefix_of_the_program() {
        let packed = zstd::encode_all(&b"packed"[..], 1).unwrap();
        let (_prefix, components) =
            with_files(&[("python.wasm.zst", &packed), ("javascript.wasm", b"plain")]);
        let read_by_name = |name| read(&components.find(name).unwrap().path).unwrap();
        assert_eq!(read_by_name("perpend/python"), b"packed");
        assert_eq!(read_by_name("perpend/javascript"), b"plain");
        assert!(!components.has("perpend/autoevals-py"));
        assert!(!components.has("acme/python"));
    }

    #[test]
    fn a_component_is_decompressed_with_its_base() {
        let (one, other): (Vec<u8>, _) = ((0..=255).cycle().take(9_999).collect(), b"another");
        let two = [&one[..], other].concat();
        let packed = zstd::encode_all(&one[..], 1).unwrap();
        let mut difference = zstd::Encoder::with_ref_prefix(Vec::new(), 1, &one).unwrap();
        io::Write::write_all(&mut difference, &two).unwrap();
        let difference = difference.finish().unwrap();
        assert!(difference.len() < 99);
        let name = "autoevals-py.from.python.wasm.zst";
        let (_prefix, components) =
            with_files(&[("python.wasm.zst", &packed), (name, &difference)]);
        let path = components.find("perpend/autoevals-py").unwrap().path;
        assert_eq!(read(&path).unwrap(), two);
        fs::remove_file(components.folder().join("python.wasm.zst")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("needs python.wasm.zst"), "{error}");
    }

    #[test]
    fn a_replaced_file_is_not_registered() {
        let (_prefix, components) = with_files(&[("python.wasm", b"one")]);
        let first = components.find("perpend/python").unwrap();
        components.mark_registered("perpend/python", first.clone());
        assert!(components.is_registered("perpend/python", &first));
        fs::write(&first.path, b"another").unwrap();
        let second = components.find("perpend/python").unwrap();
        assert!(!components.is_registered("perpend/python", &second));
    }

    #[test]
    fn a_component_over_the_size_limit_is_an_error() {
        let large = zstd::encode_all(io::repeat(0).take(MAX_COMPONENT_BYTES as u64 + 1), 1);
        let (_prefix, components) = with_files(&[("python.wasm.zst", &large.unwrap())]);
        let path = components.find("perpend/python").unwrap().path;
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("64 MiB"), "{error}");
    }
}
