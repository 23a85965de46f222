//! `cargo xtask plugins`: the plug-ins that cargo alone cannot build, into `target/share/perpend/components`.
//!
//! Interpreters and scorer libraries become components by the toolchains of their languages, which
//! `.ci/guests` installs. Every program in `target` finds them there, without a new build
//! (docs/decisions/0004-components-beside-the-program.md). A component that is newer than everything it is made from is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::{Context, bail, ensure};

use crate::shell::{self, coloured};

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these, such as `javascript`.
    #[arg(value_name = "NAME")]
    only: Vec<String>,
    /// Also those that are up to date.
    #[arg(long)]
    force: bool,
    /// Where the toolchains are; without it `PERPEND_TOOLCHAINS`, else what `.ci/guests` installs.
    #[arg(long, value_name = "FOLDER")]
    toolchains: Option<PathBuf>,
}

/// One component.
struct Recipe {
    /// What comes after `perpend/` in its name; also its folder in `plugins/`.
    name: &'static str,
    /// Further folders it is made from.
    sources: &'static [&'static str],
    /// The command that makes it.
    command: fn(&Places) -> Command,
}

/// Where a recipe finds and puts things.
pub(crate) struct Places {
    /// The folder of the plug-in.
    pub(crate) folder: PathBuf,
    /// The file to make.
    pub(crate) out: PathBuf,
    /// The folder with `bin/` and `node_modules/`.
    pub(crate) toolchains: PathBuf,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "javascript",
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |places| javascript(places, &[]),
    },
    Recipe {
        name: "autoevals-js",
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |places| {
            let stand_ins = [
                ("openai", "openai.js"),
                ("openai/helpers/zod", "openai-zod.js"),
            ];
            javascript(places, &stand_ins)
        },
    },
    Recipe {
        name: "python",
        sources: &["plugin-sdk/python", "plugin-sdk/wit"],
        command: python,
    },
    Recipe {
        name: "autoevals-py",
        sources: &["plugin-sdk/python", "plugin-sdk/wit"],
        command: python,
    },
];

/// Builds what is asked for and not up to date.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    if let Some(unknown) = args
        .only
        .iter()
        .find(|name| RECIPES.iter().all(|r| r.name != **name))
    {
        let names: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        bail!(
            "no plug-in is called {unknown}; there are {}",
            names.join(", ")
        );
    }
    let target = shell::target_dir()?;
    let folder = target.join("share/perpend/components");
    fs::create_dir_all(&folder)?;
    let toolchains = toolchains(args, &target);
    let wanted =
        |recipe: &&Recipe| args.only.is_empty() || args.only.iter().any(|n| n == recipe.name);
    let wanted: Vec<&Recipe> = RECIPES.iter().filter(wanted).collect();
    for (at, recipe) in wanted.iter().enumerate() {
        let told = coloured(36, &format!("[{}/{}]", at + 1, wanted.len()));
        let places = Places {
            folder: shell::root().join("plugins").join(recipe.name),
            out: folder.join(format!("{}.wasm", recipe.name)),
            toolchains: toolchains.clone(),
        };
        if !args.force && is_fresh(recipe, &places)? {
            eprintln!("{told} {}: up to date", recipe.name);
            continue;
        }
        eprintln!("{told} {}: building", coloured(1, recipe.name));
        let begun = Instant::now();
        let size = build(recipe, &places)? as f64 / 1e6;
        let took = begun.elapsed().as_secs_f64();
        eprintln!("      {size:.1} MB, {took:.1} s");
    }
    Ok(true)
}

fn toolchains(args: &Args, target: &Path) -> PathBuf {
    let named = args.toolchains.clone();
    let named = named.or_else(|| std::env::var_os("PERPEND_TOOLCHAINS").map(PathBuf::from));
    let folder = named.unwrap_or_else(|| target.join("guests"));
    folder.canonicalize().unwrap_or(folder)
}

/// Makes the component; its size.
fn build(recipe: &Recipe, places: &Places) -> anyhow::Result<u64> {
    let missing = || {
        format!(
            "plugins/{} needs the toolchains that .ci/guests installs; looked in {}",
            recipe.name,
            places.toolchains.display()
        )
    };
    ensure!(places.toolchains.is_dir(), missing());
    let new = Places {
        folder: places.folder.clone(),
        out: places.out.with_extension("new"),
        toolchains: places.toolchains.clone(),
    };
    let mut command = (recipe.command)(&new);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::iter::once(places.toolchains.join("bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?);
    let built = command
        .current_dir(&places.folder)
        .status()
        .with_context(missing)?;
    ensure!(
        built.success(),
        "plugins/{} does not build ({built})",
        recipe.name
    );
    fs::rename(&new.out, &places.out)?;
    Ok(fs::metadata(&places.out)?.len())
}

/// Whether the component is newer than everything it is made from.
fn is_fresh(recipe: &Recipe, places: &Places) -> anyhow::Result<bool> {
    let modified = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    let Ok(component) = modified(&places.out) else {
        return Ok(false);
    };
    let mut newest = SystemTime::UNIX_EPOCH;
    let shared = recipe
        .sources
        .iter()
        .map(|folder| shell::root().join(folder));
    for folder in shared.chain([places.folder.clone()]) {
        newest = newest.max(newest_below(&folder)?);
    }
    // The versions of what is installed stand there.
    for file in [
        shell::root().join(".ci/guests"),
        shell::root().join("xtask/src/plugins.rs"),
    ] {
        newest = newest.max(modified(&file)?);
    }
    Ok(newest <= component)
}

fn newest_below(folder: &Path) -> anyhow::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let found = if entry.file_type()?.is_dir() {
            newest_below(&entry.path())?
        } else {
            entry.metadata()?.modified()?
        };
        newest = newest.max(found);
    }
    Ok(newest)
}

/// `build.mjs` of the SDK, with QuickJS; `stand_ins` take the place of packages.
fn javascript(places: &Places, stand_ins: &[(&str, &str)]) -> Command {
    let sdk = shell::root().join("plugin-sdk");
    let modules = places.toolchains.join("node_modules");
    let mut command = Command::new("node");
    command.arg(sdk.join("javascript/build.mjs"));
    command.args(["--entry", "plugin.js", "--engine", "quickjs"]);
    command.arg("--wit").arg(sdk.join("wit"));
    command.arg("--out").arg(&places.out);
    command.arg("--esbuild").arg(modules.join("esbuild"));
    command
        .arg("--componentize")
        .arg(modules.join("componentize-qjs"));
    command.arg("--modules").arg(modules);
    for (package, file) in stand_ins {
        command.arg("--alias").arg(format!("{package}={file}"));
    }
    command
}

/// `build.py` of the SDK; packages are fetched once into a folder of the target.
fn python(places: &Places) -> Command {
    let sdk = shell::root().join("plugin-sdk");
    let name = places.folder.file_name().unwrap_or_default();
    // Its own interpreter where there is one: it has pip.
    let own = places.toolchains.join("venv/bin/python3");
    let mut command = Command::new(if own.is_file() { own } else { "python3".into() });
    command
        .arg(sdk.join("python/build.py"))
        .arg("--project")
        .arg(&places.folder)
        .arg("--wit")
        .arg(sdk.join("wit"))
        .arg("--scratch")
        .arg(places.toolchains.join("scratch").join(name))
        .arg("--out")
        .arg(&places.out)
        .arg("--componentize")
        .arg(places.toolchains.join("bin/componentize-py"));
    command
}
