//! `cargo xtask plugins`: the plug-ins that cargo alone cannot build, into `target/share/perpend/components`.
//!
//! Interpreters and scorer libraries become components by the toolchains of their languages, which are installed
//! first. Every program in `target` finds them there, without a new build
//! (docs/decisions/0004-optional-components.md). A component that is newer than everything it is made
//! from is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::progress::{Part, Progress};
use crate::shell;
use crate::toolchains::{self, Extent, Source};

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these, such as `javascript`.
    #[arg(value_name = "NAME")]
    only: Vec<String>,
    /// Also those that are up to date.
    #[arg(long)]
    force: bool,
}

/// One component.
struct Recipe {
    /// What comes after the vendor in its name; also its folder in `plugins/`.
    name: &'static str,
    /// Where its toolchain comes from.
    source: Source,
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

/// What the names of all of them begin with.
const VENDOR: &str = "perpend/";

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "javascript",
        source: Source::Node,
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |places| javascript(places, &[]),
    },
    Recipe {
        name: "autoevals-js",
        source: Source::Node,
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |places| {
            let stand_ins = [("openai", "openai.js"), ("openai/helpers/zod", "openai-zod.js")];
            javascript(places, &stand_ins)
        },
    },
    Recipe {
        name: "python",
        source: Source::Python,
        sources: &["plugin-sdk/python", "plugin-sdk/wit"],
        command: python,
    },
    Recipe {
        name: "autoevals-py",
        source: Source::Python,
        sources: &["plugin-sdk/python", "plugin-sdk/wit"],
        command: python,
    },
];

/// The names of all of them, without the vendor.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|recipe| recipe.name)
}

/// Builds what is asked for and not up to date.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    if let Some(unknown) = args.only.iter().find(|name| RECIPES.iter().all(|r| r.name != **name)) {
        let names: Vec<&str> = names().collect();
        bail!("no plug-in is called {unknown}; there are {}", names.join(", "));
    }
    let target = shell::target_dir()?;
    let failed = Progress::show(|progress| {
        thread::scope(|scope| {
            let sources = Source::ALL.map(|source| {
                let (part, target) = (progress.part(source.name()), &target);
                scope.spawn(move || build(source, args, Extent::Components, target, part))
            });
            let failed = sources.map(|source| shell::joined(source).err());
            failed.into_iter().flatten().collect::<Vec<_>>()
        })
    });
    failed.iter().for_each(|error| eprintln!("{error:#}"));
    Ok(failed.is_empty())
}

/// All components of one source, its toolchain first.
pub(crate) fn build_all(
    source: Source,
    extent: Extent,
    target: &Path,
    part: Part<'_>,
) -> anyhow::Result<()> {
    let args = Args { only: Vec::new(), force: false };
    build(source, &args, extent, target, part)
}

fn build(
    source: Source,
    args: &Args,
    extent: Extent,
    target: &Path,
    part: Part<'_>,
) -> anyhow::Result<()> {
    let folder = target.join("share/perpend/components");
    fs::create_dir_all(&folder)?;
    let (toolchains, is_given) = toolchains::guests(target);
    let mut stale = Vec::new();
    for recipe in RECIPES.iter().filter(|recipe| recipe.source == source) {
        let is_wanted = args.only.is_empty() || args.only.iter().any(|name| name == recipe.name);
        let out = folder.join(format!("{}.wasm", recipe.name));
        if is_wanted && (args.force || !is_fresh(recipe, &out)?) {
            stale.push((recipe, out));
        }
    }
    if stale.is_empty() && extent == Extent::Components {
        return Ok(());
    }
    let toolchain = || {
        if !is_given {
            if let Some(lack) = source.lack() {
                bail!("this machine has no {lack}");
            }
            toolchains::install(source, extent, &toolchains, part)?;
        }
        let found = toolchains.canonicalize();
        found.with_context(|| toolchains.display().to_string())
    };
    let make_all = || {
        let toolchains = toolchain()?;
        stale.iter().try_for_each(|(recipe, out)| {
            let places = Places {
                folder: shell::root().join("plugins").join(recipe.name),
                out: out.clone(),
                toolchains: toolchains.clone(),
            };
            let what = format!("building {VENDOR}{}", recipe.name);
            part.step(&what, || make(recipe, &places))
        })
    };
    let made = make_all();
    if stale.is_empty() {
        // All that is missing is the tests' toolchain.
        return made;
    }
    made.with_context(|| left_out(source, &stale))
}

/// One line: what is left out on this machine, and how it comes later.
fn left_out(source: Source, stale: &[(&Recipe, PathBuf)]) -> String {
    let names = stale.iter().map(|(recipe, _)| format!("{VENDOR}{}", recipe.name));
    let names: Vec<String> = names.collect();
    format!(
        "{}: left out {} (later, without a new build: `cargo xtask plugins`, or `perpend plugin add FILE` with a \
         component from elsewhere)",
        source.name(),
        names.join(" and ")
    )
}

/// Makes the component.
fn make(recipe: &Recipe, places: &Places) -> anyhow::Result<()> {
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
    toolchains::run(command.current_dir(&places.folder))
        .with_context(|| format!("plugins/{} does not build", recipe.name))?;
    Ok(fs::rename(&new.out, &places.out)?)
}

/// Whether the component is newer than everything it is made from.
fn is_fresh(recipe: &Recipe, out: &Path) -> anyhow::Result<bool> {
    let modified = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    let Ok(component) = modified(out) else {
        return Ok(false);
    };
    let mut newest = SystemTime::UNIX_EPOCH;
    let shared = recipe.sources.iter().map(|folder| shell::root().join(folder));
    let own = shell::root().join("plugins").join(recipe.name);
    for folder in shared.chain([own]) {
        newest = newest.max(newest_below(&folder)?);
    }
    // The versions of what is installed stand there.
    for file in
        [shell::root().join("xtask/src/toolchains.rs"), shell::root().join("xtask/src/plugins.rs")]
    {
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
    command.arg("--componentize").arg(modules.join("componentize-qjs"));
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
