//! Tests with real processes. This program starts itself as worker, compiler and checker.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../sandbox/tests/hostile/guest.rs"]
mod guest;

mod bombs;
mod confinement;
mod fakes;
mod faults;
mod losses;
mod memory;
mod replay;
mod schemas;
mod stuck;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use guest::Guest;
use libtest_mimic::{Arguments, Trial};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CallResult, Digest, EvaluationCall, FailureClass, Item, Limits, Purpose,
};
use perpend_worker_pool::{Caller, ComponentSource, HostCalls, NoHostCalls, Options, Workers};
use perpend_worker_protocol::{Grants, HostReply, HostRequest};
use tempfile::TempDir;

/// Number of parallel tests, independent of the processors, because most tests wait.
const MAX_PARALLEL_TESTS: usize = 4;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => perpend_sandbox::worker_main_with(faults::before_call),
        Some("compile") => perpend_sandbox::compile_main(),
        Some("check") => perpend_sandbox::check_main(),
        Some("end-at-once") => ExitCode::FAILURE,
        Some("stay-silent") => loop {
            std::thread::park();
        },
        _ => {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            if let Some(code) = fakes::program(&arguments) {
                return code;
            }
            if let Some(code) = confinement::restart_with_secret() {
                return code;
            }
            let mut arguments = Arguments::from_args();
            arguments.test_threads.get_or_insert(MAX_PARALLEL_TESTS);
            libtest_mimic::run(&arguments, trials()).exit_code()
        }
    }
}

/// Creates tests from the paths of their functions.
macro_rules! trials {
    ($($test:path),* $(,)?) => {
        vec![$(Trial::test(stringify!($test), || {
            $test();
            Ok(())
        })),*]
    };
}

fn trials() -> Vec<Trial> {
    trials![
        results_keep_the_order_of_their_calls,
        a_damaged_cache_file_is_rebuilt,
        a_worker_that_exits_at_once_is_reported,
        a_silent_worker_is_replaced,
        a_worker_that_waits_for_a_component_is_not_replaced,
        dropping_the_future_cancels_the_calls,
        host_calls_refer_to_their_call,
        inspect_describes_or_rejects_a_component,
        shutdown_waits_for_calls_in_flight,
        losses::the_calls_of_a_killed_worker_are_repeated,
        losses::a_call_that_crashes_two_workers_fails_and_its_batch_succeeds,
        losses::several_crashing_calls_are_identified_in_a_batch,
        losses::a_component_whose_calls_all_crash_is_rejected,
        losses::a_panic_in_the_host_fails_the_call,
        losses::a_worker_over_its_memory_limit_is_replaced_and_its_call_fails,
        memory::calls_that_together_exceed_the_memory_of_their_worker_all_succeed,
        memory::unread_results_are_bounded_until_they_are_dropped,
        memory::a_worker_that_stays_short_of_memory_is_replaced_when_idle,
        memory::sleeping_calls_are_evicted_when_others_need_memory,
        losses::a_worker_with_a_stuck_thread_is_replaced_and_its_call_fails,
        bombs::a_killed_compile_process_is_a_failure_of_the_host,
        bombs::compilation_is_bounded_in_time,
        schemas::schema_checks_are_bounded_in_time,
        schemas::reports_keep_the_order_of_their_values,
        schemas::many_checks_of_a_project_do_not_delay_others,
        schemas::checked_values_are_cached_and_others_get_separate_processes,
        schemas::idle_check_processes_that_ended_are_replaced,
        schemas::a_check_process_that_exits_at_once_is_a_failure,
        replay::a_worker_returns_the_same_bytes_as_a_host_in_process,
        losses::a_stuck_thread_is_detected_while_other_calls_complete,
        stuck::a_cancelled_call_that_is_stuck_is_detected,
        stuck::a_worker_that_does_not_shut_down_is_killed,
        stuck::a_worker_that_does_not_read_is_killed_before_many_traces_are_read,
        stuck::a_worker_that_does_not_read_is_killed_before_its_replies_fill_the_server,
        stuck::calls_use_a_working_slot_when_others_cannot_start_workers,
        stuck::calls_fail_with_the_cause_when_no_slot_can_start_a_worker,
        confinement::a_worker_has_no_environment_no_files_and_no_rights,
        confinement::compiler_and_checker_are_confined_before_they_read_untrusted_input,
        confinement::a_worker_cannot_access_anything_outside,
        confinement::a_worker_reports_its_sandbox_layers,
        confinement::a_program_that_is_not_a_worker_reports_no_sandbox_layers,
        confinement::a_worker_that_lacks_a_required_sandbox_layer_ends,
    ]
}

struct Registered(HashMap<Digest, Vec<u8>>);

impl ComponentSource for Registered {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::ready(self.0.get(&digest).cloned()))
    }
}

struct Bench {
    workers: Workers,
    folder: TempDir,
}

fn start(
    guests: &[&Guest<'_>],
    change: impl FnOnce(&mut Options),
    calls: Arc<dyn HostCalls>,
) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(std::env::current_exe().unwrap(), folder.path().join("cache"));
    options.max_live = 16;
    change(&mut options);
    let bytes = guests.iter().map(|guest| guest.bytes());
    let registered = Registered(bytes.map(|bytes| (Digest::of(&bytes), bytes)).collect());
    Bench { workers: Workers::start(options, Arc::new(registered), calls), folder }
}

fn call(guest: &Guest<'_>) -> EvaluationCall {
    EvaluationCall {
        plugin: Digest::of(&guest.bytes()),
        evaluator_id: "one".into(),
        config: "{}".into(),
        item: Item { output: Some(Payload::Text("hello".into())), ..Item::default() }.into(),
        seed: 7,
        run_time_ms: 1_000,
        limits: Limits { cpu_ms: 20_000, ..Limits::default() },
        purpose: Purpose::Evaluate,
        origin: None,
    }
}

/// Ends tests that hang.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Longer than any test runs.
const AN_HOUR_MS: u32 = 3_600_000;

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let in_time = tokio::time::timeout(PATIENCE, test).await;
        in_time.unwrap()
    })
}

fn class(result: &CallResult) -> Option<FailureClass> {
    result.outcome.as_ref().err().map(|failure| failure.class)
}

fn results_keep_the_order_of_their_calls() {
    let good = Guest::default();
    // Returns no scores.
    let empty =
        Guest { evaluate: "(i32.store (i32.const 0x508) (i32.const 0))", ..Guest::default() };
    block_on(async {
        let bench = start(&[&good, &empty], |options| options.n_workers = 2, Arc::new(NoHostCalls));
        let (good, empty) = (call(&good), call(&empty));
        let calls =
            (0..600).map(|i| if i % 3 == 0 { empty.clone() } else { good.clone() }).collect();
        for (i, result) in bench.workers.evaluate(calls).await.iter().enumerate() {
            let n_scores = result.outcome.as_ref().unwrap().len();
            assert_eq!(n_scores, usize::from(i % 3 != 0), "call {i}");
        }
    });
}

/// Waits until a condition holds.
async fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The compiled components; excludes temporary files.
fn artifacts(bench: &Bench) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(bench.folder.path().join("cache")).unwrap();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "cwasm")).collect()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn a_damaged_cache_file_is_rebuilt() {
    let good = Guest::default();
    block_on(async {
        let first = start(&[&good], |_| (), Arc::new(NoHostCalls));
        assert!(first.workers.evaluate(vec![call(&good)]).await[0].outcome.is_ok());
        first.workers.shutdown().await;
        let cache = first.folder.path().join("cache");
        let file = artifacts(&first).remove(0);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();

        let cache_dir = cache.clone();
        let second =
            start(&[&good], |options| options.cache_dir = cache_dir, Arc::new(NoHostCalls));
        assert!(second.workers.evaluate(vec![call(&good)]).await[0].outcome.is_ok());
        assert_eq!(std::fs::read(&file).unwrap().len(), whole.len());
    });
}

fn a_worker_that_exits_at_once_is_reported() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| options.args = vec!["end-at-once".into()];
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        // The last call finds the component in quarantine, or its worker is lost.
        for _ in 0..4 {
            let answers = bench.workers.evaluate(vec![call(&good)]).await;
            let class = class(&answers[0]);
            assert!(
                matches!(class, Some(FailureClass::WorkerLost | FailureClass::PluginTrap)),
                "{answers:?}"
            );
        }
    });
}

fn a_silent_worker_is_replaced() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["stay-silent".into()];
            options.silence_limit = Duration::from_millis(300);
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::WorkerLost));
        let message = &answers[0].outcome.as_ref().unwrap_err().message;
        assert!(message.contains("sent nothing"), "{message}");
    });
}

/// Returns components after a delay.
struct DelayedSource(Registered, Duration);

impl ComponentSource for DelayedSource {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let never = std::future::pending::<()>();
            drop(tokio::time::timeout(self.1, never).await);
            self.0.component(digest).await
        })
    }
}

fn a_worker_that_waits_for_a_component_is_not_replaced() {
    let good = Guest::default();
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let mut options = Options::new(std::env::current_exe().unwrap(), cache);
        options.max_live = 16;
        options.hang_grace = Duration::from_secs(1);
        let bytes = good.bytes();
        let registered = Registered([(Digest::of(&bytes), bytes)].into());
        // Longer than the wall-clock limit and `hang_grace`.
        let source = DelayedSource(registered, Duration::from_secs(9));
        let workers = Workers::start(options, Arc::new(source), Arc::new(NoHostCalls));
        let mut call = call(&good);
        call.limits.wall_ms = 5_000;
        let answers = workers.evaluate(vec![call]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
    });
}

fn dropping_the_future_cancels_the_calls() {
    let good = Guest::default();
    let spin = Guest { evaluate: "(loop $forever (br $forever))", ..Guest::default() };
    block_on(async {
        // The endless call occupies the only place.
        let change = |options: &mut Options| options.max_in_flight = 1;
        let bench = start(&[&good, &spin], change, Arc::new(NoHostCalls));
        let warm = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(warm[0].outcome.is_ok());
        // Does not reach its limits during the test.
        let mut endless = call(&spin);
        (endless.limits.cpu_ms, endless.limits.wall_ms) = (AN_HOUR_MS, AN_HOUR_MS);
        tokio::select! {
            answers = bench.workers.evaluate(vec![endless]) => unreachable!("{answers:?}"),
            () = wait_until(|| artifacts(&bench).len() == 2) => {}
        }
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
    });
}

/// Reads a part of a trace.
const READ_TRACE: &str =
    "(call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32))";

/// A guest that can run [`READ_TRACE`].
fn trace_reader(evaluate: &str) -> Guest<'_> {
    Guest {
        imports: r#"(import "perpend:evaluator/trace-reader@1.0.0" (instance $reader
            (type $error' (variant (case "not-granted" string) (case "not-found" string)
              (case "too-large" string) (case "unavailable" string) (case "cancelled")))
            (export "trace-error" (type $error (eq $error')))
            (export "read-metadata" (func (param "trace-id" string) (param "observation-id" string)
              (result (result (option string) (error $error)))))))
            (core module $memory (memory (export "memory") 1)
              (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x100)))
            (core instance $memory (instantiate $memory))
            (core func $read (canon lower (func $reader "read-metadata")
              (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))"#,
        with: r#"(with "host" (instance (export "read" (func $read))))"#,
        core_imports: r#"(import "host" "read" (func $read (param i32 i32 i32 i32 i32)))"#,
        evaluate,
        ..Guest::default()
    }
}

/// Denies host calls, and records their callers.
struct RecordingHostCalls(std::sync::Mutex<Vec<String>>);

impl HostCalls for RecordingHostCalls {
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        let record = format!("{} {:?}", caller.call.item.id, request);
        self.0.lock().unwrap().push(record);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

fn host_calls_refer_to_their_call() {
    let reader = trace_reader(READ_TRACE);
    block_on(async {
        let records = Arc::new(RecordingHostCalls(std::sync::Mutex::default()));
        let change = |options: &mut Options| options.grants = Grants::ALL;
        let bench = start(&[&reader], change, Arc::clone(&records) as Arc<dyn HostCalls>);
        let mut call = call(&reader);
        Arc::make_mut(&mut call.item).id = "mine".into();
        let answers = bench.workers.evaluate(vec![call]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        let records = records.0.lock().unwrap();
        assert!(records.len() == 1 && records[0].starts_with("mine Read"), "{records:?}");
    });
}

fn inspect_describes_or_rejects_a_component() {
    block_on(async {
        let bench = start(&[], |_| (), Arc::new(NoHostCalls));
        let info = bench.workers.inspect(&Guest::default().bytes()).await.unwrap();
        assert_eq!(info.name, "acme/guest");
        let problems = bench.workers.inspect(b"hello").await.unwrap_err();
        assert_eq!(problems[0].at, "file");
    });
}

fn shutdown_waits_for_calls_in_flight() {
    let good = Guest::default();
    let spin = Guest { evaluate: "(loop $forever (br $forever))", ..Guest::default() };
    block_on(async {
        let bench = start(&[&good, &spin], |_| (), Arc::new(NoHostCalls));
        assert!(bench.workers.evaluate(vec![call(&good)]).await[0].outcome.is_ok());
        let mut slow = call(&spin);
        slow.limits.cpu_ms = 300;
        let stop = async {
            wait_until(|| artifacts(&bench).len() == 2).await;
            bench.workers.shutdown().await;
        };
        let (answers, ()) = tokio::join!(bench.workers.evaluate(vec![slow]), stop);
        assert_eq!(class(&answers[0]), Some(FailureClass::FuelExhausted));
        let late = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&late[0]), Some(FailureClass::Cancelled));
    });
}
