//! Real worker processes: this program starts itself again as worker, as compiler and as checker of schemas.
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

/// Tests at a time, however few the processors: most of them wait for a limit to pass.
const N_AT_A_TIME: usize = 4;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => perpend_sandbox::worker_main_with(faults::before_call),
        Some("compile") => perpend_sandbox::compile_main(),
        Some("check") => perpend_sandbox::check_main(),
        Some("end-at-once") => ExitCode::FAILURE,
        Some("say-nothing") => loop {
            std::thread::park();
        },
        _ => {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            if let Some(code) = fakes::program(&arguments) {
                return code;
            }
            if let Some(code) = confinement::with_a_secret() {
                return code;
            }
            let mut arguments = Arguments::from_args();
            arguments.test_threads.get_or_insert(N_AT_A_TIME);
            libtest_mimic::run(&arguments, trials()).exit_code()
        }
    }
}

/// A test by the path of its function.
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
        calls_are_answered_in_their_order,
        a_damaged_cache_file_is_rebuilt,
        a_program_that_ends_at_once_is_reported,
        a_worker_that_hangs_is_replaced,
        a_worker_that_waits_for_a_component_is_not_taken_for_hung,
        dropping_the_future_cancels_what_a_worker_has,
        host_calls_carry_the_call_they_come_from,
        inspect_describes_and_refuses,
        shutdown_waits_for_calls_in_flight,
        losses::the_calls_of_a_killed_worker_are_made_again,
        losses::the_call_that_crashes_two_workers_fails_and_its_batch_is_scored,
        losses::several_culprits_are_found_among_their_neighbours,
        losses::a_component_whose_every_call_crashes_is_refused,
        losses::a_panic_in_the_host_is_an_answer,
        losses::a_worker_that_grows_is_replaced_and_the_call_is_named,
        memory::calls_that_together_need_more_than_their_worker_may_have_are_all_answered,
        memory::results_that_are_not_dropped_keep_further_ones_in_the_worker,
        memory::a_worker_that_stays_short_of_memory_is_replaced_between_calls,
        memory::sleepers_that_hold_what_others_need_end_in_a_class_of_their_own,
        losses::a_worker_whose_thread_hangs_is_replaced_and_the_call_is_named,
        bombs::a_compile_process_that_is_killed_says_nothing_about_its_component,
        bombs::components_that_are_hard_to_compile_end_in_bounded_time,
        schemas::schemas_that_ask_for_endless_work_end_in_bounded_time,
        schemas::every_value_of_every_schema_gets_its_answer_in_order,
        schemas::a_project_that_asks_for_much_keeps_no_other_waiting,
        schemas::what_was_checked_is_known_and_everything_else_gets_a_process_of_its_own,
        schemas::processes_that_ended_while_they_waited_are_replaced,
        schemas::a_check_process_that_ends_at_once_is_a_fault_of_its_own,
        replay::a_worker_answers_byte_for_byte_as_the_server_itself_would,
        losses::a_thread_that_hangs_is_noticed_while_others_answer,
        stuck::a_cancelled_call_that_keeps_its_thread_is_noticed,
        stuck::a_worker_that_does_not_end_when_it_is_told_to_is_ended,
        stuck::a_worker_that_reads_no_traces_it_asked_for_is_ended_and_few_are_read,
        stuck::a_worker_that_leaves_its_answers_unread_is_ended_before_they_fill_the_server,
        stuck::calls_wait_for_the_lane_that_works_when_another_gets_no_worker,
        stuck::calls_fail_with_the_cause_when_no_lane_gets_a_worker,
        confinement::from_outside_a_worker_has_no_environment_no_files_and_no_rights,
        confinement::compiler_and_checker_are_confined_before_they_read_untrusted_input,
        confinement::from_inside_a_worker_nothing_outside_can_be_reached,
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

/// Ends tests that hang. No claim depends on it, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Longer than any test is waited for.
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

fn calls_are_answered_in_their_order() {
    let good = Guest::default();
    // Gives no score at all.
    let silent =
        Guest { evaluate: "(i32.store (i32.const 0x508) (i32.const 0))", ..Guest::default() };
    block_on(async {
        let bench =
            start(&[&good, &silent], |options| options.n_workers = 2, Arc::new(NoHostCalls));
        let (good, silent) = (call(&good), call(&silent));
        let calls =
            (0..600).map(|i| if i % 3 == 0 { silent.clone() } else { good.clone() }).collect();
        for (i, result) in bench.workers.evaluate(calls).await.iter().enumerate() {
            let n_scores = result.outcome.as_ref().unwrap().len();
            assert_eq!(n_scores, usize::from(i % 3 != 0), "call {i}");
        }
    });
}

/// Waits until a fact is there.
async fn until(fact: impl Fn() -> bool) {
    while !fact() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What was compiled; not what is being written, nor the file by which the clock of the folder is asked.
fn artifacts(bench: &Bench) -> Vec<PathBuf> {
    let found = std::fs::read_dir(bench.folder.path().join("cache")).unwrap();
    let paths = found.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|end| end == "cwasm")).collect()
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

fn a_program_that_ends_at_once_is_reported() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| options.args = vec!["end-at-once".into()];
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        // The fourth finds the component in quarantine, or the worker lost again.
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

fn a_worker_that_hangs_is_replaced() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["say-nothing".into()];
            options.silence_limit = Duration::from_millis(300);
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::WorkerLost));
        let message = &answers[0].outcome.as_ref().unwrap_err().message;
        assert!(message.contains("sent nothing"), "{message}");
    });
}

/// Gives the component after a while, as a large one takes to compile.
struct Slow(Registered, Duration);

impl ComponentSource for Slow {
    fn component(&self, digest: Digest) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            let never = std::future::pending::<()>();
            drop(tokio::time::timeout(self.1, never).await);
            self.0.component(digest).await
        })
    }
}

fn a_worker_that_waits_for_a_component_is_not_taken_for_hung() {
    let good = Guest::default();
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        let mut options = Options::new(std::env::current_exe().unwrap(), cache);
        options.max_live = 16;
        options.hang_grace = Duration::from_secs(1);
        let bytes = good.bytes();
        let registered = Registered([(Digest::of(&bytes), bytes)].into());
        // Longer than a hung one is given, and that is far more than the call needs.
        let slow = Slow(registered, Duration::from_secs(9));
        let workers = Workers::start(options, Arc::new(slow), Arc::new(NoHostCalls));
        let mut call = call(&good);
        call.limits.wall_ms = 5_000;
        let answers = workers.evaluate(vec![call]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
    });
}

fn dropping_the_future_cancels_what_a_worker_has() {
    let good = Guest::default();
    let spin = Guest { evaluate: "(loop $forever (br $forever))", ..Guest::default() };
    block_on(async {
        // The endless call takes the only place there is.
        let change = |options: &mut Options| options.max_in_flight = 1;
        let bench = start(&[&good, &spin], change, Arc::new(NoHostCalls));
        let warm = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(warm[0].outcome.is_ok());
        // By itself it would not end before the test.
        let mut endless = call(&spin);
        (endless.limits.cpu_ms, endless.limits.wall_ms) = (AN_HOUR_MS, AN_HOUR_MS);
        tokio::select! {
            answers = bench.workers.evaluate(vec![endless]) => unreachable!("{answers:?}"),
            () = until(|| artifacts(&bench).len() == 2) => {}
        }
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
    });
}

/// Asks the server for a piece of a trace, and waits for it.
const ASK: &str =
    "(call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32))";

/// A guest that may [`ASK`].
fn asks(evaluate: &str) -> Guest<'_> {
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

/// Refuses, and notes in whose name it was asked.
struct Notes(std::sync::Mutex<Vec<String>>);

impl HostCalls for Notes {
    fn host_call(&self, caller: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        let note = format!("{} {:?}", caller.call.item.id, request);
        self.0.lock().unwrap().push(note);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

fn host_calls_carry_the_call_they_come_from() {
    let reader = asks(ASK);
    block_on(async {
        let notes = Arc::new(Notes(std::sync::Mutex::default()));
        let change = |options: &mut Options| options.grants = Grants::ALL;
        let bench = start(&[&reader], change, Arc::clone(&notes) as Arc<dyn HostCalls>);
        let mut call = call(&reader);
        Arc::make_mut(&mut call.item).id = "mine".into();
        let answers = bench.workers.evaluate(vec![call]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        let notes = notes.0.lock().unwrap();
        assert!(notes.len() == 1 && notes[0].starts_with("mine Read"), "{notes:?}");
    });
}

fn inspect_describes_and_refuses() {
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
            until(|| artifacts(&bench).len() == 2).await;
            bench.workers.shutdown().await;
        };
        let (answers, ()) = tokio::join!(bench.workers.evaluate(vec![slow]), stop);
        assert_eq!(class(&answers[0]), Some(FailureClass::FuelExhausted));
        let late = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&late[0]), Some(FailureClass::Cancelled));
    });
}
