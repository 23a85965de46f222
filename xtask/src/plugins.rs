//! `cargo xtask plugins`: the plug-ins that cargo alone cannot build, into `target/share/perpend/components`.
//!
//! Interpreters and scorer libraries become components by the toolchains of their languages, which are installed
//! first. Every program in `target` finds them there without a rebuild
//! (docs/decisions/0004-optional-components.md). A component that is newer than everything it is made
//! from is left as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::progress::{Progress, Task};
use crate::toolchains::{self, Extent, Source};
use crate::{editor, shell};

/// Selects the plug-ins.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build only these, such as `javascript`.
    #[arg(value_name = "NAME")]
    only: Vec<String>,
    /// Also build plug-ins that are up to date.
    #[arg(long)]
    force: bool,
}

/// One component.
struct Recipe {
    /// Its name without vendor; also its folder in `plugins/`.
    name: &'static str,
    /// The source of its toolchain.
    source: Source,
    /// Further source folders.
    sources: &'static [&'static str],
    /// The build command.
    command: fn(&RecipePaths) -> Command,
}

/// Paths of a recipe.
pub(crate) struct RecipePaths {
    /// The folder of the plug-in.
    pub(crate) folder: PathBuf,
    /// The output file.
    pub(crate) out: PathBuf,
    /// The folder with `bin/` and `node_modules/`.
    pub(crate) toolchains: PathBuf,
}

/// The common prefix of the names.
const VENDOR: &str = "perpend/";

const RECIPES: &[Recipe] = &[
    Recipe {
        name: "javascript",
        source: Source::Node,
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |paths| javascript(paths, &[]),
    },
    Recipe {
        name: "autoevals-js",
        source: Source::Node,
        sources: &["plugin-sdk/javascript", "plugin-sdk/wit"],
        command: |paths| {
            let stand_ins = [("openai", "openai.js"), ("openai/helpers/zod", "openai-zod.js")];
            javascript(paths, &stand_ins)
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

/// Builds the selected plug-ins that are outdated.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    if let Some(unknown) = args.only.iter().find(|name| RECIPES.iter().all(|r| r.name != **name)) {
        let names: Vec<&str> = names().collect();
        bail!("unknown plug-in `{unknown}`; must be one of {}", names.join(", "));
    }
    let target = shell::target_dir()?;
    let failed = Progress::show(|progress| {
        thread::scope(|scope| {
            let sources = Source::ALL.map(|source| {
                let (task, target) = (progress.task(source.name()), &target);
                scope.spawn(move || {
                    build(source, args, Extent::Components, target, task)?;
                    match source == Source::Node && args.only.is_empty() {
                        true => editor::build(target, task),
                        false => Ok(()),
                    }
                })
            });
            let failed = sources.map(|source| shell::joined(source).err());
            failed.into_iter().flatten().collect::<Vec<_>>()
        })
    });
    failed.iter().for_each(|error| eprintln!("{error:#}"));
    Ok(failed.is_empty())
}

/// Builds all components of one toolchain source, after the toolchain. Those of npm include the code editor of the pages.
pub(crate) fn build_all(
    source: Source,
    extent: Extent,
    target: &Path,
    task: Task<'_>,
) -> anyhow::Result<()> {
    let args = Args { only: Vec::new(), force: false };
    build(source, &args, extent, target, task)?;
    match source {
        Source::Node => editor::build(target, task),
        Source::Python => Ok(()),
    }
}

fn build(
    source: Source,
    args: &Args,
    extent: Extent,
    target: &Path,
    task: Task<'_>,
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
            toolchains::install(source, extent, &toolchains, task)?;
        }
        let found = toolchains.canonicalize();
        found.with_context(|| toolchains.display().to_string())
    };
    let make_all = || {
        let toolchains = toolchain()?;
        stale.iter().try_for_each(|(recipe, out)| {
            let paths = RecipePaths {
                folder: shell::root().join("plugins").join(recipe.name),
                out: out.clone(),
                toolchains: toolchains.clone(),
            };
            let what = format!("building {VENDOR}{}", recipe.name);
            task.step(&what, || make(recipe, &paths))
        })
    };
    let made = make_all();
    if stale.is_empty() {
        // All that is missing is the tests' toolchain.
        return made;
    }
    made.with_context(|| left_out(source, &stale))
}

/// One line about the plug-ins that cannot be built on this machine, and how to build them later.
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
fn make(recipe: &Recipe, paths: &RecipePaths) -> anyhow::Result<()> {
    let new = RecipePaths {
        folder: paths.folder.clone(),
        out: paths.out.with_extension("new"),
        toolchains: paths.toolchains.clone(),
    };
    let mut command = (recipe.command)(&new);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(paths.toolchains.join("bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders)?);
    toolchains::run(command.current_dir(&paths.folder))
        .with_context(|| format!("plugins/{} does not build", recipe.name))?;
    Ok(fs::rename(&new.out, &paths.out)?)
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
    // These files contain the versions of the toolchains.
    for file in
        [shell::root().join("xtask/src/toolchains.rs"), shell::root().join("xtask/src/plugins.rs")]
    {
        newest = newest.max(modified(&file)?);
    }
    Ok(newest <= component)
}

pub(crate) fn newest_below(folder: &Path) -> anyhow::Result<SystemTime> {
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
fn javascript(paths: &RecipePaths, stand_ins: &[(&str, &str)]) -> Command {
    let sdk = shell::root().join("plugin-sdk");
    let modules = paths.toolchains.join("node_modules");
    let mut command = Command::new("node");
    command.arg(sdk.join("javascript/build.mjs"));
    command.args(["--entry", "plugin.js", "--engine", "quickjs"]);
    command.arg("--wit").arg(sdk.join("wit"));
    command.arg("--out").arg(&paths.out);
    command.arg("--esbuild").arg(modules.join("esbuild"));
    command.arg("--componentize").arg(modules.join("componentize-qjs"));
    command.arg("--modules").arg(modules);
    for (package, file) in stand_ins {
        command.arg("--alias").arg(format!("{package}={file}"));
    }
    command
}

/// `build.py` of the SDK; packages are fetched once into a folder of the target.
fn python(paths: &RecipePaths) -> Command {
    let sdk = shell::root().join("plugin-sdk");
    let name = paths.folder.file_name().unwrap_or_default();
    // Its own interpreter where there is one: it has pip.
    let own = paths.toolchains.join("venv/bin/python3");
    let mut command = Command::new(if own.is_file() { own } else { "python3".into() });
    command
        .arg(sdk.join("python/build.py"))
        .arg("--project")
        .arg(&paths.folder)
        .arg("--wit")
        .arg(sdk.join("wit"))
        .arg("--scratch")
        .arg(paths.toolchains.join("scratch").join(name))
        .arg("--out")
        .arg(&paths.out)
        .arg("--componentize")
        .arg(paths.toolchains.join("bin/componentize-py"));
    command
}
