//! How fast fresh instances are, in this process: the median of a lone call, and calls a second on one
//! and two threads.
//!
//! `cargo run --release -p assay-host --example speed -- COMPONENT EVALUATOR CONFIG [N_CALLS]`

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assay_domain::payload::Payload;
use assay_domain::plugin::{Call, CallResult, Digest, Grants, Item, Limits, Purpose};
use assay_host::{Host, NothingGranted, Plugin, Settings};

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "speed: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, evaluator, config, rest @ ..] = arguments.as_slice() else {
        return Err("speed COMPONENT EVALUATOR CONFIG [N_CALLS]".into());
    };
    let n_calls = rest.first().map_or(Ok(200_000), |n| n.parse())?;
    let bytes = wat::parse_file(path)?;
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    compile(&bytes, folder.path())?;
    say(&format!("compiled in {} ms", began.elapsed().as_millis()));
    let host = Arc::new(Host::new(&Settings::default(), folder.path())?);
    let began = Instant::now();
    let plugin = Arc::new(host.load(Digest::of(&bytes))?);
    say(&format!("loaded in {} us", began.elapsed().as_micros()));
    let call = call(Digest::of(&bytes), evaluator, config);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (host, plugin) = (&host, &plugin);
    let alone = runtime.block_on(run(host, plugin, &call, n_calls / 4))?;
    say(&format!(
        "a lone call: p50 {:.1} us, p99 {:.1} us",
        micros(alone[alone.len() / 2]),
        micros(alone[alone.len() * 99 / 100])
    ));
    for n_tasks in [1, 2] {
        let (began, cpu) = (Instant::now(), cpu_time()?);
        runtime.block_on(async {
            let tasks = (0..n_tasks).map(|_| {
                let (host, plugin, call) = (Arc::clone(host), Arc::clone(plugin), call.clone());
                tokio::spawn(async move { run(&host, &plugin, &call, n_calls / n_tasks).await })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await??;
            }
            Ok::<_, Box<dyn Error>>(())
        })?;
        let per_second = n_calls as f64 / began.elapsed().as_secs_f64();
        let cpu = cpu_time()?.saturating_sub(cpu) / u32::try_from(n_calls)?;
        say(&format!(
            "{n_tasks} at a time: {per_second:.0}/s, {:.2} us of CPU time each",
            micros(cpu)
        ));
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find(|line| line.starts_with("VmHWM"));
    say(resident.unwrap_or_default());
    Ok(())
}

fn compile(bytes: &[u8], folder: &Path) -> Result<(), String> {
    match assay_host::compile(bytes, folder, Grants::ALL) {
        Ok(_) => Ok(()),
        Err(problems) => Err(format!("{problems:?}")),
    }
}

/// An item of 2 KB.
fn call(digest: Digest, evaluator: &str, config: &str) -> Call {
    let text = "x".repeat(1024);
    Call {
        plugin: digest,
        evaluator_id: evaluator.into(),
        config: config.into(),
        item: Item {
            id: "item".into(),
            output: Some(Payload::Text(text.clone())),
            expected_output: Some(Payload::Text(text)),
            ..Item::default()
        },
        seed: 7,
        run_time_ms: 1_000,
        limits: Limits::default(),
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

/// How long each call took, sorted.
async fn run(host: &Host, plugin: &Plugin, call: &Call, n: usize) -> Result<Vec<Duration>, String> {
    let mut took = Vec::with_capacity(n);
    let port = Arc::new(NothingGranted);
    for _ in 0..n {
        let call = call.clone();
        let began = Instant::now();
        let CallResult { outcome, .. } = host.evaluate(plugin, call, port.clone()).await;
        took.push(began.elapsed());
        outcome.map_err(|failure| failure.message)?;
    }
    took.sort_unstable();
    Ok(took)
}

/// Of all threads of this process: what other programs do meanwhile does not count.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let mut ns = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let schedule = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let spent = schedule.split_whitespace().next().unwrap_or("0");
        ns += spent.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(ns))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
