//! Calls within their limits that together exceed the memory limit of their worker.

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
use crate::{AN_HOUR_MS, READ_TRACE, block_on, call, class, start, trace_reader, wait_until};

const COUNTER: &str = "(local $n i32)";
/// Writes to each page of 64 MiB.
const FILL: &str = "
    (drop (memory.grow (i32.const 1024)))
    (memory.fill (i32.const 0x10000) (i32.const 90) (i32.const 0x4000000))";
/// Runs for several time slices.
const WORK: &str = "
    (loop $more (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $n) (i32.const 50000000))))";

fn low_memory_limit(options: &mut Options) {
    options.max_live = 64;
    options.max_resident_bytes = 768 << 20;
}

/// Together they use 1.5 GiB.
const N_LARGE: usize = 24;

fn repeated_calls(n: usize, guest: &Guest<'_>) -> Vec<EvaluationCall> {
    let mut call = call(guest);
    call.limits.memory_bytes = 80 << 20;
    // The time for which calls are paused counts, and depends on the machine.
    call.limits.wall_ms = AN_HOUR_MS;
    vec![call; n]
}

pub(crate) fn calls_that_together_exceed_the_memory_of_their_worker_all_succeed() {
    let good = Guest::default();
    let evaluate = [COUNTER, READ_TRACE, FILL, WORK].concat();
    let large = trace_reader(&evaluate);
    block_on(async {
        let counter = Arc::new(CountingHostCalls(AtomicUsize::new(0)));
        let host_calls = Arc::clone(&counter) as Arc<dyn HostCalls>;
        let bench = start(&[&good, &large], low_memory_limit, host_calls);
        let mut calls = repeated_calls(N_LARGE, &large);
        calls.extend(repeated_calls(100, &good));
        let answers = bench.workers.evaluate(calls).await;
        for answer in &answers {
            assert!(answer.outcome.is_ok(), "{answer:?}");
        }
        // On a slow machine the worker may be replaced, but only without calls, so that none is repeated.
        assert_eq!(counter.0.load(Ordering::SeqCst), N_LARGE);
    });
}

/// Approximate maximum size of a frame of results.
const FRAME_BYTES: usize = 1 << 20;

pub(crate) fn unread_results_are_bounded_until_they_are_dropped() {
    const N_CALLS: usize = 64;
    let good = Guest::default();
    block_on(async {
        let bench = start(&[&good], |_| {}, Arc::new(NoHostCalls));
        let mut large = call(&good);
        Arc::make_mut(&mut large.item).id = "large-1".to_owned();
        let mut answers = pin!(bench.workers.answers(vec![large; N_CALLS]));
        let (mut unread, mut n_answers) = (Vec::new(), 0);
        loop {
            let n_bytes = bench.workers.result_bytes();
            // At most one frame is read beyond the limit.
            assert!(n_bytes <= MAX_RESULT_BYTES + FRAME_BYTES + LARGE_BYTES, "{n_bytes}");
            if MAX_RESULT_BYTES <= n_bytes {
                unread.clear();
            }
            let Some(answer) = answers.next().await else {
                break;
            };
            n_answers += 1;
            unread.push(answer);
        }
        assert_eq!(n_answers, N_CALLS);
        drop(unread);
        assert_eq!(bench.workers.result_bytes(), 0);
    });
}

/// Counts and denies host calls. Each call starts with one.
struct CountingHostCalls(AtomicUsize);

impl HostCalls for CountingHostCalls {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(request.not_granted()))
    }
}

/// Counts host calls and never replies.
struct PendingHostCalls(AtomicUsize);

impl HostCalls for PendingHostCalls {
    fn host_call(&self, _: Caller, _: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

pub(crate) fn sleeping_calls_are_evicted_when_others_need_memory() {
    let good = Guest::default();
    let (work, sleep) = ([COUNTER, FILL, WORK].concat(), [FILL, READ_TRACE].concat());
    let large = Guest { evaluate: &work, ..Guest::default() };
    let sleeper = trace_reader(&sleep);
    block_on(async {
        let pending = Arc::new(PendingHostCalls(AtomicUsize::new(0)));
        let calls = Arc::clone(&pending) as Arc<dyn HostCalls>;
        let bench = start(&[&good, &large, &sleeper], low_memory_limit, calls);
        let warm = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(warm[0].outcome.is_ok(), "{warm:?}");
        let before = bench.workers.pids();
        // They sleep until they are evicted or the test ends.
        let mut sleepers: Vec<_> = repeated_calls(N_LARGE, &sleeper)
            .into_iter()
            .map(|call| Box::pin(bench.workers.evaluate(vec![call])))
            .collect();
        let n_evicted = AtomicUsize::new(0);
        let watch = async {
            let mut left = Vec::new();
            std::mem::swap(&mut left, &mut sleepers);
            while !left.is_empty() {
                let (answers, _, rest) = futures_util::future::select_all(left).await;
                assert_eq!(class(&answers[0]), Some(FailureClass::WorkerFull), "{answers:?}");
                let message = &answers[0].outcome.as_ref().unwrap_err().message;
                assert!(message.contains("this one used 64 MiB"), "{message}");
                n_evicted.fetch_add(1, Ordering::SeqCst);
                left = rest;
            }
        };
        let others = async {
            wait_until(|| 0 < pending.0.load(Ordering::SeqCst)).await;
            let mut calls = repeated_calls(3, &large);
            calls.extend(repeated_calls(100, &good));
            bench.workers.evaluate(calls).await
        };
        let answers = tokio::select! {
            answers = others => answers,
            () = async { watch.await; std::future::pending().await } => unreachable!(),
        };
        for answer in &answers {
            assert!(answer.outcome.is_ok(), "{answer:?}");
        }
        assert!(0 < n_evicted.load(Ordering::SeqCst), "no call was evicted");
        assert_eq!(bench.workers.pids(), before, "no worker ended");
    });
}

pub(crate) fn a_worker_that_stays_short_of_memory_is_replaced_when_idle() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| options.max_resident_bytes = 512 << 20;
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let mut leaking = call(&good);
        Arc::make_mut(&mut leaking.item).id = "leave-1".into();
        let answers = bench.workers.evaluate(vec![leaking]).await;
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
