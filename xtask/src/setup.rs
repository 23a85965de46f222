//! Installs the tools of the tests other than cargo: databases, a browser, toolchains of other languages, clients.
//!
//! System packages come first, because a build needs some of them. The rest is fetched and built while cargo runs.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Context;

use crate::progress::Progress;
use crate::toolchains::{self, Extent, Source};
use crate::{plugins, shell};

/// A system tool used by tests, with its Debian packages.
struct SystemTool {
    what: &'static str,
    packages: &'static [&'static str],
    is_there: fn() -> bool,
}

const SYSTEM_TOOLS: &[SystemTool] = &[
    SystemTool {
        what: "make: required by the build",
        packages: &["make"],
        is_there: || has("make"),
    },
    SystemTool {
        what: "PostgreSQL: tests of the store and of whole servers on it",
        packages: &["postgresql"],
        is_there: has_postgres,
    },
    SystemTool {
        what: "Chromium with its driver: the walk through the pages",
        packages: &["chromium", "chromium-driver"],
        is_there: has_browser,
    },
    SystemTool {
        what: "Python with venv: plug-ins in Python, C and Go, clients in Python, the S3 server",
        packages: &["python3", "python3-venv"],
        is_there: || Source::Python.lack().is_none(),
    },
    SystemTool {
        what: "Node with npm: plug-ins in JavaScript and TypeScript, clients in JavaScript, checks of the pages",
        packages: &["nodejs", "npm"],
        is_there: || Source::Node.lack().is_none(),
    },
];

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn has_browser() -> bool {
    has("chromium") && has("chromedriver")
}

fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let mut versions = versions.into_iter().flatten().flatten();
    has("initdb") || versions.any(|version| version.path().join("bin/initdb").is_file())
}

/// Installs missing system packages if the user is permitted to, and reports the missing ones otherwise.
pub(crate) fn system() -> anyhow::Result<()> {
    let missing = || SYSTEM_TOOLS.iter().filter(|needed| !(needed.is_there)());
    let packages: Vec<&str> = missing().flat_map(|needed| needed.packages).copied().collect();
    if packages.is_empty() {
        return Ok(());
    }
    if has("apt-get") && is_root() {
        eprintln!("  installing {}", packages.join(" "));
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
            toolchains::run(&mut command)
        };
        apt(&["update", "-qq"])?;
        let install = ["install", "-y", "-qq", "--no-install-recommends"];
        apt(&[&install, packages.as_slice()].concat())?;
    }
    for needed in missing() {
        eprintln!("  skipped, not installed: {}", needed.what);
    }
    Ok(())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// Variables for the tests.
pub(crate) type Variables = Vec<(&'static str, std::ffi::OsString)>;

/// Installs toolchains and clients and builds the components. The returned variables contain their paths and make tests fail
/// instead of skipping them.
pub(crate) fn toolchains() -> anyhow::Result<Variables> {
    let target = shell::target_dir()?;
    let (guests, _) = toolchains::guests(&target);
    let given = std::env::var_os("PERPEND_SDKS").filter(|named| !named.is_empty());
    let clients = given.clone().map_or_else(|| target.join("sdk"), Into::into);
    let here: Vec<Source> =
        Source::ALL.into_iter().filter(|source| source.lack().is_none()).collect();
    Progress::note(|progress| {
        thread::scope(|scope| {
            let installing = here.iter().map(|&source| {
                let (target, clients) = (&target, &clients);
                let task = progress.task(source.name());
                let is_given = given.is_some();
                scope.spawn(move || {
                    plugins::build_all(source, Extent::Tests, target, task)?;
                    match is_given {
                        true => Ok(()),
                        false => toolchains::install_clients(source, clients, task),
                    }
                })
            });
            let installing: Vec<_> = installing.collect();
            installing.into_iter().try_for_each(shell::joined)
        })
    })?;
    let mut variables =
        vec![("PERPEND_TOOLCHAINS", absolute(&guests)?), ("PERPEND_SDKS", absolute(&clients)?)];
    let all_here = here.len() == Source::ALL.len();
    let must_run = [
        ("PERPEND_TEST_POSTGRES", has_postgres()),
        // axe-core, which checks the pages, comes from npm.
        ("PERPEND_TEST_BROWSER", has_browser() && here.contains(&Source::Node)),
        ("PERPEND_TEST_GUESTS", all_here),
        ("PERPEND_TEST_SDK", all_here),
    ];
    let must_run = must_run.into_iter().filter(|(_, is_there)| *is_there);
    variables.extend(must_run.map(|(name, _)| (name, "require".into())));
    Ok(variables)
}

fn absolute(folder: &Path) -> anyhow::Result<std::ffi::OsString> {
    let folder = std::path::absolute(folder).with_context(|| folder.display().to_string())?;
    Ok(folder.into())
}
