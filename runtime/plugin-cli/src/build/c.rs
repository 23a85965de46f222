//! C: compiled with `zig cc`, which includes the WASI library, or with clang and wasi-libc. The module is converted to a
//! component in this process.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::BuildError;
use super::tool;
use crate::componentize::componentize;
use crate::progress::Progress;
use crate::project::Project;

/// Installs into a virtual environment: many systems refuse `pip install` outside of one.
const COMMAND: &str = "python3 -m venv .venv && .venv/bin/pip install ziglang";
const DEBIAN: &str = "apt install clang lld wasi-libc libclang-rt-dev-wasm32";

/// The compilers with their own arguments. `python-zig` is the program in the package on PyPI.
const COMPILERS: [(&str, &[&str]); 3] = [
    ("zig", &["cc", "-target", "wasm32-wasi"]),
    ("python-zig", &["cc", "-target", "wasm32-wasi"]),
    // As in zig: a stack overflow traps instead of overwriting data.
    ("clang", &["--target=wasm32-wasi", "-Wl,--stack-first"]),
];

/// A library that is initialized once. Names are kept for the messages of traps, and the initial memory is large enough
/// for ordinary calls.
const FLAGS: [&str; 8] = [
    "-mexec-model=reactor",
    "-O2",
    "-ffunction-sections",
    "-fno-sanitize=all",
    "-Wall",
    "-Wl,--gc-sections,--strip-debug",
    "-Wl,-z,stack-size=1048576",
    "-Wl,--initial-memory=2097152",
];

fn compiler(project: &Project) -> Option<(PathBuf, &'static [&'static str])> {
    let mut all = COMPILERS.iter();
    all.find_map(|(name, first)| Some((project.tools().find(name)?, *first)))
}

/// The commands that install the missing tools.
pub(super) fn missing(project: &Project) -> Vec<String> {
    match compiler(project) {
        Some(_) => Vec::new(),
        None => vec![COMMAND.to_owned()],
    }
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let Some((compiler, first)) = compiler(project) else {
        return Err(BuildError::ToolMissing {
            tool: "zig or clang".to_owned(),
            install: format!("{COMMAND}\n  or, on Debian: {DEBIAN}"),
        });
    };
    let sdk = project.sdk("c");
    let module = project.scratch()?.join("module.wasm");
    progress.step("compiling C");
    let mut command: Command = project.tools().command(&compiler);
    command.current_dir(project.dir());
    command.args(first).args(FLAGS).arg("-I").arg(&sdk);
    command.args(project.option("flags").unwrap_or_default().split_whitespace());
    command.args(sources(&project.dir().join("src"))?);
    command.args(sources(&sdk)?);
    tool::run(command.arg("-o").arg(&module), progress)?;
    progress.step("converting to a component");
    let bytes = std::fs::read(&module).map_err(|source| BuildError::file(&module, source))?;
    let component = componentize(bytes, &project.wit())?;
    std::fs::write(out, component).map_err(|source| BuildError::file(out, source))
}

/// The `.c` files of a folder, in order, so that equal sources produce equal components.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let wrong = |source| BuildError::file(folder, source);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|ending| ending == "c") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
