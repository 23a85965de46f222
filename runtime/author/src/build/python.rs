//! Python: `componentize-py` runs the project's modules once and keeps the interpreter's memory as the
//! component.
//!
//! Everything is put together in the project's scratch folder first: the tool searches the folders it is
//! given for native extensions, and would find those of a virtual environment.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use super::BuildError;
use crate::progress::Progress;
use crate::project::{ITEMS, Project};
use crate::tools;

const INSTALL_PYTHON: &str = "https://www.python.org/downloads, 3.10 or later";
const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1";
/// The module that has the evaluators; `entry` under `[build]` names another.
const ENTRY: &str = "evaluators";
const REQUIREMENTS: &str = "requirements.txt";
/// Folders of a project that hold no part of the plug-in.
const LEFT_OUT: [&str; 4] = ["assay", "target", "tests", "venv"];
/// Compiled extensions of packages: nothing can load them in a component.
const NATIVE: [&str; 4] = ["so", "pyd", "dylib", "dll"];
/// Items that evaluators are run with while the plug-in is built.
const N_SAMPLES: usize = 3;

/// What `python3 -m assay MODULE` answers.
#[derive(Debug, Deserialize)]
struct Needs {
    capabilities: Vec<String>,
    checks_config: bool,
}

/// Where the parts of a build lie.
struct Folders {
    /// The project's modules and the one that is compiled.
    app: PathBuf,
    wit: PathBuf,
    sdk: PathBuf,
    /// Packages of `requirements.txt`.
    packages: PathBuf,
    /// An environment without packages, so that nobody's own ones are found.
    empty: PathBuf,
}

/// Builds `project` into `out`.
pub(crate) fn build(
    project: &Project,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let python = project.need("python3", INSTALL_PYTHON)?;
    let componentize = project.need("componentize-py", INSTALL)?;
    let scratch = project.scratch()?;
    let folders = Folders {
        app: scratch.join("app"),
        wit: scratch.join("wit"),
        sdk: scratch.join("sdk"),
        packages: scratch.join("packages"),
        empty: scratch.join("empty"),
    };
    lay_out(project, &folders).map_err(|error| BuildError::file(&scratch, error))?;
    install(project, &python, &folders.packages, progress)?;

    progress.step("reading the evaluators");
    let entry = project.option("entry").unwrap_or(ENTRY);
    let entry = entry.strip_suffix(".py").unwrap_or(entry);
    let needs = needs(project, &python, entry, &folders, progress)?;
    let world = folders.wit.join("python-plugin.wit");
    fs::write(&world, world_text(&needs)).map_err(|error| BuildError::file(&world, error))?;
    let main = folders.app.join("assay_plugin.py");
    fs::write(&main, main_text(project, entry, &needs))
        .map_err(|error| BuildError::file(&main, error))?;

    progress.step("componentize-py");
    let mut command = project.tools().command(&componentize);
    command
        .current_dir(&folders.app)
        .env("VIRTUAL_ENV", &folders.empty)
        .arg("--quiet")
        .arg("--wit-path")
        .arg(&folders.wit)
        .args(["--world", "python-plugin", "componentize", "assay_plugin"]);
    for folder in [&folders.app, &folders.sdk, &folders.packages] {
        command.arg("--python-path").arg(folder);
    }
    command.arg("--output").arg(out);
    tools::run(&mut command, progress).map_err(explained)?;
    Ok(())
}

/// The folders, empty but for the project's own files and the contract.
fn lay_out(project: &Project, folders: &Folders) -> io::Result<()> {
    for folder in [&folders.app, &folders.wit, &folders.sdk] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    fs::create_dir_all(&folders.packages)?;
    fs::create_dir_all(folders.empty.join("lib/site-packages"))?;
    copy(&project.wit(), &folders.wit, &[])?;
    // A copy, because the interpreter leaves compiled files beside what it loads.
    copy(&project.sdk("python"), &folders.sdk, &[])?;
    copy(project.dir(), &folders.app, &LEFT_OUT)
}

/// Files and folders, without those named, what is hidden and what a build made.
fn copy(from: &Path, to: &Path, left_out: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        let made = shown == "__pycache__" || shown.ends_with(".wasm");
        if made || shown.starts_with('.') || left_out.contains(&&*shown) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        if source.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&source, &target, &[])?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// The packages of `requirements.txt`, anew only when it changed.
fn install(
    project: &Project,
    python: &Path,
    packages: &Path,
    progress: &dyn Progress,
) -> Result<(), BuildError> {
    let list = project.dir().join(REQUIREMENTS);
    let wanted = match fs::read_to_string(&list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(BuildError::file(&list, error)),
    };
    let mark = packages.join(".installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let anew = || -> io::Result<()> {
        fs::remove_dir_all(packages)?;
        fs::create_dir_all(packages)
    };
    anew().map_err(|error| BuildError::file(packages, error))?;
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if !wanted.lines().all(is_blank) {
        progress.step("pip install");
        let mut command = project.tools().command(python);
        command
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--no-compile", "--target"])
            .arg(packages)
            .arg("--requirement")
            .arg(&list);
        tools::run(&mut command, progress)?;
        remove_native(packages).map_err(|error| BuildError::file(packages, error))?;
    }
    fs::write(&mark, wanted).map_err(|error| BuildError::file(&mark, error))
}

/// Deletes compiled extensions: packages that have a way without them take it.
fn remove_native(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            remove_native(&path)?;
        } else if ending.is_some_and(|ending| NATIVE.contains(&ending)) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Loads the evaluators in the Python at hand: the imports of the component follow from what they need.
fn needs(
    project: &Project,
    python: &Path,
    entry: &str,
    folders: &Folders,
    progress: &dyn Progress,
) -> Result<Needs, BuildError> {
    let mut command: Command = project.tools().command(python);
    let paths = [&folders.app, &folders.sdk, &folders.packages];
    let path = std::env::join_paths(paths)
        .map_err(|error| BuildError::file(&folders.app, io::Error::other(error)))?;
    command
        .current_dir(&folders.app)
        .env("PYTHONPATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["-m", "assay", entry]);
    let said = tools::run(&mut command, progress)?;
    // A module may print while it is loaded: the answer is the last line.
    let last = said.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
    serde_json::from_slice(last.unwrap_or_default()).map_err(|error| BuildError::ToolFailed {
        tool: "python3 -m assay".to_owned(),
        said: format!("{error}: {}", String::from_utf8_lossy(&said)),
    })
}

/// A world with exactly what the evaluators need.
fn world_text(needs: &Needs) -> String {
    let mut text = String::from(
        "package assay:evaluator@1.0.0;\n\nworld python-plugin {\n    include scorer;\n",
    );
    for (capability, import) in [("model", "model"), ("trace", "trace-reader")] {
        if needs.capabilities.iter().any(|needed| needed == capability) {
            let _ = writeln!(text, "    import {import};");
        }
    }
    if needs.checks_config {
        text.push_str("    export config-check;\n");
    }
    text.push_str("}\n");
    text
}

/// The module that is compiled: the evaluators, the exports, and a few items to warm up with.
fn main_text(project: &Project, entry: &str, needs: &Needs) -> String {
    let exports = if needs.checks_config {
        "ConfigCheck, Evaluator, ready"
    } else {
        "Evaluator, ready"
    };
    let samples = Value::Array(samples(project)).to_string();
    // A JSON string is a Python string too.
    let samples = Value::String(samples);
    format!(
        "import json\n\nimport {entry}\nfrom assay.component import {exports}\n\n\
         ready(json.loads({samples}))\n"
    )
}

fn samples(project: &Project) -> Vec<Value> {
    let text = fs::read_to_string(project.dir().join(ITEMS)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let items = lines.filter_map(|line| serde_json::from_str(line).ok());
    items.filter(Value::is_object).take(N_SAMPLES).collect()
}

/// The tool's own words for what authors meet first.
fn explained(error: BuildError) -> BuildError {
    let BuildError::ToolFailed { tool, mut said } = error else {
        return error;
    };
    if said.contains("ModuleNotFoundError") {
        said.push_str(
            "\nhint: name packages in requirements.txt; they have to work without compiled extensions",
        );
    } else if said.contains("unknown package") || said.contains("world `python-plugin`") {
        said.push_str(
            "\nhint: the contract in assay/wit is older than this program: `assay plugin update`",
        );
    }
    BuildError::ToolFailed { tool, said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_imports_what_the_evaluators_need_and_nothing_else() {
        let plain = Needs {
            capabilities: Vec::new(),
            checks_config: false,
        };
        let text = world_text(&plain);
        assert!(!text.contains("model") && !text.contains("check"), "{text}");
        let all = Needs {
            capabilities: vec!["model".to_owned(), "trace".to_owned()],
            checks_config: true,
        };
        let text = world_text(&all);
        for line in [
            "import model;",
            "import trace-reader;",
            "export config-check;",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn compiled_extensions_and_environments_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for file in [
            "a.py",
            ".venv/x.py",
            "target/y.py",
            "lib/b.so",
            "lib/c.py",
            "plugin.wasm",
        ] {
            let file = from.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        fs::create_dir_all(&to).unwrap();
        copy(&from, &to, &LEFT_OUT).unwrap();
        remove_native(&to).unwrap();
        let there = |name: &str| to.join(name).exists();
        assert!(there("a.py") && there("lib/c.py"));
        for name in [".venv", "target", "lib/b.so", "plugin.wasm"] {
            assert!(!there(name), "{name}");
        }
    }
}
