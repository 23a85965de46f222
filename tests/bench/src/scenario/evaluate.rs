//! Evaluate: exact-match on a 2 KB item as a native function, in an in-process host and in a worker
//! process, side by side; a fresh instance for each of the latter two's calls.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, Digest, EvaluationCall, Item, Limits, Purpose};
use perpend_plugin::Plugin;
use perpend_sandbox::{DenyAllPort, Host, Settings};
use perpend_worker_pool::{ComponentSource, NoHostCalls, Options, Workers};

use crate::load::quantile;
use crate::median;
use crate::report::{Bar, Figure};

/// Calls handed to the workers at once, and how many such groups are under way.
const CALLS_PER_GROUP: usize = 256;
const GROUPS_UNDER_WAY: u64 = 4;

/// What a call and its result take on the socket, about.
const ITEM_BYTES: usize = 2_300;
const ANSWER_BYTES: usize = 200;

/// What one way of evaluating gave.
struct Way {
    per_second: f64,
    median: Duration,
    p99: Duration,
}

/// Measures each way `rounds` times.
///
/// # Errors
/// When the plug-in does not compile, or a call fails.
pub(crate) async fn measure(rounds: usize, n_calls: u64) -> anyhow::Result<Vec<Figure>> {
    let component = text_plugin()?;
    let digest = Digest::of(component);
    let cache = tempfile::tempdir()?;
    let cache_dir = cache.path().join("artifacts");
    let compiled = {
        // It blocks, and drives a runtime of its own.
        let cache_dir = cache_dir.clone();
        tokio::task::spawn_blocking(move || {
            perpend_sandbox::compile(component, &cache_dir, Default::default())
        })
        .await?
    };
    if let Err(problems) = compiled {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::bail!("perpend/text does not compile: {}", problems.join("; "));
    }
    let host = Arc::new(Host::new(&Settings::default(), &cache_dir)?);
    let program = std::env::current_exe()?;
    let options = Options::new(program, cache_dir);
    let workers = Arc::new(Workers::start(options, Arc::new(Text), Arc::new(NoHostCalls)));

    let mut figures = Vec::new();
    let (mut native, mut hosted, mut worked) = (vec![], vec![], vec![]);
    let (mut bare, mut lone) = (vec![], vec![]);
    for round in 0..rounds {
        native.push(natively(n_calls * 10)?);
        hosted.push(in_host(&host, digest, n_calls).await?);
        worked.push(in_worker(&workers, digest, n_calls).await?);
        bare.push(over_a_bare_socket(n_calls / 10)?);
        // In a task, as the server makes them: what drives the runtime from outside has a thread of its own
        // to be woken.
        let alone = alone_in_worker(Arc::clone(&workers), digest, n_calls / 10);
        lone.push(tokio::spawn(alone).await??);
        let last = |ways: &[Way]| ways.last().map_or(0.0, |way| way.per_second);
        eprintln!(
            "evaluate {}/{rounds}: {:.0}/s native, {:.0}/s host, {:.0}/s worker",
            round + 1,
            last(&native),
            last(&hosted),
            last(&worked)
        );
    }
    workers.shutdown().await;
    figures.extend(figures_of("native function, 1 thread", &native, Bar::None));
    figures.extend(figures_of("in-process host, 2 tasks", &hosted, Bar::None));
    let bar = Bar::AtLeast(60_000.0);
    figures.extend(figures_of("confined worker, in batches", &worked, bar));
    let floor = "a bare socket to a waiting thread and back";
    figures.extend(figures_of(floor, &bare, Bar::None));
    let mut alone = figures_of("confined worker, one call at a time", &lone, Bar::None);
    alone[1].bar = Bar::AtMost(60.0);
    figures.extend(alone);
    Ok(figures)
}

fn figures_of(way: &str, rounds: &[Way], bar: Bar) -> Vec<Figure> {
    let middle = |of: fn(&Way) -> f64| median(rounds.iter().map(of).collect());
    let figure = |what: &str, value, unit, bar| Figure {
        scenario: "evaluate",
        what: format!("{way}{what}"),
        value,
        unit,
        bar,
    };
    vec![
        figure("", middle(|way| way.per_second), "/s", bar),
        figure(": median", middle(|way| way.median.as_secs_f64() * 1e6), "us", Bar::None),
        figure(": p99", middle(|way| way.p99.as_secs_f64() * 1e6), "us", Bar::None),
    ]
}

pub(crate) fn text_plugin() -> anyhow::Result<&'static [u8]> {
    let text = perpend_plugins_bundle::BUNDLE.first_party("perpend/text");
    Ok(text.context("the bundle has no perpend/text")?.bytes)
}

/// Gives the workers the one component they need.
struct Text;

impl ComponentSource for Text {
    fn component(&self, _: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(text_plugin().ok().map(<[u8]>::to_vec)))
    }
}

/// 1 KB of output and 1 KB expected that differ at the very end.
fn texts() -> (String, String) {
    let same = "x".repeat(1023);
    (format!("{same}a"), format!("{same}b"))
}

fn call(digest: Digest) -> EvaluationCall {
    let (output, expected) = texts();
    EvaluationCall {
        plugin: digest,
        evaluator_id: "exact-match".into(),
        config: r#"{"profile":"py","ignore_key_order":false}"#.into(),
        item: Item {
            id: "bench".to_owned(),
            output: Some(Payload::Text(output)),
            expected_output: Some(Payload::Text(expected)),
            ..Item::default()
        }
        .into(),
        seed: 1,
        run_time_ms: 1_700_000_000_000,
        limits: Limits::default(),
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

fn check(result: &CallResult) -> anyhow::Result<()> {
    match &result.outcome {
        Ok(scores) if scores.len() == 1 => Ok(()),
        other => anyhow::bail!("exact-match gave {other:?}"),
    }
}

fn way(n_calls: u64, took: Duration, mut latencies: Vec<Duration>) -> Way {
    latencies.sort_unstable();
    Way {
        per_second: n_calls as f64 / took.as_secs_f64(),
        median: quantile(&latencies, 0.5),
        p99: quantile(&latencies, 0.99),
    }
}

/// The evaluator called as a function, its configuration read each time as in a component.
fn natively(n_calls: u64) -> anyhow::Result<Way> {
    let (output, expected) = texts();
    let config = call(Digest::of(b"")).config;
    let mut latencies = Vec::with_capacity(usize::try_from(n_calls)?);
    let started = Instant::now();
    for _ in 0..n_calls {
        let sent = Instant::now();
        let item = perpend_plugin::Item::with_output(output.clone()).expecting(expected.clone());
        let scores = perpend_plugin_text::ThisPlugin::evaluate("exact-match", &item, &config)?;
        std::hint::black_box(scores);
        latencies.push(sent.elapsed());
    }
    Ok(way(n_calls, started.elapsed(), latencies))
}

/// The floor of a lone call: as many bytes to a thread that waits for them, and a few back. It is what two
/// wake-ups cost on this machine.
fn over_a_bare_socket(n_calls: u64) -> anyhow::Result<Way> {
    let (mut near, mut far) = UnixStream::pair()?;
    let answering = std::thread::spawn(move || {
        let mut item = [0; ITEM_BYTES];
        // Until the other end is closed.
        while far.read_exact(&mut item).is_ok() && far.write_all(&[0; ANSWER_BYTES]).is_ok() {}
    });
    let mut latencies = Vec::with_capacity(usize::try_from(n_calls)?);
    let started = Instant::now();
    for _ in 0..n_calls {
        let sent = Instant::now();
        near.write_all(&[0; ITEM_BYTES])?;
        near.read_exact(&mut [0; ANSWER_BYTES])?;
        latencies.push(sent.elapsed());
    }
    let way = way(n_calls, started.elapsed(), latencies);
    drop(near);
    answering.join().map_err(|_| anyhow::anyhow!("the thread that answers ended early"))?;
    Ok(way)
}

/// Two tasks, one call at a time each.
async fn in_host(host: &Arc<Host>, digest: Digest, n_calls: u64) -> anyhow::Result<Way> {
    let plugin = Arc::new(host.load(digest)?);
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (host, plugin, next) = (Arc::clone(host), Arc::clone(&plugin), Arc::clone(&next));
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while next.fetch_add(1, Ordering::Relaxed) < n_calls {
                    let sent = Instant::now();
                    let port = Arc::new(DenyAllPort);
                    check(&host.evaluate(&plugin, call(digest), port).await)?;
                    latencies.push(sent.elapsed());
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(way(n_calls, started.elapsed(), latencies))
}

/// One call, and the next when it is answered.
async fn alone_in_worker(
    workers: Arc<Workers>,
    digest: Digest,
    n_calls: u64,
) -> anyhow::Result<Way> {
    let mut latencies = Vec::with_capacity(usize::try_from(n_calls)?);
    let started = Instant::now();
    for _ in 0..n_calls {
        let sent = Instant::now();
        let results = workers.evaluate(vec![call(digest)]).await;
        latencies.push(sent.elapsed());
        results.iter().try_for_each(check)?;
    }
    Ok(way(n_calls, started.elapsed(), latencies))
}

/// Groups of calls, a few under way at a time; the latency is that of a group.
async fn in_worker(workers: &Arc<Workers>, digest: Digest, n_calls: u64) -> anyhow::Result<Way> {
    let group = vec![call(digest); CALLS_PER_GROUP];
    // The first group starts the process and loads the component.
    workers.evaluate(group.clone()).await.iter().try_for_each(check)?;
    let n_groups = n_calls.div_ceil(CALLS_PER_GROUP as u64);
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..GROUPS_UNDER_WAY)
        .map(|_| {
            let (workers, next, group) = (Arc::clone(workers), Arc::clone(&next), group.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while next.fetch_add(1, Ordering::Relaxed) < n_groups {
                    let sent = Instant::now();
                    let results = workers.evaluate(group.clone()).await;
                    results.iter().try_for_each(check)?;
                    latencies.push(sent.elapsed());
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let n_done = n_groups * CALLS_PER_GROUP as u64;
    Ok(way(n_done, started.elapsed(), latencies))
}
