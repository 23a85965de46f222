//! `cargo xtask check`: runs the checks of a change and reports their durations.
//!
//! Tools of the tests other than cargo are installed first, or while the steps before the tests run.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::setup::Variables;
use crate::shell::{self, coloured};
use crate::tests::Built;
use crate::{crates, debt, docs, generate, setup, tests, tidy};

/// Selects the steps.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps.
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// List the steps.
    #[arg(long)]
    list: bool,
    /// Print the outcome as JSON on standard output.
    #[arg(long)]
    json: bool,
}

enum Work {
    Cargo(&'static [&'static str]),
    /// A function that returns the problems as sentences.
    Look(fn() -> anyhow::Result<Vec<String>>),
    Build,
    Tests,
    Docs,
    Examples,
}

struct Step {
    name: &'static str,
    about: &'static str,
    work: Work,
}

const STEPS: &[Step] = &[
    Step { name: "format", about: "cargo fmt", work: Work::Cargo(&["fmt", "--all", "--check"]) },
    Step {
        name: "crates",
        about: "dependencies between crates as docs/architecture.md lists them",
        work: Work::Look(crates::violations),
    },
    Step {
        name: "debt",
        about: "no counter of known debt rose",
        work: Work::Look(debt::violations),
    },
    Step {
        name: "tidy",
        about: "file heads, sizes, banned words, phrases of xtask/phrases.tsv",
        work: Work::Look(tidy::violations),
    },
    Step { name: "build", about: "everything compiles, lints are errors", work: Work::Build },
    Step {
        name: "tests",
        about: "every test, on SQLite and PostgreSQL",
        // One process per program, not per test: its tests share one PostgreSQL server.
        work: Work::Tests,
    },
    Step { name: "docs", about: "docstrings: examples run, no warnings", work: Work::Docs },
    Step {
        name: "generated",
        about: "generated files are up to date",
        work: Work::Look(generate::drift),
    },
    Step { name: "examples", about: "examples build as a user builds them", work: Work::Examples },
];

struct Outcome {
    step: &'static Step,
    passed: bool,
    took: Duration,
}

/// Runs the steps in order and stops at the first that fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    if let Some(unknown) =
        args.only.iter().find(|name| STEPS.iter().all(|step| step.name != name.as_str()))
    {
        anyhow::bail!("unknown step `{unknown}`; `cargo xtask check --list` lists the steps");
    }
    let wanted = || {
        STEPS
            .iter()
            .filter(|step| args.only.is_empty() || args.only.iter().any(|name| name == step.name))
    };
    if args.list {
        for step in wanted() {
            eprintln!("{:<10} {}", step.name, step.about);
        }
        return Ok(true);
    }
    let n_wanted = wanted().count();
    let mut made = StepResults::default();
    if wanted().any(|step| matches!(step.work, Work::Tests)) {
        setup::system()?;
        made.tools = Some(thread::spawn(setup::toolchains));
    }
    let mut outcomes = Vec::new();
    for (at, step) in wanted().enumerate() {
        eprintln!(
            "{} {} ({})",
            coloured(36, &format!("[{}/{n_wanted}]", at + 1)),
            coloured(1, step.name),
            step.about
        );
        let started = Instant::now();
        let passed = perform(&step.work, &mut made)?;
        outcomes.push(Outcome { step, passed, took: started.elapsed() });
        if !passed {
            eprintln!("{} again: cargo xtask check --only {}", coloured(31, "failed;"), step.name);
            break;
        }
    }
    report(&outcomes, n_wanted, args.json)
}

/// Results of a step for later steps.
#[derive(Default)]
struct StepResults {
    /// The running installation of tools.
    tools: Option<JoinHandle<anyhow::Result<Variables>>>,
    built: Option<Built>,
}

fn perform(work: &Work, made: &mut StepResults) -> anyhow::Result<bool> {
    match work {
        Work::Cargo(args) => Ok(shell::cargo(args).status()?.success()),
        Work::Look(look) => {
            let found = look()?;
            found.iter().for_each(|sentence| eprintln!("  {sentence}"));
            Ok(found.is_empty())
        }
        Work::Build => {
            made.built = tests::build()?;
            Ok(made.built.is_some())
        }
        Work::Tests => {
            let built = match made.built.take() {
                Some(built) => Some(built),
                None => tests::build()?,
            };
            let variables = match made.tools.take().map(JoinHandle::join) {
                Some(Ok(variables)) => variables?,
                Some(Err(_)) => anyhow::bail!("a thread panicked"),
                None => setup::toolchains()?,
            };
            built.map_or(Ok(false), |built| tests::run(built, &variables))
        }
        Work::Docs => docs::run(),
        Work::Examples => examples(),
    }
}

/// Each folder of `examples/` with a manifest is a separate project, as a user copies it. They share a target folder with
/// the Rust projects of the tests, which use the same versions of libraries.
fn examples() -> anyhow::Result<bool> {
    let target = shell::target_dir()?.join("guests/rust");
    let mut projects: Vec<_> = std::fs::read_dir(shell::root().join("examples"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    projects.sort();
    for project in projects {
        eprintln!("  {}", project.file_name().unwrap_or_default().to_string_lossy());
        let steps: [&[&str]; 2] =
            [&["test", "--quiet"], &["build", "--release", "--target", "wasm32-wasip2"]];
        for args in steps {
            let mut command = shell::cargo(args);
            command.current_dir(&project).env("CARGO_TARGET_DIR", &target);
            if !command.status()?.success() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn report(outcomes: &[Outcome], n_wanted: usize, json: bool) -> anyhow::Result<bool> {
    let all_passed = outcomes.len() == n_wanted && outcomes.iter().all(|outcome| outcome.passed);
    eprintln!();
    for Outcome { step, passed, took } in outcomes {
        let verdict = if *passed { coloured(32, "passed") } else { coloured(31, "FAILED") };
        eprintln!("  {:<10} {verdict}  {:>7.1} s", step.name, took.as_secs_f64());
    }
    if json {
        let steps: Vec<_> = outcomes
            .iter()
            .map(|o| serde_json::json!({"step": o.step.name, "passed": o.passed, "seconds": o.took.as_secs_f64()}))
            .collect();
        let text = serde_json::to_string_pretty(
            &serde_json::json!({"passed": all_passed, "steps": steps}),
        )?;
        std::io::Write::write_all(&mut std::io::stdout(), format!("{text}\n").as_bytes())?;
    }
    Ok(all_passed)
}
