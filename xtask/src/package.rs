//! `cargo xtask package`: builds the packages for users into `target/package`.
//!
//! - `perpend-VERSION-ARCH-linux.tar.gz`: the stripped program, its components, the code editor, the unit for systemd, the documents
//!   and the licences. It runs in any folder.
//! - `perpend-VERSION-….whl`: the same program and components for `pip install`. The tag names the required C library.
//! - `SHA256SUMS` of both.
//!
//! `--check` installs each of them in an empty folder and scores the sample traces there, isolated from the build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};

use crate::progress::{Progress, Task};
use crate::toolchains::{self, Extent, Source, run as say};
use crate::{editor, plugins, program, shell};

/// Largest download.
const MAX_BYTES: u64 = 40_000_000;
/// Longest time from the installation to the scores.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Plug-ins that score the sample traces: embedded ones and separate components.
const SCORERS: &[&str] =
    &["perpend/text", "perpend/python", "perpend/javascript", "perpend/autoevals-"];
/// Further files of the archive: source, destination.
const DOCUMENTS: &[(&str, &str)] = &[
    ("README.md", "share/doc/perpend/README.md"),
    ("CHANGELOG.md", "share/doc/perpend/CHANGELOG.md"),
    ("LICENSE-APACHE", "share/doc/perpend/LICENSE-APACHE"),
    ("LICENSE-MIT", "share/doc/perpend/LICENSE-MIT"),
    ("packaging/perpend.service", "lib/systemd/system/perpend.service"),
];
/// Components that contain the interpreter of another one, which is used as compression dictionary.
const FROM: &[(&str, &str)] = &[("autoevals-py", "python"), ("autoevals-js", "javascript")];
/// Compresses a component at the highest level, optionally with another one as dictionary: it is compressed once and
/// decompressed by every user. The window of 64 MiB covers both.
const ZSTD: &str = "import pathlib, sys, zstandard as z\n\
    text, *base = [pathlib.Path(path).read_bytes() for path in sys.argv[2:]]\n\
    how = z.ZstdCompressionParameters.from_level(19, source_size=len(text), window_log=26, enable_ldm=bool(base))\n\
    base = z.ZstdCompressionDict(base[0], dict_type=z.DICT_TYPE_RAWCONTENT) if base else None\n\
    packed = z.ZstdCompressor(compression_params=how, dict_data=base).compress(text)\n\
    pathlib.Path(sys.argv[1]).write_bytes(packed)";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also installs both in empty folders, and scores the sample traces with them.
    #[arg(long)]
    check: bool,
}

/// Paths of the build.
struct Package {
    version: String,
    /// The release build.
    program: PathBuf,
    /// Unpacked components.
    components: PathBuf,
    /// The code editor of the pages.
    assets: PathBuf,
    /// The output folder.
    out: PathBuf,
    /// The packaging tools.
    tools: PathBuf,
}

/// Builds outdated parts and both packages.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let target = shell::target_dir()?;
    let out = target.join("package");
    Progress::show(|progress| {
        let package = Package {
            version: version()?,
            program: target.join("release/perpend"),
            components: target.join("share/perpend/components"),
            assets: target.join(editor::ASSETS),
            tools: built(progress, &target)?,
            out,
        };
        let task = progress.task("package");
        let archive = task.step("packing the archive", || package.archive())?;
        let wheel = task.step("building the wheel", || package.wheel())?;
        let files = [&archive, &wheel];
        for line in package.sums(&files)?.lines() {
            task.say(line);
        }
        for file in files {
            task.say(&size(file)?);
        }
        if args.check {
            check(&package.out, &archive, unpacked, task)?;
            check(&package.out, &wheel, installed, task)?;
        }
        Ok(true)
    })
}

/// The program, the components and the tools that pack them, at the same time; where the tools are.
fn built(progress: &Progress, target: &Path) -> anyhow::Result<PathBuf> {
    thread::scope(|scope| {
        let components = Source::ALL.map(|source| {
            let task = progress.task(source.name());
            scope.spawn(move || plugins::build_all(source, Extent::Components, target, task))
        });
        let built =
            program::build(&["-p", "perpend", "--release", "--locked"], progress.task("server"));
        for component in components {
            shell::joined(component)?;
        }
        built?;
        toolchains::install_packagers(&target.join("package/tools"), progress.task("package"))
    })
}

fn modified(file: &Path) -> anyhow::Result<SystemTime> {
    let modified = fs::metadata(file).and_then(|found| found.modified());
    modified.with_context(|| file.display().to_string())
}

fn version() -> anyhow::Result<String> {
    let metadata = shell::metadata()?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let found = packages.find(|package| package["name"] == "perpend");
    let version = found.and_then(|package| package["version"].as_str());
    Ok(version.context("no version")?.to_owned())
}

impl Package {
    fn archive(&self) -> anyhow::Result<PathBuf> {
        let name = format!("perpend-{}-{}-linux", self.version, std::env::consts::ARCH);
        let stage = self.out.join("stage");
        toolchains::remove(&stage)?;
        let folder = stage.join(&name);
        fs::create_dir_all(folder.join("bin"))?;
        let mut strip = Command::new("strip");
        strip.arg("--strip-all").arg("-o");
        say(strip.arg(folder.join("bin/perpend")).arg(&self.program))?;
        self.pack_share(&folder)?;
        for (from, to) in DOCUMENTS {
            let to = folder.join(to);
            fs::create_dir_all(to.parent().context("a folder")?)?;
            fs::copy(shell::root().join(from), to).context(*from)?;
        }
        let archive = self.out.join(format!("{name}.tar.gz"));
        // The same content gives the same bytes, independent of user and time.
        let mut tar = Command::new("tar");
        tar.args(["--create", "--use-compress-program=gzip -9 -n"]);
        tar.args(["--sort=name", "--mtime=@0", "--format=ustar"]);
        tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
        tar.args(["--mode=u=rwX,go=rX"]);
        say(tar.arg("--file").arg(&archive).arg("-C").arg(&stage).arg(&name))?;
        Ok(archive)
    }

    /// Every component, packed, and the code editor of the pages, to where a program in `folder/bin` looks for them.
    fn pack_share(&self, folder: &Path) -> anyhow::Result<()> {
        let to = folder.join("share/perpend/components");
        fs::create_dir_all(&to)?;
        for name in plugins::names() {
            let packed = self.packed(name)?;
            fs::copy(&packed, to.join(packed.file_name().unwrap_or_default()))?;
        }
        editor::pack(&self.assets, folder)
    }

    /// The packed form of a component, made where it is missing or older than what it is made from.
    fn packed(&self, name: &str) -> anyhow::Result<PathBuf> {
        let base = FROM.iter().find(|(packed, _)| *packed == name);
        let base = base.map(|(_, base)| *base);
        let whose = base.map_or_else(|| name.to_owned(), |base| format!("{name}.from.{base}"));
        let from = [Some(name), base].into_iter().flatten();
        let from = from.map(|name| self.components.join(format!("{name}.wasm")));
        let from: Vec<PathBuf> = from.collect();
        let to = self.out.join("packed").join(format!("{whose}.wasm.zst"));
        let packed_at = modified(&to).ok();
        let mut is_fresh = true;
        for file in &from {
            is_fresh &= packed_at > Some(modified(file)?);
        }
        if is_fresh {
            return Ok(to);
        }
        fs::create_dir_all(self.out.join("packed"))?;
        let new = to.with_extension("new");
        let mut python = Command::new(self.tools.join("python"));
        say(python.args(["-c", ZSTD]).arg(&new).args(&from))?;
        fs::rename(&new, &to)?;
        Ok(to)
    }

    /// By maturin, which finds out which C library the program needs.
    fn wheel(&self) -> anyhow::Result<PathBuf> {
        let project = self.out.join("wheel");
        toolchains::remove(&project)?;
        self.pack_share(&project.join("perpend.data/data"))?;
        for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            fs::copy(shell::root().join(file), project.join(file))?;
        }
        let manifest = shell::root().join("runtime/perpend/Cargo.toml");
        fs::write(project.join("pyproject.toml"), self.pyproject(&manifest))?;
        let mut maturin = Command::new(self.tools.join("maturin"));
        maturin.args(["build", "--release", "--strip", "--locked", "--quiet"]);
        maturin.args(["--compression-level", "9", "--out", "."]);
        say(maturin.current_dir(&project))?;
        let made = fs::read_dir(&project)?.flatten().map(|entry| entry.path());
        let wheel = made.into_iter().find(|path| path.extension().is_some_and(|end| end == "whl"));
        let wheel = wheel.context("maturin made no wheel")?;
        let to = self.out.join(wheel.file_name().unwrap_or_default());
        fs::rename(wheel, &to)?;
        Ok(to)
    }

    fn pyproject(&self, manifest: &Path) -> String {
        format!(
            r#"[build-system]
requires = ["maturin>=1.16,<2"]
build-backend = "maturin"

[project]
name = "perpend"
version = "{}"
description = "Observability and evaluation of LLM applications: one server, evaluators in a sandbox"
readme = "README.md"
license = "MIT OR Apache-2.0"
license-files = ["LICENSE-APACHE", "LICENSE-MIT"]
requires-python = ">=3.8"

[tool.maturin]
bindings = "bin"
manifest-path = {:?}
data = "perpend.data"
"#,
            self.version,
            manifest.display().to_string()
        )
    }

    fn sums(&self, files: &[&PathBuf]) -> anyhow::Result<String> {
        let names = files.iter().filter_map(|file| file.file_name());
        let mut sum = Command::new("sha256sum");
        let sums = say(sum.args(names).current_dir(&self.out))?;
        fs::write(self.out.join("SHA256SUMS"), &sums)?;
        Ok(sums)
    }
}

/// A line with the size of a package; an error if it is too large.
fn size(file: &Path) -> anyhow::Result<String> {
    let n_bytes = fs::metadata(file)?.len();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mb = |n: u64| n as f64 / 1e6;
    ensure!(
        n_bytes <= MAX_BYTES,
        "{name} has {:.1} MB, more than {:.0}",
        mb(n_bytes),
        mb(MAX_BYTES)
    );
    Ok(format!("{:.1} MB  {}", mb(n_bytes), file.display()))
}

/// Installs a package with `install` and scores the sample traces with its files alone.
fn check(
    out: &Path,
    file: &Path,
    install: fn(&Path, &Path) -> anyhow::Result<PathBuf>,
    task: Task<'_>,
) -> anyhow::Result<()> {
    let kind = file.extension().unwrap_or_default().to_string_lossy();
    let folder = out.join("check").join(kind.as_ref());
    toolchains::remove(&folder)?;
    fs::create_dir_all(&folder)?;
    let started = Instant::now();
    let bin = install(file, &folder)?;
    let mut demo = Command::new(bin.join("perpend"));
    demo.args(["demo", "--once"]).env_clear();
    // No other program is found by its name.
    demo.env("PATH", "").env("HOME", &folder);
    let output = say(demo.current_dir(&folder))?;
    let took = started.elapsed();
    for scorer in SCORERS {
        ensure!(output.contains(scorer), "no score of {scorer}:\n{output}");
    }
    ensure!(took <= MAX_WAIT, "all scores came after {took:.1?}");
    task.say(&format!(
        "{}: installed, and all scores there after {:.1} s",
        file.file_name().unwrap_or_default().to_string_lossy(),
        took.as_secs_f64()
    ));
    Ok(())
}

fn unpacked(file: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file"]);
    say(tar.arg(file).current_dir(folder))?;
    Ok(folder.join("bin"))
}

fn installed(file: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    toolchains::new_venv(folder)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    say(pip.arg(file))?;
    Ok(folder.join("bin"))
}
