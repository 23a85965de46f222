//! What tests make and the next test, also of a later run, may take as it is: the components of projects and
//! their native code.
//!
//! Below `target/guests/kept`, in a folder of this program alone. Another build of it, with other templates,
//! another SDK or another host, starts with an empty folder: nothing of an earlier one is ever found.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use perpend_domain::plugin::Digest;
use perpend_plugin_cli::{Project, Tools};

use crate::Missing;

/// Values of this process, each computed once by the first caller. Callers of other keys do not wait.
#[derive(Debug)]
pub struct Shared<T: 'static>(Mutex<BTreeMap<&'static str, &'static OnceLock<T>>>);

impl<T> Shared<T> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The value of this name.
    pub fn get(&self, name: &'static str, make: impl FnOnce() -> T) -> &'static T {
        let cell = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *all.entry(name).or_insert_with(|| Box::leak(Box::new(OnceLock::new())))
        };
        cell.get_or_init(make)
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The target directory that this program was built in: it is `target/PROFILE/deps/NAME`.
///
/// # Panics
/// When it is elsewhere.
pub(crate) fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

/// A folder below `target/guests`, made where it was missing.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn guests(name: &str) -> PathBuf {
    let folder = target().join("guests").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

/// The folder of this build of this program, without what an earlier build of it left.
static KEPT: LazyLock<PathBuf> = LazyLock::new(|| {
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    let folder = guests("kept").join(name);
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let (mark, is) = (folder.join("program"), stamp(&program));
    if fs::read_to_string(&mark).is_ok_and(|was| was == is) {
        return folder;
    }
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::write(mark, is).unwrap();
    folder
});

/// Where native code is kept.
#[must_use]
pub fn compiled() -> PathBuf {
    KEPT.join("compiled")
}

/// While the returned guard lives, no other process builds the artifact of this name.
pub(crate) fn turn(name: &str) -> File {
    let turn = File::create(KEPT.join(format!("{name}.lock"))).unwrap();
    turn.lock().unwrap();
    turn
}

/// The component that is made of these inputs.
pub(crate) fn component(
    inputs: Digest,
    make: impl FnOnce() -> Result<Vec<u8>, Missing>,
) -> Result<Vec<u8>, Missing> {
    let file = KEPT.join(format!("{inputs}.wasm"));
    let _turn = turn(&inputs.to_string());
    if let Ok(component) = fs::read(&file) {
        return Ok(component);
    }
    let component = make()?;
    let new = file.with_extension("new");
    fs::write(&new, &component).unwrap();
    fs::rename(new, &file).unwrap();
    Ok(component)
}

/// A folder with the native code of these components alone, of which all are loaded in a host already.
///
/// # Panics
/// When it cannot be made.
#[must_use]
pub fn cache_of(digests: impl Iterator<Item = Digest>) -> PathBuf {
    let wanted: Vec<String> = digests.map(|digest| format!("{digest}-")).collect();
    let folder = crate::scratch("cache");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(compiled()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if wanted.iter().any(|start| name.starts_with(start)) {
            fs::copy(entry.path(), folder.join(name)).unwrap();
        }
    }
    folder
}

/// What the component of a new project depends on: each of its files, the SDK and the contract among them, and
/// the tools that build it.
pub(crate) fn inputs(project: &Project) -> Digest {
    let mut files = Vec::new();
    add_files(project.dir(), &mut files);
    files.sort();
    let mut lines: Vec<String> = Vec::new();
    for file in files {
        let name = file.strip_prefix(project.dir()).unwrap();
        let content = Digest::of(&fs::read(&file).unwrap());
        lines.push(format!("{} {content}", name.display()));
    }
    lines.push(TOOLCHAINS.clone());
    Digest::of(lines.join("\n").as_bytes())
}

/// All files but those behind links: the target directory of Rust projects is one.
fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            add_files(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Which tools there are, and in which state.
static TOOLCHAINS: LazyLock<String> = LazyLock::new(|| {
    const PROGRAMS: [&str; 8] =
        ["cargo", "clang", "componentize-py", "esbuild", "go", "node", "python3", "zig"];
    let tools = Tools::from_env();
    let found = PROGRAMS.iter().filter_map(|program| tools.find(program));
    let mut lines: Vec<String> = found.map(|program| stamp(&program)).collect();
    // What was installed, by name and version.
    let folder = std::env::var_os("PERPEND_TOOLCHAINS").unwrap_or_default();
    for source in ["python", "javascript"] {
        let mark = Path::new(&folder).join(format!(".installed-{source}"));
        match fs::read_to_string(&mark) {
            Ok(list) => lines.push(list),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{}", mark.display()),
        }
    }
    lines.push(std::env::var("RUSTUP_TOOLCHAIN").unwrap_or_default());
    lines.join("\n")
});

/// Tells one state of a program from another.
fn stamp(program: &Path) -> String {
    let program = program.canonicalize().unwrap();
    let found = program.metadata().unwrap();
    format!("{} {} {}.{}", program.display(), found.len(), found.mtime(), found.mtime_nsec())
}
