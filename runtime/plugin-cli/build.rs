//! Embeds the files of `perpend plugin new`: templates, SDK sources and the contract; and the implementation of WASI 0.1.
//!
//! A build script instead of a macro crate: it detects new files, excludes toolchain output, and makes the manifest of the
//! Rust SDK independent of the workspace.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use toml::{Table, Value};

/// Folders of toolchain output.
const EXCLUDED_FOLDERS: [&str; 4] = ["target", "node_modules", "__pycache__", ".venv"];
/// File name extensions of toolchain output.
const EXCLUDED_EXTENSIONS: [&str; 2] = [".wasm", ".pyc"];
/// Folders of an SDK that are not embedded.
const INTERNAL: [&str; 2] = ["tests", "test"];

fn main() {
    if let Err(why) = embed().and_then(|()| assemble()) {
        println!(
            "cargo::error=the templates or the implementation of WASI 0.1 cannot be embedded: {why}"
        );
        process::exit(1);
    }
}

/// `wasi.wat` as a module.
fn assemble() -> io::Result<()> {
    const TEXT: &str = "src/wasi.wat";
    println!("cargo::rerun-if-changed={TEXT}");
    let module = wat::parse_file(TEXT).map_err(io::Error::other)?;
    fs::write(variable_path("OUT_DIR")?.join("wasi.wasm"), module)
}

fn variable_path(name: &str) -> io::Result<PathBuf> {
    env::var(name).map(PathBuf::from).map_err(io::Error::other)
}

fn embed() -> io::Result<()> {
    let out_dir = variable_path("OUT_DIR")?;
    let root = variable_path("CARGO_MANIFEST_DIR")?.join("../..");
    let root = root.canonicalize()?;
    let sdk = root.join("plugin-sdk");
    println!("cargo::rerun-if-changed={}", sdk.display());
    println!("cargo::rerun-if-changed={}", root.join("Cargo.toml").display());
    println!("cargo::rerun-if-changed=build.rs");

    let mut files = Vec::new();
    collect(&sdk, "", &mut files)?;
    files.sort();
    let workspace: Table = parse(&root.join("Cargo.toml"))?;
    let mut table = String::from("&[\n");
    for name in files {
        let mut path = sdk.join(&name);
        let in_template = name.starts_with("templates/");
        if !in_template && name.ends_with("Cargo.toml") {
            let manifest = without_workspace(parse(&path)?, &workspace);
            path = out_dir.join(name.replace('/', "-"));
            fs::write(&path, manifest.to_string())?;
        }
        let _ = writeln!(table, "    ({name:?}, include_bytes!({path:?})),");
    }
    table.push(']');
    fs::write(out_dir.join("files.rs"), table)
}

/// Names of the files below `folder`, relative to `plugin-sdk`.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let below = format!("{prefix}{name}");
        let in_template = below.starts_with("templates/");
        if entry.file_type()?.is_dir() {
            let skipped = EXCLUDED_FOLDERS.contains(&name.as_str())
                || (!in_template && INTERNAL.contains(&name.as_str()));
            if !skipped {
                collect(&entry.path(), &format!("{below}/"), files)?;
            }
        } else if !EXCLUDED_EXTENSIONS.iter().any(|ending| name.ends_with(ending)) {
            files.push(below);
        }
    }
    Ok(())
}

fn parse(path: &Path) -> io::Result<Table> {
    let text = fs::read_to_string(path)?;
    text.parse().map_err(io::Error::other)
}

/// The manifest without `workspace = true`, as `cargo package` writes it.
fn without_workspace(mut manifest: Table, root: &Table) -> Table {
    let inherited = |section: &str, key: &str| root["workspace"].get(section)?.get(key).cloned();
    manifest.remove("lints");
    manifest.remove("dev-dependencies");
    if let Some(Value::Table(package)) = manifest.get_mut("package") {
        for (key, value) in package.iter_mut() {
            if is_inherited(value)
                && let Some(own) = inherited("package", key)
            {
                *value = own;
            }
        }
    }
    let resolve = |dependencies: &mut Value| {
        for (name, value) in dependencies.as_table_mut().into_iter().flatten() {
            if is_inherited(value)
                && let Some(own) = inherited("dependencies", name)
            {
                *value = merged(own, value);
            }
        }
    };
    if let Some(dependencies) = manifest.get_mut("dependencies") {
        resolve(dependencies);
    }
    let targets = manifest.get_mut("target").and_then(Value::as_table_mut);
    for (_, target) in targets.into_iter().flatten() {
        if let Some(dependencies) = target.get_mut("dependencies") {
            resolve(dependencies);
        }
    }
    manifest
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// The workspace's dependency with the features that the crate adds.
fn merged(own: Value, member: &Value) -> Value {
    let mut table = match own {
        Value::Table(table) => table,
        version => Table::from_iter([("version".to_owned(), version)]),
    };
    if let Some(path) = table.get("path").and_then(Value::as_str) {
        // In a project the folders of `plugin-sdk` are siblings too.
        let path = path.replacen("plugin-sdk/", "../", 1);
        table.insert("path".to_owned(), path.into());
    }
    let added = member.get("features").and_then(Value::as_array);
    if let Some(added) = added {
        let features = table.entry("features").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(features) = features {
            features.extend(added.iter().cloned());
        }
    }
    if let Some(optional) = member.get("optional") {
        table.insert("optional".to_owned(), optional.clone());
    }
    Value::Table(table)
}
