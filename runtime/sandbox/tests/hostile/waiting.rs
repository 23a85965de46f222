//! Guests that wait for the server or a clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::plugin::{CallResult, FailureClass, Limits};
use perpend_sandbox::{DenyAllPort, Host, Plugin, Port, Settings};
use perpend_worker_protocol::host_call::{HostReply, HostRequest};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::cases::{MODEL, SIDE, SLEEP};
use crate::guest::Guest;
use crate::neighbours::{call, plugin};

/// Delays the denial of all requests until it is opened.
struct Gate {
    n_waiting: AtomicUsize,
    open: Semaphore,
}

/// The port of one call.
struct GatedPort(Arc<Gate>);

impl Port for GatedPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let gate = Arc::clone(&self.0);
        Box::pin(async move {
            gate.n_waiting.fetch_add(1, Ordering::SeqCst);
            drop(gate.open.acquire().await);
            gate.n_waiting.fetch_sub(1, Ordering::SeqCst);
            request.not_granted()
        })
    }
}

/// Counts requests, and denies them.
struct CountingPort(Arc<AtomicUsize>);

impl Port for CountingPort {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// Number of guests that may run at a time.
const N_PLACES: usize = 64;
/// Ends tests that hang.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A host, and a runtime like that of a worker.
struct WaitBench {
    folder: tempfile::TempDir,
    host: Arc<Host>,
    runtime: tokio::runtime::Runtime,
}

impl WaitBench {
    fn new() -> Self {
        Self::with(&Settings::default())
    }

    fn with(settings: &Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::new(settings, folder.path()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all();
        Self { folder, host: Arc::new(host), runtime: runtime.build().unwrap() }
    }

    fn plugin(&self, bytes: &[u8]) -> Arc<Plugin> {
        Arc::new(plugin(&self.host, self.folder.path(), bytes))
    }

    /// Starts a call in a task.
    fn start(
        &self,
        plugin: &Arc<Plugin>,
        limits: Limits,
        port: impl Port + 'static,
    ) -> JoinHandle<CallResult> {
        let (host, plugin) = (Arc::clone(&self.host), Arc::clone(plugin));
        let port = Arc::new(port);
        self.runtime.spawn(async move { host.evaluate(&plugin, call(limits), port).await })
    }

    /// Waits for the result of a call.
    fn result(&self, call: JoinHandle<CallResult>) -> CallResult {
        let in_time = async { tokio::time::timeout(TIMEOUT, call).await };
        self.runtime.block_on(in_time).unwrap().unwrap()
    }

    fn wait_until(&self, n: &AtomicUsize, expected: usize) {
        let count = || n.load(Ordering::SeqCst);
        let reached = async {
            while count() < expected {
                tokio::task::yield_now().await;
            }
        };
        let in_time = async { tokio::time::timeout(TIMEOUT, reached).await };
        let in_time = self.runtime.block_on(in_time);
        assert!(in_time.is_ok(), "{} of {expected}", count());
    }
}

/// A guest that calls a model and then runs `evaluate`.
fn judge_with(evaluate: &str) -> Vec<u8> {
    let imports = [SIDE, MODEL, SLEEP].concat();
    Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "complete" (func $complete)) (export "request" (func $request))
            (export "subscribe" (func $subscribe)) (export "block" (func $block))))"#,
        core_imports: r#"(import "host" "complete" (func $complete (param i32 i32)))
            (import "host" "request" (func $request (param i32 i32) (result i32)))
            (import "host" "subscribe" (func $subscribe (param i64) (result i32)))
            (import "host" "block" (func $block (param i32)))"#,
        evaluate: &["(call $complete (call $request (i32.const 0) (i32.const 0)) (i32.const 256))", evaluate].concat(),
        ..Guest::default()
    }
    .bytes()
}

/// A guest that calls a model once.
fn judge() -> Vec<u8> {
    let imports = [SIDE, MODEL].concat();
    Guest {
        imports: &imports,
        with: r#"(with "host" (instance (export "complete" (func $complete)) (export "request" (func $request))))"#,
        core_imports: r#"(import "host" "complete" (func $complete (param i32 i32)))
            (import "host" "request" (func $request (param i32 i32) (result i32)))"#,
        evaluate: "(call $complete (call $request (i32.const 0) (i32.const 0)) (i32.const 256))",
        ..Guest::default()
    }
    .bytes()
}

#[test]
fn two_thousand_guests_wait_at_a_time_and_then_complete() {
    const N: usize = 2_000;
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { max_live: 2_048, ..Settings::default() };
    let host = Arc::new(Host::new(&settings, folder.path()).unwrap());
    let judge = Arc::new(plugin(&host, folder.path(), &judge()));
    let gate = Arc::new(Gate { n_waiting: AtomicUsize::new(0), open: Semaphore::new(0) });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let calls: Vec<_> = (0..N)
            .map(|_| {
                let (host, judge) = (Arc::clone(&host), Arc::clone(&judge));
                let port = Arc::new(GatedPort(Arc::clone(&gate)));
                tokio::spawn(
                    async move { host.evaluate(&judge, call(Limits::default()), port).await },
                )
            })
            .collect();
        let n_waiting = || gate.n_waiting.load(Ordering::SeqCst);
        let all_wait = async {
            // Stops early if a call ended without a request.
            while n_waiting() < N && !calls.iter().any(JoinHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, all_wait).await;
        assert!(in_time.is_ok(), "{} of {N} wait", n_waiting());
        gate.open.add_permits(Semaphore::MAX_PERMITS / 2);
        for call in calls {
            let result = call.await.unwrap();
            assert!(result.outcome.is_ok(), "{:?}", result.outcome);
        }
    });
}

#[test]
fn waiting_for_a_model_counts_towards_no_time_limit() {
    let bench = WaitBench::new();
    let judge = bench.plugin(&judge());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = bench.plugin(&judge_with(sleep));
    let gate = Arc::new(Gate { n_waiting: AtomicUsize::new(0), open: Semaphore::new(0) });
    let limits = Limits { cpu_ms: 100, wall_ms: 400, ..Limits::default() };
    let waiting = bench.start(&judge, limits, GatedPort(Arc::clone(&gate)));
    bench.wait_until(&gate.n_waiting, 1);
    // Started later, but reaches the limit, because it waits for a clock.
    let slept = bench.start(&sleeper, limits, DenyAllPort);
    let ended = bench.result(slept).outcome.unwrap_err();
    assert_eq!(ended.class, FailureClass::WallTimeout);
    gate.open.add_permits(1);
    let answered = bench.result(waiting).outcome;
    assert!(answered.is_ok(), "{answered:?}");
}

#[test]
fn a_call_completes_while_more_guests_sleep_than_may_run() {
    const N: usize = 3 * N_PLACES;
    let bench = WaitBench::new();
    let good = bench.plugin(&Guest::default().bytes());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = bench.plugin(&judge_with(sleep));
    let n_requests = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let port = CountingPort(Arc::clone(&n_requests));
        bench.start(&sleeper, Limits::default(), port)
    };
    let sleepers: Vec<_> = (0..N).map(start).collect();
    // All ran, and sleep now.
    bench.wait_until(&n_requests, N);
    let neighbour = bench.start(&good, Limits::default(), DenyAllPort);
    assert!(bench.result(neighbour).outcome.is_ok());
    assert!(!sleepers.iter().any(JoinHandle::is_finished));
    sleepers.iter().for_each(JoinHandle::abort);
}

/// A sleeping guest keeps its instance, and their number is limited.
#[test]
fn waiting_for_an_instance_does_not_count_towards_the_wall_clock_limit() {
    const N: usize = 16;
    let bench = WaitBench::with(&Settings { max_live: N as u32, ..Settings::default() });
    let good = bench.plugin(&Guest::default().bytes());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = bench.plugin(&judge_with(sleep));
    let n_requests = Arc::new(AtomicUsize::new(0));
    let limits = |wall_ms| Limits { wall_ms, ..Limits::default() };
    let start = |_| bench.start(&sleeper, limits(2_000), CountingPort(Arc::clone(&n_requests)));
    let sleepers: Vec<_> = (0..N).map(start).collect();
    bench.wait_until(&n_requests, N);
    // Completes in spite of a lower limit, because its time starts with its instance.
    let next = bench.start(&good, limits(500), DenyAllPort);
    assert!(bench.result(next).outcome.is_ok());
    assert!(sleepers.iter().any(JoinHandle::is_finished));
    for sleeper in sleepers {
        let ended = bench.result(sleeper).outcome.unwrap_err();
        assert_eq!(ended.class, FailureClass::WallTimeout);
        assert_eq!(ended.message, "no answer within 2000 ms");
    }
}

#[test]
fn guests_that_wake_among_busy_ones_complete() {
    const N: usize = 100;
    let bench = WaitBench::new();
    let nap = "(call $block (call $subscribe (i64.const 1000000)))";
    let sleeper = bench.plugin(&judge_with(&nap.repeat(5)));
    let busy = bench.plugin(&judge_with("(loop $l (br $l))"));
    let limits = Limits { cpu_ms: 20, ..Limits::default() };
    let start = |_| {
        [(&sleeper, Limits::default()), (&busy, limits)]
            .map(|(plugin, limits)| bench.start(plugin, limits, DenyAllPort))
    };
    let calls: Vec<_> = (0..N).map(start).collect();
    for [sleeper, busy] in calls {
        let slept = bench.result(sleeper).outcome;
        assert!(slept.is_ok(), "{slept:?}");
        let ended = bench.result(busy).outcome.unwrap_err();
        assert_eq!(ended.class, FailureClass::FuelExhausted);
    }
}
