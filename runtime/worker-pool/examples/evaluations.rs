//! Measures evaluations per second and the duration of a single one, in this process and in a worker.
//!
//! `cargo run --release -p perpend-worker-pool --example evaluations -- COMPONENT EVALUATOR CONFIG`

use std::collections::HashMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, Item, Limits, Purpose};
use perpend_sandbox::{DenyAllPort, Host, Plugin, Settings};
use perpend_worker_pool::{ComponentSource, NoHostCalls, Options, Workers};
use perpend_worker_protocol::Grants;

const N_CALLS: usize = 100_000;
const N_SINGLE: usize = 5_000;
const BATCH: usize = 256;

struct Registered(HashMap<Digest, Vec<u8>>);

impl ComponentSource for Registered {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(self.0.get(&digest).cloned()))
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    let evaluator = arguments.next().unwrap_or_else(|| "exact-match".into());
    let config = arguments.next().unwrap_or_else(|| "{}".into());
    match first.as_str() {
        "worker" => perpend_sandbox::worker_main(),
        "compile" => perpend_sandbox::compile_main(),
        "check" => perpend_sandbox::check_main(),
        path => match measure(Path::new(path), &evaluator, &config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print(&format!("{error}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn print(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

fn measure(path: &Path, evaluator: &str, config: &str) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let folder = tempfile::tempdir()?;
    let digest = Digest::of(&bytes);
    if let Err(problems) = perpend_sandbox::compile(&bytes, folder.path(), Grants::ALL) {
        return Err(format!("{problems:?}").into());
    }
    let text = "x".repeat(2048);
    let call = EvaluationCall {
        plugin: digest,
        evaluator_id: evaluator.into(),
        config: config.into(),
        item: Item {
            id: "item".into(),
            output: Some(Payload::Text(text.clone())),
            expected_output: Some(Payload::Text(text)),
            ..Item::default()
        }
        .into(),
        seed: 7,
        run_time_ms: 1_000,
        limits: Limits::default(),
        purpose: Purpose::Evaluate,
        origin: None,
    };
    let host = Arc::new(Host::new(&Settings::default(), folder.path())?);
    for what in ["the first time, with its checksum", "again"] {
        let start = Instant::now();
        host.load(digest)?;
        print(&format!("loaded {what}: {} us", start.elapsed().as_micros()));
    }
    let plugin = Arc::new(host.load(digest)?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        in_process(&host, &plugin, &call).await?;
        let in_worker = in_worker(&call, bytes, folder.path()).await;
        in_worker.map_err(|error| -> Box<dyn Error> { error })
    })
}

async fn in_process(
    host: &Arc<Host>,
    plugin: &Arc<Plugin>,
    call: &EvaluationCall,
) -> Result<(), Box<dyn Error>> {
    for n_tasks in [1, 2] {
        let start = Instant::now();
        let tasks = (0..n_tasks).map(|_| {
            let (host, plugin, call) = (Arc::clone(host), Arc::clone(plugin), call.clone());
            tokio::spawn(async move {
                for _ in 0..N_CALLS / n_tasks {
                    check(&host.evaluate(&plugin, call.clone(), Arc::new(DenyAllPort)).await)?;
                }
                Ok::<_, String>(())
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        report(&format!("in this process, {n_tasks} at a time"), N_CALLS, start.elapsed());
    }
    Ok(())
}

async fn in_worker(
    call: &EvaluationCall,
    bytes: Vec<u8>,
    cache: &Path,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let options = Options::new(std::env::current_exe()?, cache.to_owned());
    let registered = Registered([(call.plugin, bytes)].into());
    let workers = Workers::start(options, Arc::new(registered), Arc::new(NoHostCalls));
    let workers = Arc::new(workers);
    check(&workers.evaluate(vec![call.clone()]).await[0])?;
    let pid = workers.pids()[0].to_string();
    let cpu = [cpu_time("self")?, cpu_time(&pid)?];
    let start = Instant::now();
    let tasks = (0..4).map(|_| {
        let (workers, call) = (Arc::clone(&workers), call.clone());
        tokio::spawn(async move {
            for _ in 0..N_CALLS / BATCH / 4 {
                for result in workers.evaluate(vec![call.clone(); BATCH]).await {
                    check(&result)?;
                }
            }
            Ok::<_, String>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    report(
        "in a worker, batches of 256 from 4 callers",
        N_CALLS / BATCH / 4 * 4 * BATCH,
        start.elapsed(),
    );
    // CPU time does not depend on the load of the machine.
    let each = |before: Duration, after: Duration| {
        after.saturating_sub(before).as_secs_f64() * 1e6 / N_CALLS as f64
    };
    print(&format!(
        "CPU time of each: {:.1} us here, {:.1} us in the worker",
        each(cpu[0], cpu_time("self")?),
        each(cpu[1], cpu_time(&pid)?)
    ));
    let durations = tokio::spawn(single_calls(Arc::clone(&workers), call.clone())).await??;
    let at = |share: usize| durations[N_SINGLE * share / 100].as_micros();
    print(&format!("a single call in a worker: p50 {} us, p99 {} us", at(50), at(99)));
    for pid in workers.pids() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident = status.lines().find(|line| line.starts_with("VmRSS"));
        print(&format!("worker {pid}: {}", resident.unwrap_or_default()));
    }
    workers.shutdown().await;
    Ok(())
}

async fn single_calls(
    workers: Arc<Workers>,
    call: EvaluationCall,
) -> Result<Vec<Duration>, String> {
    let mut durations = Vec::with_capacity(N_SINGLE);
    for _ in 0..N_SINGLE {
        let start = Instant::now();
        check(&workers.evaluate(vec![call.clone()]).await[0])?;
        durations.push(start.elapsed());
    }
    durations.sort_unstable();
    Ok(durations)
}

/// CPU time of a process in user and kernel mode, in steps of 10 ms.
fn cpu_time(pid: &str) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the process may contain any characters.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

fn check(result: &CallResult) -> Result<(), String> {
    result.outcome.as_ref().map(|_| ()).map_err(|failure| failure.message.clone())
}

fn report(what: &str, n: usize, elapsed: Duration) {
    let per_second = n as f64 / elapsed.as_secs_f64();
    print(&format!("{what}: {per_second:.0}/s"));
}
