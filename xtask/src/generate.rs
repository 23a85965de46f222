//! Writes or compares the generated files: documents and bindings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::{contract, shell};

/// A document and its name in `perpend docs`.
const DOCUMENTS: &[(&str, &str)] = &[
    ("docs/config.md", "config"),
    ("docs/access.md", "access"),
    ("docs/errors.md", "errors"),
    ("docs/openapi.json", "openapi"),
];

/// The output of a program of the workspace. It is built with the features of the test build: a separate build would have
/// other features and compile most dependencies again.
fn printed(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let build = ["build", "--quiet", "--workspace", "--bin", program];
    let built = shell::linting_cargo(&build)?.status()?;
    anyhow::ensure!(built.success(), "{program} does not build");
    let path = shell::target_dir()?.join("debug").join(program);
    let out = Command::new(path).args(args).current_dir(shell::root()).output()?;
    anyhow::ensure!(
        out.status.success(),
        "{program} {}: {}",
        args.join(" "),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).context("not UTF-8")
}

/// Generates files: paths relative to the root of the repository, and texts.
type Generator = fn() -> anyhow::Result<Vec<(PathBuf, String)>>;

/// Generators that do not need the server come first: they work in every state of the server.
const GENERATORS: &[Generator] = &[bindings, contract::files, documents];

fn bindings() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let files: BTreeMap<PathBuf, String> =
        serde_json::from_str(&printed("perpend-bindings", &[])?)?;
    Ok(files.into_iter().collect())
}

fn documents() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let rendered = DOCUMENTS
        .iter()
        .map(|(path, what)| Ok((PathBuf::from(path), printed("perpend", &["docs", what])?)));
    rendered.collect()
}

/// Writes each file.
pub(crate) fn write() -> anyhow::Result<bool> {
    for part in GENERATORS {
        for (path, text) in part()? {
            let shown = path.display().to_string();
            let path = shell::root().join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).with_context(|| shown.clone())?;
            }
            std::fs::write(path, text).with_context(|| shown.clone())?;
            eprintln!("wrote {shown}");
        }
    }
    Ok(true)
}

/// Whether two texts are equal, or the same JSON value: some members of the API document have no fixed order.
fn is_same(stored: &str, text: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    stored == text || value(text).is_some_and(|text| value(stored) == Some(text))
}

/// Outdated files, as sentences.
pub(crate) fn drift() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for part in GENERATORS {
        for (path, text) in part()? {
            let stored = std::fs::read_to_string(shell::root().join(&path)).unwrap_or_default();
            if !is_same(&stored, &text) {
                found.push(format!("{} is outdated: run `cargo xtask generate`", path.display()));
            }
        }
    }
    Ok(found)
}
