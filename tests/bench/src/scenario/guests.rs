//! Guests: what a fresh instance per call costs in each language, beside what people run today: a
//! process per evaluation, and one that is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use assay_author::{Language, Terminal, Tools};
use assay_domain::payload::Payload;
use assay_domain::plugin::{Call, Digest, Grants, Item, Limits, Purpose};
use assay_host::{Host, NothingGranted, Plugin, Settings};
use serde_json::Value;

use crate::load::quantile;
use crate::median;
use crate::report::{Bar, Figure};
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

/// Measures what `assay plugin new` gives in each language for which there is a toolchain.
///
/// # Errors
/// When a component cannot be built though its tools are there, or a call gives no score.
pub(crate) async fn measure(rounds: usize, n_calls: u64) -> anyhow::Result<Vec<Figure>> {
    let folder = tempfile::tempdir()?;
    let mut figures = Vec::new();
    for (language, bar) in LANGUAGES {
        let guest = {
            let folder = folder.path().to_owned();
            tokio::task::spawn_blocking(move || Guest::build(language, &folder)).await??
        };
        let Some(guest) = guest else {
            continue;
        };
        figures.extend(measure_guest(&guest, language, bar, rounds, n_calls).await?);
    }
    figures.extend(tokio::task::spawn_blocking(subprocess::measure).await??);
    Ok(figures)
}

async fn measure_guest(
    guest: &Guest,
    language: Language,
    bar: Bar,
    rounds: usize,
    n_calls: u64,
) -> anyhow::Result<Vec<Figure>> {
    let figure = |what: &str, value, unit, bar| Figure {
        scenario: "guests",
        what: format!("{language}: {what}"),
        value,
        unit,
        bar,
    };
    let loading = guest.median_load()?;
    let plugin = Arc::new(guest.host.load(guest.call.plugin)?);
    let (mut lone, mut both) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Slow guests are measured as long as quick ones, about.
        let probe = guest.run(&plugin, 1, 50).await?;
        let seconds = n_calls as f64 / 100_000.0;
        let n = (seconds / probe.median.as_secs_f64().max(1e-6)).clamp(100.0, n_calls as f64);
        let alone = guest.run(&plugin, 1, n as u64).await?;
        let two = guest.run(&plugin, 2, n as u64).await?;
        eprintln!(
            "guests {}/{rounds}: {language} {:.1} us, {:.0}/s on two threads",
            round + 1,
            alone.median.as_secs_f64() * 1e6,
            two.per_second
        );
        lone.push(alone.median.as_secs_f64() * 1e6);
        both.push(two.per_second);
    }
    let is_rust = language == Language::Rust;
    let two_threads = if is_rust {
        Bar::AtLeast(200_000.0)
    } else {
        Bar::None
    };
    Ok(vec![
        figure("a fresh instance per call: median", median(lone), "us", bar),
        figure("on two threads", median(both), "/s", two_threads),
        figure(
            "a cached artifact is loaded in",
            loading.as_secs_f64() * 1e3,
            "ms",
            Bar::AtMost(2.0),
        ),
    ])
}

/// A component of the project that a template gives, with a call out of its golden items.
struct Guest {
    host: Arc<Host>,
    call: Call,
}

struct Run {
    per_second: f64,
    median: Duration,
}

impl Guest {
    /// `None`, said on the terminal, where the toolchain is missing.
    fn build(language: Language, folder: &Path) -> anyhow::Result<Option<Self>> {
        let toolchains = std::env::var_os("ASSAY_TOOLCHAINS").map(PathBuf::from);
        let toolchains = toolchains.or_else(installed).filter(|path| path.is_dir());
        let tools = Tools::new(toolchains, &std::env::var_os("PATH").unwrap_or_default());
        let dir = folder.join(language.to_string());
        let project = assay_author::new("bench", language, &dir, &tools)?;
        let component = match assay_author::build(&project, &Terminal::default()) {
            Ok(path) => std::fs::read(path)?,
            Err(missing @ assay_author::BuildError::ToolMissing { .. }) => {
                eprintln!("guests: {language} is not measured: {missing}");
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(|| format!("building {language}")),
        };
        let cache = folder.join(format!("{language}-cache"));
        if let Err(problems) = assay_host::compile(&component, &cache, Grants::default()) {
            anyhow::bail!("the {language} component is refused: {problems:?}");
        }
        let golden = std::fs::read_to_string(dir.join(assay_author::TESTS))?;
        let golden: Value = serde_json::from_str(golden.lines().next().unwrap_or_default())?;
        let text = |name: &str| golden[name].as_str().map(str::to_owned);
        let output = golden["item"]["output"].as_str().unwrap_or_default();
        let call = Call {
            plugin: Digest::of(&component),
            evaluator_id: text("evaluator").context("golden evaluator")?.into(),
            config: golden["config"].to_string().into(),
            item: Item {
                id: "bench".to_owned(),
                output: Some(Payload::Text(output.to_owned())),
                ..Item::default()
            },
            seed: 1,
            run_time_ms: 1_700_000_000_000,
            limits: Limits::default(),
            purpose: Purpose::Evaluate,
            origin: None,
        };
        let host = Arc::new(Host::new(&Settings::default(), &cache)?);
        Ok(Some(Self { host, call }))
    }

    fn median_load(&self) -> anyhow::Result<Duration> {
        let mut took = Vec::with_capacity(N_LOADS);
        for _ in 0..N_LOADS {
            let begun = Instant::now();
            drop(self.host.load(self.call.plugin)?);
            took.push(begun.elapsed());
        }
        took.sort_unstable();
        Ok(quantile(&took, 0.5))
    }

    async fn run(&self, plugin: &Arc<Plugin>, n_tasks: u64, n_calls: u64) -> anyhow::Result<Run> {
        let next = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let tasks: Vec<_> = (0..n_tasks)
            .map(|_| {
                let (host, plugin) = (Arc::clone(&self.host), Arc::clone(plugin));
                let (next, call) = (Arc::clone(&next), self.call.clone());
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while next.fetch_add(1, Ordering::Relaxed) < n_calls {
                        let sent = Instant::now();
                        let port = Arc::new(NothingGranted);
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
        let took = begun.elapsed();
        latencies.sort_unstable();
        Ok(Run {
            per_second: n_calls as f64 / took.as_secs_f64(),
            median: quantile(&latencies, 0.5),
        })
    }
}

/// Where `.ci/guests` puts the toolchains: beside the programs of this build.
fn installed() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("guests"))
}
