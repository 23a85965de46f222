//! The code editor of the pages: `runtime/views/editor` and its packages from npm, bundled into `target/share/perpend/assets`.
//!
//! Every program in `target` finds it there (docs/decisions/0014-code-editor.md). A bundle that is newer than everything it is
//! made from is left as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::progress::Task;
use crate::toolchains::{self, Extent, Source};
use crate::{plugins, shell};

/// Entry, bundler script and lock file of the packages.
const SOURCE: &str = "runtime/views/editor";
/// The folder of the bundle below the prefix of the program.
pub(crate) const ASSETS: &str = "share/perpend/assets";
/// The script, its compressed form and the licences of the bundled packages. The last one is written last.
pub(crate) const FILES: [&str; 3] =
    ["code-editor.js", "code-editor.js.br", "code-editor.js.LICENSE.txt"];

/// Bundles the editor, unless it is up to date.
pub(crate) fn build(target: &Path, task: Task<'_>) -> anyhow::Result<()> {
    let assets = target.join(ASSETS);
    if is_fresh(&assets)? {
        return Ok(());
    }
    let made = bundle(target, &assets, task);
    made.context("javascript: left out the code editor of the pages (later: `cargo xtask plugins`)")
}

fn bundle(target: &Path, assets: &Path, task: Task<'_>) -> anyhow::Result<()> {
    let (toolchains, is_given) = toolchains::guests(target);
    if let Some(lack) = Source::Node.lack() {
        bail!("this machine has no {lack}");
    }
    if !is_given {
        toolchains::install(Source::Node, Extent::Components, &toolchains, task)?;
    }
    let packages = target.join("npm");
    toolchains::install_locked(("code-editor", SOURCE, "ci"), &packages, task)?;
    let new = assets.join("new");
    fs::create_dir_all(&new)?;
    let script = new.join(FILES[0]);
    let mut node = Command::new("node");
    node.arg(shell::root().join(SOURCE).join("build.mjs"));
    node.arg("--esbuild").arg(toolchains.join("node_modules/esbuild"));
    node.arg("--modules").arg(packages.join("code-editor/node_modules"));
    node.arg("--out").arg(&script);
    task.step("bundling the code editor", || toolchains::run(&mut node))
        .with_context(|| format!("{SOURCE} does not build"))?;
    // A program must not read the new script with the old compressed form.
    let _ = fs::remove_file(assets.join(FILES[1]));
    for file in FILES {
        fs::rename(new.join(file), assets.join(file)).context(file)?;
    }
    Ok(fs::remove_dir(new)?)
}

/// Whether the bundle is newer than everything it is made from.
fn is_fresh(assets: &Path) -> anyhow::Result<bool> {
    let modified = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    let Ok(made) = modified(&assets.join(FILES[2])) else {
        return Ok(false);
    };
    let newest = plugins::newest_below(&shell::root().join(SOURCE))?;
    // This file contains the version of the bundler.
    let bundler = modified(&shell::root().join("xtask/src/toolchains.rs"))?;
    Ok(newest.max(bundler) <= made)
}

/// Copies the bundle to where a program in `folder/bin` looks for it.
pub(crate) fn pack(assets: &Path, folder: &Path) -> anyhow::Result<()> {
    let to = folder.join(ASSETS);
    fs::create_dir_all(&to)?;
    for file in FILES {
        fs::copy(assets.join(file), to.join(file)).context(file)?;
    }
    Ok(())
}
