//! What a guest costs while it waits for a model: resident memory of this process for each of many.
//!
//! `cargo run --release -p assay-host --example waiting -- COMPONENT EVALUATOR CONFIG [N]`, with a
//! component whose evaluator asks a model.
#![expect(clippy::unwrap_used, reason = "an example ends with what went wrong")]

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use assay_domain::payload::Payload;
use assay_domain::plugin::{Call, Digest, Grants, Item, Limits, Purpose};
use assay_domain::protocol::host_call::{HostReply, HostRequest};
use assay_host::{Host, Port, Settings};
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// Holds every question until it is opened.
struct Gate {
    n_waiting: AtomicUsize,
    open: Semaphore,
}

struct AtGate(Arc<Gate>);

impl Port for AtGate {
    fn ask(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let gate = Arc::clone(&self.0);
        Box::pin(async move {
            gate.n_waiting.fetch_add(1, Ordering::SeqCst);
            drop(gate.open.acquire().await);
            request.unavailable("the example has no model")
        })
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, evaluator, config, rest @ ..] = arguments.as_slice() else {
        say("waiting COMPONENT EVALUATOR CONFIG [N]");
        return;
    };
    let n: usize = rest.first().map_or(2_000, |n| n.parse().unwrap());
    let bytes = wat::parse_file(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    assay_host::compile(&bytes, folder.path(), Grants::ALL).unwrap();
    let settings = Settings {
        max_live: u32::try_from(n).unwrap() + 16,
        ..Settings::default()
    };
    let host = Arc::new(Host::new(&settings, folder.path()).unwrap());
    let plugin = Arc::new(host.load(Digest::of(&bytes)).unwrap());
    let gate = Arc::new(Gate {
        n_waiting: AtomicUsize::new(0),
        open: Semaphore::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let before = resident_kib();
    let began = Instant::now();
    runtime.block_on(async {
        let start = |_| {
            let (host, plugin) = (Arc::clone(&host), Arc::clone(&plugin));
            let (port, call) = (Arc::new(AtGate(Arc::clone(&gate))), call(evaluator, config));
            tokio::spawn(async move { host.evaluate(&plugin, call, port).await })
        };
        let calls: Vec<_> = (0..n).map(start).collect();
        while gate.n_waiting.load(Ordering::SeqCst) < n && !calls[0].is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let n_waiting = gate.n_waiting.load(Ordering::SeqCst);
        let grown = resident_kib().saturating_sub(before);
        say(&format!(
            "{n_waiting} calls wait after {} ms: {} MiB resident, {:.1} KiB each",
            began.elapsed().as_millis(),
            resident_kib() >> 10,
            grown as f64 / n_waiting.max(1) as f64
        ));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        say(&format!("{} mappings", maps.lines().count()));
        gate.open.add_permits(Semaphore::MAX_PERMITS / 2);
        let mut n_ended = 0;
        for call in calls {
            n_ended += usize::from(call.await.is_ok());
        }
        say(&format!("{n_ended} calls ended"));
    });
}

fn call(evaluator: &str, config: &str) -> Call {
    Call {
        plugin: Digest::of(b""),
        evaluator_id: evaluator.into(),
        config: config.into(),
        item: Item {
            id: "item".into(),
            input: Some(Payload::Text("What is the capital of France?".into())),
            output: Some(Payload::Text("Paris".into())),
            expected_output: Some(Payload::Text("Paris".into())),
            ..Item::default()
        },
        seed: 7,
        run_time_ms: 1_000,
        limits: Limits::default(),
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}
