//! Guests that wait, for the server or for a clock: many at a time, off the processor, under the wall-clock
//! limit, in nobody's way.

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

/// Holds every question until it is opened; then answers that nothing was granted.
struct Gate {
    n_waiting: AtomicUsize,
    open: Semaphore,
}

/// The port of one call.
struct AtGate(Arc<Gate>);

impl Port for AtGate {
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

/// Counts questions and answers each at once.
struct Counted(Arc<AtomicUsize>);

impl Port for Counted {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// Guests that may run at a time.
const N_PLACES: usize = 64;
/// Ends tests that hang: far more than anything here takes, on the slowest machine too.
const LONG: Duration = Duration::from_secs(600);

/// A host, and a runtime as the worker has one.
struct Crowd {
    folder: tempfile::TempDir,
    host: Arc<Host>,
    runtime: tokio::runtime::Runtime,
}

impl Crowd {
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

    /// Starts a call in a task of its own.
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

    /// The result of a call that ends long before [`LONG`] is over.
    fn result(&self, call: JoinHandle<CallResult>) -> CallResult {
        let in_time = async { tokio::time::timeout(LONG, call).await };
        self.runtime.block_on(in_time).unwrap().unwrap()
    }

    fn until(&self, n: &AtomicUsize, wanted: usize) {
        let seen = || n.load(Ordering::SeqCst);
        let reached = async {
            while seen() < wanted {
                tokio::task::yield_now().await;
            }
        };
        let in_time = async { tokio::time::timeout(LONG, reached).await };
        let in_time = self.runtime.block_on(in_time);
        assert!(in_time.is_ok(), "{} of {wanted}", seen());
    }
}

/// Asks a model, then does so.
fn judge_that(evaluate: &str) -> Vec<u8> {
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

/// Asks a model once.
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
fn two_thousand_guests_wait_at_once_without_cpu_time_and_then_all_answer() {
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
                let port = Arc::new(AtGate(Arc::clone(&gate)));
                tokio::spawn(
                    async move { host.evaluate(&judge, call(Limits::default()), port).await },
                )
            })
            .collect();
        let n_waiting = || gate.n_waiting.load(Ordering::SeqCst);
        let all_wait = async {
            // One that ended did so without asking.
            while n_waiting() < N && !calls.iter().any(JoinHandle::is_finished) {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(LONG, all_wait).await;
        assert!(in_time.is_ok(), "{} of {N} wait", n_waiting());
        gate.open.add_permits(Semaphore::MAX_PERMITS / 2);
        for call in calls {
            let result = call.await.unwrap();
            assert!(result.outcome.is_ok(), "{:?}", result.outcome);
        }
    });
}

#[test]
fn waiting_for_a_model_counts_neither_as_wall_clock_time_nor_as_cpu_time() {
    let crowd = Crowd::new();
    let judge = crowd.plugin(&judge());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = crowd.plugin(&judge_that(sleep));
    let gate = Arc::new(Gate { n_waiting: AtomicUsize::new(0), open: Semaphore::new(0) });
    let limits = Limits { cpu_ms: 100, wall_ms: 400, ..Limits::default() };
    let waiting = crowd.start(&judge, limits, AtGate(Arc::clone(&gate)));
    crowd.until(&gate.n_waiting, 1);
    // Started later, it meets the same limit, since it waits for a clock.
    let slept = crowd.start(&sleeper, limits, DenyAllPort);
    let ended = crowd.result(slept).outcome.unwrap_err();
    assert_eq!(ended.class, FailureClass::WallTimeout);
    gate.open.add_permits(1);
    let answered = crowd.result(waiting).outcome;
    assert!(answered.is_ok(), "{answered:?}");
}

#[test]
fn more_sleeping_guests_than_places_leave_a_neighbour_its_answer() {
    const N: usize = 3 * N_PLACES;
    let crowd = Crowd::new();
    let good = crowd.plugin(&Guest::default().bytes());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = crowd.plugin(&judge_that(sleep));
    let n_asked = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let port = Counted(Arc::clone(&n_asked));
        crowd.start(&sleeper, Limits::default(), port)
    };
    let sleepers: Vec<_> = (0..N).map(start).collect();
    // All had a place, and nothing is left for them to do but sleep.
    crowd.until(&n_asked, N);
    let neighbour = crowd.start(&good, Limits::default(), DenyAllPort);
    assert!(crowd.result(neighbour).outcome.is_ok());
    assert!(!sleepers.iter().any(JoinHandle::is_finished));
    sleepers.iter().for_each(JoinHandle::abort);
}

/// A sleeper keeps its instance, and there are so many.
#[test]
fn with_every_instance_asleep_the_next_call_waits_off_its_clock_until_one_ends() {
    const N: usize = 16;
    let crowd = Crowd::with(&Settings { max_live: N as u32, ..Settings::default() });
    let good = crowd.plugin(&Guest::default().bytes());
    let sleep = "(call $block (call $subscribe (i64.const 3600000000000)))";
    let sleeper = crowd.plugin(&judge_that(sleep));
    let n_asked = Arc::new(AtomicUsize::new(0));
    let until = |wall_ms| Limits { wall_ms, ..Limits::default() };
    let start = |_| crowd.start(&sleeper, until(2_000), Counted(Arc::clone(&n_asked)));
    let sleepers: Vec<_> = (0..N).map(start).collect();
    crowd.until(&n_asked, N);
    // It has less time than they, and is answered all the same: its time begins with its instance.
    let next = crowd.start(&good, until(500), DenyAllPort);
    assert!(crowd.result(next).outcome.is_ok());
    assert!(sleepers.iter().any(JoinHandle::is_finished));
    for sleeper in sleepers {
        let ended = crowd.result(sleeper).outcome.unwrap_err();
        assert_eq!(ended.class, FailureClass::WallTimeout);
        assert_eq!(ended.message, "no answer within 2000 ms");
    }
}

#[test]
fn guests_that_wake_among_busy_ones_get_their_places_back_and_answer() {
    const N: usize = 100;
    let crowd = Crowd::new();
    let nap = "(call $block (call $subscribe (i64.const 1000000)))";
    let sleeper = crowd.plugin(&judge_that(&nap.repeat(5)));
    let busy = crowd.plugin(&judge_that("(loop $l (br $l))"));
    let limits = Limits { cpu_ms: 20, ..Limits::default() };
    let start = |_| {
        [(&sleeper, Limits::default()), (&busy, limits)]
            .map(|(plugin, limits)| crowd.start(plugin, limits, DenyAllPort))
    };
    let calls: Vec<_> = (0..N).map(start).collect();
    for [sleeper, busy] in calls {
        let slept = crowd.result(sleeper).outcome;
        assert!(slept.is_ok(), "{slept:?}");
        let ended = crowd.result(busy).outcome.unwrap_err();
        assert_eq!(ended.class, FailureClass::FuelExhausted);
    }
}
