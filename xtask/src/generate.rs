//! The documents that are generated from the code, written or compared.

use anyhow::Context;

use crate::shell;

/// A document, and what `assay docs` calls it.
const DOCUMENTS: &[(&str, &str)] = &[
    ("docs/config.md", "config"),
    ("docs/errors.md", "errors"),
    ("docs/openapi.json", "openapi"),
];

fn render(what: &str) -> anyhow::Result<String> {
    let out =
        shell::cargo(&["run", "--quiet", "-p", "assay-server", "--", "docs", what]).output()?;
    anyhow::ensure!(
        out.status.success(),
        "assay docs {what}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).context("not UTF-8")
}

/// Writes each document.
pub(crate) fn write() -> anyhow::Result<bool> {
    for (path, what) in DOCUMENTS {
        std::fs::write(shell::root().join(path), render(what)?)
            .with_context(|| (*path).to_owned())?;
        eprintln!("wrote {path}");
    }
    Ok(true)
}

/// Each document that differs from what the code says, as sentences.
pub(crate) fn drift() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for (path, what) in DOCUMENTS {
        let stored = std::fs::read_to_string(shell::root().join(path)).unwrap_or_default();
        if stored != render(what)? {
            found.push(format!(
                "{path} is not what the code says: run `cargo xtask generate`"
            ));
        }
    }
    Ok(found)
}
