//! Workers that crash, hang or exceed their memory limit.

use std::sync::Arc;
use std::time::Duration;

use perpend_domain::plugin::{CallResult, EvaluationCall, FailureClass};
use perpend_worker_pool::{NoHostCalls, Options};

use crate::guest::Guest;
use crate::{Bench, artifacts, block_on, call, class, kill, start, wait_until};

fn marked(guest: &Guest<'_>, id: &str) -> EvaluationCall {
    let mut call = call(guest);
    Arc::make_mut(&mut call.item).id = id.into();
    call
}

fn message(result: &CallResult) -> &str {
    match &result.outcome {
        Ok(_) => "",
        Err(failure) => &failure.message,
    }
}

/// A batch of `n_good` valid calls and the calls with the ids `among`.
fn batch(n_good: usize, guest: &Guest<'_>, among: &[&str]) -> Vec<EvaluationCall> {
    let mut calls: Vec<EvaluationCall> =
        (0..n_good).map(|n| marked(guest, &format!("good-{n}"))).collect();
    for (n, id) in among.iter().enumerate() {
        calls.insert((n + 1) * n_good / (among.len() + 1), marked(guest, id));
    }
    calls
}

async fn warm(change: impl FnOnce(&mut Options)) -> Bench {
    let good = Guest::default();
    let bench = start(&[&good], change, Arc::new(NoHostCalls));
    let answers = bench.workers.evaluate(vec![call(&good)]).await;
    assert!(answers[0].outcome.is_ok(), "{answers:?}");
    bench
}

/// Runs the calls, which must succeed except for `culprit`. Returns the result of that one.
async fn failure_of_one(bench: &Bench, calls: Vec<EvaluationCall>, culprit: &str) -> CallResult {
    let ids: Vec<String> = calls.iter().map(|call| call.item.id.clone()).collect();
    let answers = bench.workers.evaluate(calls).await;
    let mut failed = None;
    for (id, answer) in ids.into_iter().zip(answers) {
        if id == culprit {
            failed = Some(answer);
        } else {
            assert!(answer.outcome.is_ok(), "{id}: {answer:?}");
        }
    }
    failed.unwrap()
}

pub(crate) fn the_calls_of_a_killed_worker_are_repeated() {
    let good = Guest::default();
    let spin = Guest { evaluate: "(loop $forever (br $forever))", ..Guest::default() };
    block_on(async {
        let bench = start(&[&good, &spin], |_| (), Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        let mut spinning = call(&spin);
        spinning.limits.cpu_ms = 500;
        let first = bench.workers.pids();
        let killer = async {
            // The worker has the calls when the second component was compiled.
            wait_until(|| artifacts(&bench).len() == 2).await;
            kill(first[0]);
        };
        let (answers, ()) = tokio::join!(bench.workers.evaluate(vec![spinning; 3]), killer);
        for answer in &answers {
            assert_eq!(class(answer), Some(FailureClass::FuelExhausted), "{answers:?}");
        }
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        assert!(!bench.workers.pids().contains(&first[0]));
    });
}

pub(crate) fn a_call_that_crashes_two_workers_fails_and_its_batch_succeeds() {
    let good = Guest::default();
    block_on(async {
        let bench = warm(|_| ()).await;
        let failed = failure_of_one(&bench, batch(600, &good, &["abort-1"]), "abort-1").await;
        assert_eq!(class(&failed), Some(FailureClass::PluginTrap));
        let text = message(&failed);
        assert!(text.contains("two worker processes in a row"), "{text}");
        assert!(text.contains("SIGABRT"), "{text}");

        // The call is not run again, even with another seed. Other calls of the component are.
        let pids = bench.workers.pids();
        let mut again = marked(&good, "abort-1");
        again.seed = 99;
        let answers = bench.workers.evaluate(vec![again, call(&good)]).await;
        assert!(message(&answers[0]).contains("in quarantine"), "{answers:?}");
        assert!(answers[1].outcome.is_ok(), "{answers:?}");
        let later = bench.workers.pids();
        assert!(pids.iter().all(|pid| later.contains(pid)), "no worker ended");
    });
}

pub(crate) fn several_crashing_calls_are_identified_in_a_batch() {
    let good = Guest::default();
    block_on(async {
        let bench = warm(|options| options.n_workers = 2).await;
        let calls = batch(200, &good, &["abort-1", "abort-2", "abort-3"]);
        let ids: Vec<String> = calls.iter().map(|call| call.item.id.clone()).collect();
        let answers = bench.workers.evaluate(calls).await;
        for (id, answer) in ids.iter().zip(&answers) {
            assert_eq!(answer.outcome.is_err(), id.starts_with("abort"), "{id}: {answer:?}");
        }
    });
}

pub(crate) fn a_component_whose_calls_all_crash_is_rejected() {
    let (good, bad) = (
        Guest::default(),
        Guest { evaluate: "(i32.store (i32.const 0x508) (i32.const 0))", ..Guest::default() },
    );
    block_on(async {
        let bench = start(&[&good, &bad], |_| (), Arc::new(NoHostCalls));
        let calls = (0..40).map(|n| marked(&bad, &format!("abort-{n}"))).collect();
        let answers = bench.workers.evaluate(calls).await;
        assert!(answers.iter().all(|answer| answer.outcome.is_err()));
        let n_rejected = answers
            .iter()
            .filter(|answer| message(answer).contains("consecutive calls each ended"))
            .count();
        assert_eq!(n_rejected, 37, "all but three: {answers:?}");
        let answers = bench.workers.evaluate(vec![call(&bad), call(&good)]).await;
        assert!(message(&answers[0]).contains("the component"), "{answers:?}");
        assert!(answers[1].outcome.is_ok(), "{answers:?}");
    });
}

pub(crate) fn a_worker_over_its_memory_limit_is_replaced_and_its_call_fails() {
    let good = Guest::default();
    block_on(async {
        let bench = warm(|options| options.max_resident_bytes = 400 << 20).await;
        let failed = failure_of_one(&bench, batch(50, &good, &["grow-1"]), "grow-1").await;
        assert_eq!(class(&failed), Some(FailureClass::MemoryLimit), "{failed:?}");
        assert!(message(&failed).contains("the limit is 400 MiB"), "{failed:?}");
    });
}

pub(crate) fn a_worker_with_a_stuck_thread_is_replaced_and_its_call_fails() {
    let good = Guest::default();
    block_on(async {
        // Far longer than a valid call or the start of a worker takes.
        let bench = warm(|options| options.hang_grace = Duration::from_secs(2)).await;
        let mut calls = batch(20, &good, &["hang-1"]);
        for call in &mut calls {
            call.limits.wall_ms = 3_000;
        }
        let failed = failure_of_one(&bench, calls, "hang-1").await;
        // Detected by the server or by the worker.
        let text = message(&failed);
        let reasons = ["returned no result for", "kept its thread for"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    });
}

pub(crate) fn a_panic_in_the_host_fails_the_call() {
    let good = Guest::default();
    block_on(async {
        let bench = warm(|_| ()).await;
        let failed = failure_of_one(&bench, batch(20, &good, &["panic-1"]), "panic-1").await;
        assert_eq!(class(&failed), Some(FailureClass::Internal), "{failed:?}");
    });
}

pub(crate) fn a_stuck_thread_is_detected_while_other_calls_complete() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.hang_grace = Duration::from_secs(2);
            options.silence_limit = Duration::from_secs(10);
        };
        let bench = warm(change).await;
        let stuck_call = bench.workers.evaluate(vec![marked(&good, "hang-1")]);
        let answers = async {
            loop {
                let answers = bench.workers.evaluate(vec![call(&good)]).await;
                assert!(answers[0].outcome.is_ok(), "{answers:?}");
            }
        };
        let failed = tokio::select! {
            failed = stuck_call => failed,
            () = answers => unreachable!("the loop is endless"),
        };
        // The stuck thread may be the one that reads the socket; then the silence is detected.
        let text = message(&failed[0]);
        let reasons = ["sent nothing for", "kept its thread for"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    });
}
