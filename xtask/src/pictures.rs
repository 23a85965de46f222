//! `cargo xtask pictures`: visits the pages in light and dark mode and in three sizes, and updates the pictures of the docs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::{setup, shell, tests};

/// The pictures in `docs/images`, and their names in the walk.
const OF_DOCS: [(&str, &str); 7] = [
    ("trace", "score-light"),
    ("overview", "overview-light"),
    ("traces", "traces-light"),
    ("timeline", "timeline-1440-light"),
    ("thread", "thread-1440-light"),
    ("compare", "compare-1440-light"),
    ("session", "session-light"),
];

/// Takes the pictures; `true` if the walk passed.
pub(crate) fn run() -> anyhow::Result<bool> {
    setup::system()?;
    let mut variables = setup::toolchains()?;
    let folder = shell::target_dir()?.join("pictures");
    variables.push(("PERPEND_TEST_SCREENSHOTS", folder.clone().into()));
    variables.push(("PERPEND_TEST_BROWSER", "require".into()));
    let passed = tests::walk(&variables)?;
    let docs = shell::root().join("docs").join("images");
    for (name, taken) in OF_DOCS {
        let taken = folder.join(format!("{taken}.png"));
        std::fs::copy(&taken, docs.join(format!("{name}.png")))
            .with_context(|| taken.display().to_string())?;
    }
    let index = index(&folder)?;
    eprintln!("  all of them: {}", index.display());
    Ok(passed)
}

/// A page with all pictures.
fn index(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(".png").then_some(name));
    }
    names.sort();
    let mut html = String::from(
        "<!doctype html><meta charset=utf-8><title>Pages</title><style>figure{display:inline-block;margin:8px}\
         img{max-width:420px;max-height:420px;border:1px solid #999}</style>",
    );
    for name in names {
        write!(
            html,
            "<figure><a href={name}><img loading=lazy src={name}></a><figcaption>{name}</figcaption></figure>"
        )?;
    }
    let path = folder.join("index.html");
    std::fs::write(&path, html)?;
    Ok(path)
}
