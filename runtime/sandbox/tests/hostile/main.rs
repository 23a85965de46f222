//! Hostile guests end with a failure class, in bounded time, and without effects on other calls.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod guest;
mod inert;
mod limits;
mod neighbours;
mod reading;
mod registration;
mod turns;
mod waiting;
mod world;

use std::sync::Arc;

use perpend_domain::plugin::{CallResult, Digest, FailureClass, Limits, PluginScoreValue};
use perpend_sandbox::{DenyAllPort, Host, Plugin, Settings};
use perpend_worker_protocol::Grants;
use tempfile::TempDir;

use guest::Guest;
use neighbours::call;

/// A host with its own folder of compiled components.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    host: Host,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { max_live: 16, ..Settings::default() };
        let host = Host::new(&settings, folder.path()).unwrap();
        Self { folder, host }
    }

    async fn plugin(&self, bytes: Vec<u8>) -> Plugin {
        let digest = Digest::of(&bytes);
        let folder = self.folder.path().to_owned();
        // The compiler creates its own runtime.
        let compiling = tokio::task::spawn_blocking(move || {
            perpend_sandbox::compile(&bytes, &folder, Grants::ALL)
        });
        compiling.await.unwrap().unwrap();
        self.host.load(digest).unwrap()
    }

    async fn evaluate(&self, plugin: &Plugin, limits: Limits) -> CallResult {
        self.host.evaluate(plugin, call(limits), Arc::new(DenyAllPort)).await
    }
}

/// Runs a guest that must fail within two seconds of CPU time. Returns class and message.
async fn failure_of(guest: Guest<'_>) -> (FailureClass, String) {
    let limits = Limits { cpu_ms: 200, memory_bytes: 16 << 20, ..Limits::default() };
    let bench = Bench::new();
    let plugin = bench.plugin(guest.bytes()).await;
    let result = bench.evaluate(&plugin, limits).await;
    assert!(result.cpu_us < 2_000_000, "{} µs", result.cpu_us);
    let failure = result.outcome.unwrap_err();
    (failure.class, failure.message)
}

#[tokio::test]
async fn a_valid_guest_returns_its_score() {
    let bench = Bench::new();
    let plugin = bench.plugin(Guest::default().bytes()).await;
    assert_eq!(plugin.info().name, "acme/guest");
    let result = bench.evaluate(&plugin, Limits::default()).await;
    assert_eq!(result.outcome.unwrap()[0].value, PluginScoreValue::Numeric(1.0));
}

#[tokio::test]
async fn no_state_survives_a_call() {
    // Returns 1.0 in the first call of an instance, and traps in a second one.
    let evaluate = "(if (i32.load (i32.const 0x900)) (then unreachable))
        (i32.store (i32.const 0x900) (i32.const 1))";
    let bench = Bench::new();
    let plugin = bench.plugin(Guest { evaluate, ..Guest::default() }.bytes()).await;
    for _ in 0..50 {
        bench.evaluate(&plugin, Limits::default()).await.outcome.unwrap();
    }
}

#[tokio::test]
async fn a_trap_names_the_innermost_functions() {
    let fields = "(func $inner unreachable) (func $outer (call $inner))";
    let guest = Guest { fields, evaluate: "(call $outer)", ..Guest::default() };
    let (class, message) = failure_of(guest).await;
    assert_eq!(class, FailureClass::PluginTrap);
    assert!(message.contains("unreachable"), "{message}");
    assert!(message.contains("in inner, called by outer"), "{message}");
}

#[tokio::test]
async fn an_exit_is_a_trap_with_its_code() {
    let guest = Guest {
        imports: r#"(import "wasi:cli/exit@0.2.3" (instance $exit
            (export "exit" (func (param "status" (result))))))
            (core func $exit (canon lower (func $exit "exit")))"#,
        with: r#"(with "wasi" (instance (export "exit" (func $exit))))"#,
        core_imports: r#"(import "wasi" "exit" (func $exit (param i32)))"#,
        evaluate: "(call $exit (i32.const 1))",
        ..Guest::default()
    };
    let (class, message) = failure_of(guest).await;
    assert_eq!(class, FailureClass::PluginTrap);
    assert!(message.contains("exited with code 1"), "{message}");
}

#[tokio::test]
async fn clocks_are_constant_and_not_zero() {
    let guest = Guest {
        imports: r#"(import "wasi:clocks/monotonic-clock@0.2.3" (instance $clock
            (export "now" (func (result u64)))))
            (core func $now (canon lower (func $clock "now")))"#,
        with: r#"(with "wasi" (instance (export "now" (func $now))))"#,
        core_imports: r#"(import "wasi" "now" (func $now (result i64)))"#,
        // Traps at zero, and when two readings differ.
        evaluate: "(if (i64.eqz (call $now)) (then unreachable))
            (if (i64.ne (call $now) (call $now)) (then unreachable))",
        ..Guest::default()
    };
    let bench = Bench::new();
    let plugin = bench.plugin(guest.bytes()).await;
    bench.evaluate(&plugin, Limits::default()).await.outcome.unwrap();
}

/// On one thread, so that the sandbox and not the machine schedules the calls.
#[tokio::test]
async fn calls_complete_while_endless_loops_run() {
    let bench = Arc::new(Bench::new());
    let spin = Guest { evaluate: "(loop $forever (br $forever))", ..Guest::default() };
    let spin = Arc::new(bench.plugin(spin.bytes()).await);
    let good = bench.plugin(Guest::default().bytes()).await;
    let limits = Limits { cpu_ms: 400, ..Limits::default() };
    let loops: Vec<_> = (0..4)
        .map(|_| {
            let (bench, spin) = (Arc::clone(&bench), Arc::clone(&spin));
            tokio::spawn(async move { bench.evaluate(&spin, limits).await })
        })
        .collect();
    // All loops run before the other call starts.
    tokio::task::yield_now().await;
    for _ in 0..3 {
        let answered = bench.evaluate(&good, Limits::default()).await;
        answered.outcome.unwrap();
        assert!(!loops.iter().any(tokio::task::JoinHandle::is_finished));
    }
    for ended in loops {
        let failure = ended.await.unwrap().outcome.unwrap_err();
        assert_eq!(failure.class, FailureClass::FuelExhausted);
    }
}
