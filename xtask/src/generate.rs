//! The files that are generated, documents and bindings, written or compared.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::{contract, shell};

/// A document, and what `perpend docs` calls it.
const DOCUMENTS: &[(&str, &str)] = &[
    ("docs/config.md", "config"),
    ("docs/access.md", "access"),
    ("docs/errors.md", "errors"),
    ("docs/openapi.json", "openapi"),
];

/// What a program of the workspace prints. It is built with the features that the tests build it with: alone it
/// would have others, and most of its dependencies would be compiled again.
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

/// Makes files: each with its text, the paths below the repository's root.
type Part = fn() -> anyhow::Result<Vec<(PathBuf, String)>>;

/// What needs no server first: it is there whatever state the server is in.
const PARTS: &[Part] = &[bindings, contract::files, documents];

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
    for part in PARTS {
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

/// Each file that differs from what the code says, as sentences.
pub(crate) fn drift() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for part in PARTS {
        for (path, text) in part()? {
            let stored = std::fs::read_to_string(shell::root().join(&path)).unwrap_or_default();
            if stored != text {
                found.push(format!(
                    "{} is not what the code says: run `cargo xtask generate`",
                    path.display()
                ));
            }
        }
    }
    Ok(found)
}
