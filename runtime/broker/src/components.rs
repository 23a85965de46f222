//! Optional first-party components: interpreters and scorer libraries, which an installation has as files.
//!
//! For a program `PREFIX/bin/perpend` they are in `PREFIX/share/perpend/components`
//! (docs/decisions/0004-optional-components.md). They are large and take seconds to compile, so that
//! each is registered when an evaluator first needs it: a server that never does pays neither time nor memory.

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

/// The largest component, unpacked, that is registered.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;
/// What the names of first-party plug-ins begin with.
pub const VENDOR: &str = "perpend/";
const PLAIN: &str = ".wasm";
const PACKED: &str = ".wasm.zst";
/// Before the name of the component that another one was packed against.
const FROM: &str = ".from.";

/// The folder of optional components, and which of its files are known to be registered.
#[derive(Debug, Default)]
pub struct ComponentFolder {
    folder: PathBuf,
    registered: Mutex<HashMap<String, ComponentFile>>,
}

/// The file of a component, and what changes when it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentFile {
    /// Where it is.
    pub path: PathBuf,
    n_bytes: u64,
    modified: Option<SystemTime>,
}

impl ComponentFolder {
    /// Those that were installed together with `program`.
    #[must_use]
    pub fn of_installation(program: &Path) -> Self {
        let prefix = program.ancestors().nth(2).unwrap_or(Path::new("."));
        Self { folder: prefix.join("share/perpend/components"), registered: Mutex::default() }
    }

    /// Where they are looked for.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of the plug-in `perpend/NAME`: `NAME.wasm`, or packed `NAME.wasm.zst`, or packed against another
    /// component beside it `NAME.from.OTHER.wasm.zst`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ComponentFile> {
        let path = find(&self.folder, name.strip_prefix(VENDOR)?)?;
        let found = fs::metadata(&path).ok()?;
        Some(ComponentFile { n_bytes: found.len(), modified: found.modified().ok(), path })
    }

    /// Whether the installation has the plug-in of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether this file, as it is, was registered by this process.
    #[must_use]
    pub fn is_registered(&self, name: &str, stamp: &ComponentFile) -> bool {
        let registered = self.registered.lock();
        let registered = registered.unwrap_or_else(PoisonError::into_inner);
        registered.get(name) == Some(stamp)
    }

    /// Notes that this file was registered.
    pub fn mark_registered(&self, name: &str, stamp: ComponentFile) {
        let registered = self.registered.lock();
        let mut registered = registered.unwrap_or_else(PoisonError::into_inner);
        registered.insert(name.to_owned(), stamp);
    }
}

/// A file that needs no other.
fn whole(folder: &Path, short: &str) -> Option<PathBuf> {
    let files = [PLAIN, PACKED].map(|ending| folder.join(format!("{short}{ending}")));
    files.into_iter().find(|path| path.is_file())
}

fn find(folder: &Path, short: &str) -> Option<PathBuf> {
    whole(folder, short).or_else(|| {
        let start = format!("{short}{FROM}");
        let files = fs::read_dir(folder).ok()?.flatten();
        let mut files = files.map(|file| file.path());
        files.find(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&start) && name.ends_with(PACKED))
        })
    })
}

/// The component that the one in this file was packed against.
fn base(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?.strip_suffix(PACKED)?;
    Some(name.split_once(FROM)?.1)
}

/// What a component is, behind the sandbox of the server.
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

/// The component in a file, unpacked where it is packed.
///
/// # Errors
/// When it cannot be read, or is too large.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let base = base(path).map(|base| {
        let folder = path.parent().unwrap_or(Path::new("."));
        let found = whole(folder, base)
            .with_context(|| format!("{shown} needs {base}{PACKED} beside it"))?;
        read(&found)
    });
    let base = base.transpose()?;
    let unpacked = || -> io::Result<Vec<u8>> {
        let file = io::BufReader::new(File::open(path)?);
        let is_packed = path.extension().is_some_and(|ending| ending == "zst");
        let bytes: Box<dyn io::Read> = match (is_packed, &base) {
            (true, Some(base)) => Box::new(zstd::Decoder::with_ref_prefix(file, base)?),
            (true, None) => Box::new(zstd::Decoder::with_buffer(file)?),
            (false, _) => Box::new(file),
        };
        let mut component = Vec::new();
        let limit = MAX_COMPONENT_BYTES as u64 + 1;
        bytes.take(limit).read_to_end(&mut component)?;
        Ok(component)
    };
    let component = unpacked().with_context(|| format!("cannot read {shown}"))?;
    anyhow::ensure!(
        component.len() <= MAX_COMPONENT_BYTES,
        "{shown} is larger than {} MiB, the limit for plug-ins",
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
    fn components_are_found_below_the_prefix_of_the_program_packed_or_not() {
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
    fn a_component_that_was_packed_against_another_is_unpacked_with_it() {
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
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("needs python.wasm.zst"), "{refused}");
    }

    #[test]
    fn a_file_that_was_replaced_is_not_taken_for_the_registered_one() {
        let (_prefix, components) = with_files(&[("python.wasm", b"one")]);
        let first = components.find("perpend/python").unwrap();
        components.mark_registered("perpend/python", first.clone());
        assert!(components.is_registered("perpend/python", &first));
        fs::write(&first.path, b"another").unwrap();
        let second = components.find("perpend/python").unwrap();
        assert!(!components.is_registered("perpend/python", &second));
    }

    #[test]
    fn a_file_that_unpacks_to_more_than_the_limit_is_refused() {
        let large = zstd::encode_all(io::repeat(0).take(MAX_COMPONENT_BYTES as u64 + 1), 1);
        let (_prefix, components) = with_files(&[("python.wasm.zst", &large.unwrap())]);
        let path = components.find("perpend/python").unwrap().path;
        let refused = read(&path).unwrap_err().to_string();
        assert!(refused.contains("64 MiB"), "{refused}");
    }
}
