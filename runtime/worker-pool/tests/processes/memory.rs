//! Calls that keep their own limits, and together need far more memory than their worker may have.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use perpend_domain::plugin::{EvaluationCall, FailureClass};
use perpend_worker_pool::{Caller, HostCalls, MAX_RESULT_BYTES, NoHostCalls, Options};
use perpend_worker_protocol::{HostReply, HostRequest};

use crate::faults::LARGE_BYTES;
use crate::guest::Guest;
use crate::{AN_HOUR_MS, ASK, asks, block_on, call, class, start, until};

const COUNTER: &str = "(local $n i32)";
/// Puts something into each page of 64 MiB.
const FILL: &str = "
    (drop (memory.grow (i32.const 1024)))
    (memory.fill (i32.const 0x10000) (i32.const 90) (i32.const 0x4000000))";
/// Long enough to give others their turn, several times.
const WORK: &str = "
    (loop $more (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 50000000))))";

fn little_memory(options: &mut Options) {
    options.max_live = 64;
    options.max_resident_bytes = 768 << 20;
}

/// 1.5 GiB, were all of them alive at once.
const N_LARGE: usize = 24;

fn so_many(n: usize, guest: &Guest<'_>) -> Vec<EvaluationCall> {
    let mut call = call(guest);
    call.limits.memory_bytes = 80 << 20;
    // Being held back counts, and how long that takes is the machine's affair.
    call.limits.wall_ms = AN_HOUR_MS;
    vec![call; n]
}

pub(crate) fn calls_that_together_need_more_than_their_worker_may_have_are_all_answered() {
    let good = Guest::default();
    let evaluate = [COUNTER, ASK, FILL, WORK].concat();
    let large = asks(&evaluate);
    block_on(async {
        let asked = Arc::new(Asked(AtomicUsize::new(0)));
        let host_calls = Arc::clone(&asked) as Arc<dyn HostCalls>;
        let bench = start(&[&good, &large], little_memory, host_calls);
        let mut calls = so_many(N_LARGE, &large);
        calls.extend(so_many(100, &good));
        let answers = bench.workers.evaluate(calls).await;
        for answer in &answers {
            assert!(answer.outcome.is_ok(), "{answer:?}");
        }
        // A worker that is short for long is replaced, which on a slow machine may be the case here: but only
        // when it has no calls, so that none is made again.
        assert_eq!(asked.0.load(Ordering::SeqCst), N_LARGE);
    });
}

/// A worker sends results when they have so many bytes.
const FRAME_BYTES: usize = 1 << 20;

pub(crate) fn results_that_are_not_dropped_keep_further_ones_in_the_worker() {
    const N_CALLS: usize = 64;
    let good = Guest::default();
    block_on(async {
        let bench = start(&[&good], |_| {}, Arc::new(NoHostCalls));
        let mut large = call(&good);
        Arc::make_mut(&mut large.item).id = "large-1".to_owned();
        let mut answers = pin!(bench.workers.answers(vec![large; N_CALLS]));
        let (mut kept, mut n_answers) = (Vec::new(), 0);
        loop {
            let n_bytes = bench.workers.result_bytes();
            // What is read while there is still room is one frame.
            assert!(n_bytes <= MAX_RESULT_BYTES + FRAME_BYTES + LARGE_BYTES, "{n_bytes}");
            if MAX_RESULT_BYTES <= n_bytes {
                kept.clear();
            }
            let Some(answer) = answers.next().await else {
                break;
            };
            n_answers += 1;
            kept.push(answer);
        }
        assert_eq!(n_answers, N_CALLS);
        drop(kept);
        assert_eq!(bench.workers.result_bytes(), 0);
    });
}

/// Counts the calls that began, by the question that each of them asks first.
struct Asked(AtomicUsize);

impl HostCalls for Asked {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// Never answers.
struct Silent(AtomicUsize);

impl HostCalls for Silent {
    fn host_call(&self, _: Caller, _: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

pub(crate) fn sleepers_that_hold_what_others_need_end_in_a_class_of_their_own() {
    let good = Guest::default();
    let (work, sleep) = ([COUNTER, FILL, WORK].concat(), [FILL, ASK].concat());
    let large = Guest { evaluate: &work, ..Guest::default() };
    let sleeper = asks(&sleep);
    block_on(async {
        let silent = Arc::new(Silent(AtomicUsize::new(0)));
        let calls = Arc::clone(&silent) as Arc<dyn HostCalls>;
        let bench = start(&[&good, &large, &sleeper], little_memory, calls);
        let warm = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(warm[0].outcome.is_ok(), "{warm:?}");
        let before = bench.workers.pids();
        // They sleep until the test is over, or until they are ended.
        let mut sleepers: Vec<_> = so_many(N_LARGE, &sleeper)
            .into_iter()
            .map(|call| Box::pin(bench.workers.evaluate(vec![call])))
            .collect();
        let n_ended = AtomicUsize::new(0);
        let watch = async {
            let mut left = Vec::new();
            std::mem::swap(&mut left, &mut sleepers);
            while !left.is_empty() {
                let (answers, _, rest) = futures_util::future::select_all(left).await;
                assert_eq!(class(&answers[0]), Some(FailureClass::WorkerFull), "{answers:?}");
                let message = &answers[0].outcome.as_ref().unwrap_err().message;
                assert!(message.contains("this one used 64 MiB"), "{message}");
                n_ended.fetch_add(1, Ordering::SeqCst);
                left = rest;
            }
        };
        let others = async {
            until(|| 0 < silent.0.load(Ordering::SeqCst)).await;
            let mut calls = so_many(3, &large);
            calls.extend(so_many(100, &good));
            bench.workers.evaluate(calls).await
        };
        let answers = tokio::select! {
            answers = others => answers,
            () = async { watch.await; std::future::pending().await } => unreachable!(),
        };
        for answer in &answers {
            assert!(answer.outcome.is_ok(), "{answer:?}");
        }
        assert!(0 < n_ended.load(Ordering::SeqCst), "nobody had to end");
        assert_eq!(bench.workers.pids(), before, "no worker ended");
    });
}

pub(crate) fn a_worker_that_stays_short_of_memory_is_replaced_between_calls() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| options.max_resident_bytes = 512 << 20;
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let mut leaves = call(&good);
        Arc::make_mut(&mut leaves.item).id = "leave-1".into();
        let answers = bench.workers.evaluate(vec![leaves]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        let before = bench.workers.pids();
        while bench.workers.pids() == before {
            let answers = bench.workers.evaluate(vec![call(&good); 50]).await;
            for answer in &answers {
                assert!(answer.outcome.is_ok(), "{answer:?}");
            }
        }
    });
}
