//! Builds the workspace, and runs as many test programs at a time as there are processors.
//!
//! A program runs several tests at a time, because many of them wait for a limit or for another process. More programs would
//! only make each test slower. The program `perpend` is built together with the tests, so that tests which start it need no
//! separate build with other features.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use crate::scratch::Scratch;
use crate::setup::Variables;
use crate::shell::{self, coloured};

const BUILD: &[&str] = &[
    "build",
    "--workspace",
    "--all-targets",
    "--locked",
    "--message-format=json-render-diagnostics",
];
/// Folders whose tests take longest, in this order: they start first, so that the last ones to end are short. The
/// walk in a browser runs next to small programs, because it measures what a reader waits for.
const LONGEST: &[&str] = &[
    "tests/it",
    "tests/sdk",
    "tests/guests",
    "runtime/scheduler",
    "runtime/worker-pool",
    "tests/browser",
    "runtime/telemetry",
    "runtime/catalog",
    "runtime/storage",
];

const WALK: &str = "tests/browser walk";

/// A program that runs longer hangs: it is killed and its output is shown.
const LONGEST_RUN: Duration = Duration::from_secs(45 * 60);

/// A test program.
struct Program {
    /// The folder of its package.
    folder: PathBuf,
    /// Folder and target, for messages.
    name: String,
    executable: PathBuf,
}

/// Files and variables that all programs share.
struct RunContext<'v> {
    perpend: PathBuf,
    /// Folder of the output of each program.
    logs: PathBuf,
    /// Folder of temporary files, if it is in memory.
    scratch: Option<Scratch>,
    variables: &'v Variables,
}

/// The results of a build.
#[derive(Default)]
pub(crate) struct Built {
    tests: Vec<Program>,
    /// The program `perpend`.
    perpend: Option<PathBuf>,
}

/// Builds all test programs and runs only the walk through the pages; `true` if it passed.
pub(crate) fn walk(variables: &Variables) -> anyhow::Result<bool> {
    let Some(built) = build()? else {
        return Ok(false);
    };
    let perpend = built.perpend.context("no program perpend was built")?;
    let mut programs = built.tests.iter();
    let walk = programs.find(|program| program.name == WALK);
    let walk = walk.with_context(|| format!("no program {WALK} was built"))?;
    let logs = shell::target_dir()?.join("test-logs");
    std::fs::create_dir_all(&logs)?;
    let scratch = Scratch::new();
    perform(walk, &RunContext { perpend, logs, scratch, variables })
}

/// Runs all test programs; `true` if all passed.
pub(crate) fn run(mut built: Built, variables: &Variables) -> anyhow::Result<bool> {
    let perpend = built.perpend.context("no program perpend was built")?;
    let rank = |program: &Program| {
        let at = LONGEST.iter().position(|start| program.name.starts_with(start));
        at.unwrap_or(LONGEST.len())
    };
    built.tests.sort_by_key(rank);
    let n_at_a_time = thread::available_parallelism().map_or(2, NonZeroUsize::get);
    let waiting = Mutex::new(VecDeque::from(built.tests));
    let failed = Mutex::new(Vec::new());
    let logs = shell::target_dir()?.join("test-logs");
    std::fs::create_dir_all(&logs)?;
    let context = RunContext { perpend, logs, scratch: Scratch::new(), variables };
    thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            loop {
                let next = lock(&waiting).pop_front();
                let Some(program) = next else {
                    return Ok(());
                };
                if !perform(&program, &context)? {
                    lock(&failed).push(program.name);
                }
            }
        };
        let workers: Vec<_> = (0..n_at_a_time).map(|_| scope.spawn(work)).collect();
        let mut ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|ended| ended.map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    for name in &failed {
        eprintln!("  {} {name}", coloured(31, "failed:"));
    }
    Ok(failed.is_empty())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` if a crate does not compile or has lint errors.
pub(crate) fn build() -> anyhow::Result<Option<Built>> {
    let started = Instant::now();
    let mut cargo = shell::linting_cargo(BUILD)?.stdout(Stdio::piped()).spawn()?;
    let stdout = cargo.stdout.take().context("standard output")?;
    let mut built = Built::default();
    for line in BufReader::new(stdout).lines() {
        let message: Value = serde_json::from_str(&line?)?;
        built.note(&message)?;
    }
    if !cargo.wait()?.success() {
        return Ok(None);
    }
    let took = started.elapsed().as_secs_f64();
    eprintln!("  {} programs, built in {took:.1} s", built.tests.len());
    Ok(Some(built))
}

impl Built {
    fn note(&mut self, message: &Value) -> anyhow::Result<()> {
        let Some(executable) = message["executable"].as_str().map(PathBuf::from) else {
            return Ok(());
        };
        let target = message["target"]["name"].as_str().context("a name")?;
        if message["profile"]["test"] != true {
            if target == "perpend" {
                self.perpend = Some(executable);
            }
            return Ok(());
        }
        let manifest = message["manifest_path"].as_str().context("a manifest")?;
        let folder = Path::new(manifest).parent().context("a folder")?;
        let shown = folder.strip_prefix(shell::root()).unwrap_or(folder);
        self.tests.push(Program {
            name: format!("{} {target}", shown.display()),
            folder: folder.to_owned(),
            executable,
        });
        Ok(())
    }
}

/// The exit status, or `None` for a killed program.
fn end(child: &mut Child) -> anyhow::Result<Option<ExitStatus>> {
    let latest = Instant::now() + LONGEST_RUN;
    while Instant::now() < latest {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(100));
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Runs a test program as cargo does, from the folder of its package. Its output is shown if it failed.
fn perform(program: &Program, context: &RunContext<'_>) -> anyhow::Result<bool> {
    let started = Instant::now();
    let log = context.logs.join(program.executable.file_name().unwrap_or_default());
    let file = File::create(&log)?;
    let n_processors = thread::available_parallelism().map_or(2, NonZeroUsize::get);
    // Most tests wait for a process or a limit; a browser keeps a processor busy.
    let n_threads = if program.name == WALK { n_processors } else { 2 * n_processors };
    let mut command = Command::new(&program.executable);
    if let Some(scratch) = &context.scratch {
        command.env("TMPDIR", scratch.path());
    }
    let mut child = command
        .arg(format!("--test-threads={n_threads}"))
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("PERPEND_TEST_PROGRAM", &context.perpend)
        .envs(context.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| program.executable.display().to_string())?;
    let ended = end(&mut child)?;
    let passed = ended.is_some_and(|status| status.success());
    let took = started.elapsed().as_secs_f64();
    let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let outcome = output.split("test result: ").nth(1);
    let outcome = outcome.and_then(|rest| rest.split(';').next());
    let outcome = outcome.unwrap_or("no result");
    if passed {
        eprintln!("  {:<40} {took:>7.1} s  {outcome}", program.name);
    } else {
        let why = ended.map_or_else(|| "did not end".to_owned(), |status| status.to_string());
        let verdict = coloured(31, &why);
        eprintln!("{output}\n  {:<40} {took:>7.1} s  {verdict}", program.name);
    }
    Ok(passed)
}
