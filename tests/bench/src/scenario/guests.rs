//! Guests: the cost of a fresh instance per call in each language, compared with a process per evaluation and with a
//! process that is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{Digest, EvaluationCall, Grants, Item, Limits, Purpose};
use perpend_plugin_cli::{Language, Terminal, Tools};
use perpend_sandbox::{DenyAllPort, Host, Plugin, Settings};
use serde_json::Value;

use crate::load::quantile;
use crate::median;
use crate::report::{Bar, Figure};
use crate::scenario::waiting;
use crate::subprocess;

/// A language, and the most that the median of its calls may take.
const LANGUAGES: [(Language, Bar); 5] = [
    (Language::Rust, Bar::AtMost(12.0)),
    (Language::C, Bar::None),
    (Language::Go, Bar::None),
    (Language::JavaScript, Bar::AtMost(120.0)),
    (Language::Python, Bar::AtMost(1_200.0)),
];
const N_LOADS: usize = 21;
/// Rounds of calls on two threads; each is short, so that some have both processors for themselves on a
/// machine that others use too.
const N_SLICES: usize = 20;
/// What a Rust guest's memory begins with: `.cargo/config.toml` of its template.
const BEGINS_WITH: u64 = 2 << 20;

/// Measures the template of `perpend plugin new` in each language whose toolchain is installed, calls that wait for a
/// model, and processes for comparison.
///
/// # Errors
/// When a component cannot be built though its tools are there, or a call gives no score.
pub(crate) async fn measure(rounds: usize, n_calls: u64) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let mut figures = Vec::new();
    for (language, bar) in LANGUAGES {
        let guest = {
            let folder = folder.path().to_owned();
            tokio::task::spawn_blocking(move || Guest::make(language, &folder)).await??
        };
        let Some(guest) = guest else {
            continue;
        };
        figures.extend(guest.measure(language, bar, rounds, n_calls).await?);
    }
    figures.extend(waiting::measure().await?);
    figures.extend(tokio::task::spawn_blocking(subprocess::measure).await??);
    Ok(figures)
}

/// The component built from the template of a language, or from `source` if given; `None`, with a line on the
/// terminal, if the toolchain is missing.
pub(crate) fn build(
    language: Language,
    dir: &Path,
    source: Option<&str>,
) -> anyhow::Result<Option<Vec<u8>>> {
    let toolchains = std::env::var_os("PERPEND_TOOLCHAINS").map(PathBuf::from);
    let toolchains = toolchains.or_else(installed).filter(|path| path.is_dir());
    let tools = Tools::new(toolchains, &std::env::var_os("PATH").unwrap_or_default());
    let project = perpend_plugin_cli::new("bench", language, dir, &tools)?;
    if let Some(source) = source {
        std::fs::write(dir.join("src/lib.rs"), source)?;
    }
    match perpend_plugin_cli::build(&project, &Terminal::default()) {
        Ok(path) => Ok(Some(std::fs::read(path)?)),
        Err(missing @ perpend_plugin_cli::BuildError::ToolMissing { .. }) => {
            eprintln!("guests: {language} is not measured: {missing}");
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("building {language}")),
    }
}

/// A component of the project that a template gives, with a call out of its golden items.
struct Guest {
    host: Arc<Host>,
    call: EvaluationCall,
}

struct Run {
    per_second: f64,
    median: Duration,
    /// Of all threads of this process, for each call.
    cpu: Duration,
}

impl Guest {
    fn make(language: Language, folder: &Path) -> anyhow::Result<Option<Self>> {
        let dir = folder.join(language.to_string());
        let Some(component) = build(language, &dir, None)? else {
            return Ok(None);
        };
        let cache = folder.join(format!("{language}-cache"));
        if let Err(problems) = perpend_sandbox::compile(&component, &cache, Grants::default()) {
            anyhow::bail!("the {language} component is refused: {problems:?}");
        }
        let golden = std::fs::read_to_string(dir.join(perpend_plugin_cli::TESTS))?;
        let golden: Value = serde_json::from_str(golden.lines().next().unwrap_or_default())?;
        let text = |name: &str| golden[name].as_str().map(str::to_owned);
        let output = golden["item"]["output"].as_str().unwrap_or_default();
        let call = EvaluationCall {
            plugin: Digest::of(&component),
            evaluator_id: text("evaluator").context("golden evaluator")?.into(),
            config: golden["config"].to_string().into(),
            item: Item {
                id: "bench".to_owned(),
                output: Some(Payload::Text(output.to_owned())),
                ..Item::default()
            }
            .into(),
            seed: 1,
            run_time_ms: 1_700_000_000_000,
            limits: Limits::default(),
            purpose: Purpose::Evaluate,
            origin: None,
        };
        let host = Arc::new(Host::new(&Settings::default(), &cache)?);
        Ok(Some(Self { host, call }))
    }

    async fn measure(
        &self,
        language: Language,
        bar: Bar,
        rounds: usize,
        n_calls: u64,
    ) -> anyhow::Result<Vec<Figure>> {
        let (first_load, load) = (self.load()?, self.median_load()?);
        let plugin = Arc::new(self.host.load(self.call.plugin)?);
        let (mut lone, mut both, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            // Slow guests are measured as long as quick ones, about.
            let probe = self.run(&plugin, 1, 50).await?;
            let seconds = n_calls as f64 / 100_000.0;
            let n = (seconds / probe.median.as_secs_f64().max(1e-6)).clamp(100.0, n_calls as f64);
            let alone = self.run(&plugin, 1, n as u64).await?;
            lone.push(micros(alone.median));
            let mut slices = Vec::with_capacity(N_SLICES);
            for _ in 0..N_SLICES {
                let n = (n as u64 / N_SLICES as u64).max(20);
                slices.push(self.run(&plugin, 2, n).await?);
            }
            both.push(median(slices.iter().map(|run| run.per_second).collect()));
            cpu.push(median(slices.iter().map(|run| micros(run.cpu)).collect()));
            eprintln!(
                "guests {}/{rounds}: {language} {:.1} us, {:.0}/s on two threads",
                round + 1,
                micros(alone.median),
                both[round]
            );
        }
        let is_rust = language == Language::Rust;
        let two_threads = if is_rust { Bar::AtLeast(200_000.0) } else { Bar::None };
        let first = "an artifact is loaded first, its sum checked, in";
        let mut figures = vec![
            ("a fresh instance per call: median", median(lone), "us", bar),
            ("on two threads", median(both), "/s", two_threads),
            ("CPU time of a call on two threads", median(cpu), "us", Bar::None),
            ("a cached artifact is loaded in", millis(load), "ms", Bar::AtMost(2.0)),
            (first, millis(first_load), "ms", Bar::None),
        ];
        if is_rust {
            let grown = self.grown_kib(&plugin).await?;
            figures.push(("memory grows in a call by", grown, "KiB", Bar::AtMost(0.0)));
        }
        let figures = figures.into_iter().map(|(what, value, unit, bar)| Figure {
            scenario: "guests",
            what: format!("{language}: {what}"),
            value,
            unit,
            bar,
        });
        Ok(figures.collect())
    }

    fn load(&self) -> anyhow::Result<Duration> {
        let started = Instant::now();
        drop(self.host.load(self.call.plugin)?);
        Ok(started.elapsed())
    }

    fn median_load(&self) -> anyhow::Result<Duration> {
        let took: anyhow::Result<Vec<_>> = (0..N_LOADS).map(|_| self.load()).collect();
        let mut took = took?;
        took.sort_unstable();
        Ok(quantile(&took, 0.5))
    }

    /// How much more memory than it begins with a call needs to succeed.
    async fn grown_kib(&self, plugin: &Arc<Plugin>) -> anyhow::Result<f64> {
        const STEP: u64 = 64 << 10;
        for grown in (0..64).map(|n| n * STEP) {
            let mut call = self.call.clone();
            call.limits.memory_bytes = BEGINS_WITH + grown;
            let result = self.host.evaluate(plugin, call, Arc::new(DenyAllPort)).await;
            if result.outcome.is_ok() {
                return Ok(grown as f64 / 1024.0);
            }
        }
        anyhow::bail!("the call needs more than 4 MiB beyond what it begins with")
    }

    async fn run(&self, plugin: &Arc<Plugin>, n_tasks: u64, n_calls: u64) -> anyhow::Result<Run> {
        let next = Arc::new(AtomicU64::new(0));
        let (started, cpu) = (Instant::now(), cpu_time()?);
        let tasks: Vec<_> = (0..n_tasks)
            .map(|_| {
                let (host, plugin) = (Arc::clone(&self.host), Arc::clone(plugin));
                let (next, call) = (Arc::clone(&next), self.call.clone());
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while next.fetch_add(1, Ordering::Relaxed) < n_calls {
                        let sent = Instant::now();
                        let port = Arc::new(DenyAllPort);
                        let result = host.evaluate(&plugin, call.clone(), port).await;
                        latencies.push(sent.elapsed());
                        if let Err(failure) = result.outcome {
                            anyhow::bail!("a call failed: {failure:?}");
                        }
                    }
                    anyhow::Ok(latencies)
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await??);
        }
        let took = started.elapsed();
        let cpu = cpu_time()?.saturating_sub(cpu);
        latencies.sort_unstable();
        Ok(Run {
            per_second: n_calls as f64 / took.as_secs_f64(),
            median: quantile(&latencies, 0.5),
            cpu: cpu / u32::try_from(n_calls)?,
        })
    }
}

/// Of all threads of this process: what other programs do meanwhile does not count.
fn cpu_time() -> anyhow::Result<Duration> {
    cpu_time_of(|_| true)
}

/// Of the threads of this process with such a name.
pub(crate) fn cpu_time_of(counts: impl Fn(&str) -> bool) -> anyhow::Result<Duration> {
    let mut ns = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let folder = thread?.path();
        if !counts(std::fs::read_to_string(folder.join("comm"))?.trim()) {
            continue;
        }
        let spent = std::fs::read_to_string(folder.join("schedstat"))?;
        ns += spent.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(ns))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The folder in which `cargo xtask` installs the toolchains: next to the programs of this build.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("guests"))
}
