//! Workers with a stuck thread, workers that do not shut down or do not read, and slots that cannot start workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::FailureClass;
use perpend_worker_pool::{Caller, HostCalls, NoHostCalls, Options};
use perpend_worker_protocol::host_call::ModelError;
use perpend_worker_protocol::{HostReply, HostRequest};

use crate::guest::Guest;
use crate::{Bench, PATIENCE, block_on, call, class, start, wait_until};

/// Cancels a stuck call. Returns false when the stuck thread was the one that reads the socket, so that the worker was replaced
/// before the cancellation.
async fn cancel_stuck_call(bench: &Bench) -> bool {
    let good = Guest::default();
    let warm = bench.workers.evaluate(vec![call(&good)]).await;
    assert!(warm[0].outcome.is_ok(), "{warm:?}");
    let first = bench.workers.pids()[0];
    let has_ended = || !bench.workers.pids().contains(&first);
    let mut stuck_call = call(&good);
    Arc::make_mut(&mut stuck_call.item).id = "hang-1".into();
    // The worker has the stuck call when a later one completes.
    tokio::select! {
        biased;
        answers = bench.workers.evaluate(vec![stuck_call]) => unreachable!("{answers:?}"),
        later = bench.workers.evaluate(vec![call(&good)]) => {
            assert!(later[0].outcome.is_ok(), "{later:?}");
        }
        () = wait_until(has_ended) => return false,
    }
    if has_ended() {
        return false;
    }
    // The worker is replaced even though the call was cancelled.
    wait_until(has_ended).await;
    let later = bench.workers.evaluate(vec![call(&good)]).await;
    assert!(later[0].outcome.is_ok(), "{later:?}");
    true
}

pub(crate) fn a_cancelled_call_that_is_stuck_is_detected() {
    block_on(async {
        let mut was_cancelled = false;
        while !was_cancelled {
            let change = |options: &mut Options| {
                options.hang_grace = Duration::from_secs(2);
                options.silence_limit = Duration::from_secs(10);
            };
            let bench = start(&[&Guest::default()], change, Arc::new(NoHostCalls));
            was_cancelled = cancel_stuck_call(&bench).await;
            bench.workers.shutdown().await;
        }
    });
}

pub(crate) fn a_worker_that_does_not_shut_down_is_killed() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["ignore-shutdown".into()];
            options.hang_grace = Duration::from_millis(500);
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        bench.workers.shutdown().await;
        assert!(bench.workers.pids().is_empty());
    });
}

/// Counts requests, and replies to each with 1 MiB.
struct LargeReplies(AtomicUsize);

impl HostCalls for LargeReplies {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let text = "x".repeat(1 << 20);
        Box::pin(std::future::ready(match request {
            HostRequest::Complete(_) => {
                HostReply::Complete(vec![Err(ModelError::Unavailable(text))])
            }
            _ => HostReply::Read(Ok(Some(Payload::Text(text)))),
        }))
    }
}

/// Runs a worker with this program. Returns the failure message and the number of its requests that were served.
fn run_unreading_worker(program: &'static str, silence_limit: Duration) -> (String, usize) {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec![program.into()];
            options.silence_limit = silence_limit;
        };
        let replies = Arc::new(LargeReplies(AtomicUsize::new(0)));
        let bench = start(&[&good], change, Arc::clone(&replies) as Arc<dyn HostCalls>);
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::PluginTrap));
        let message = answers[0].outcome.as_ref().unwrap_err().message.clone();
        (message, replies.0.load(Ordering::SeqCst))
    })
}

pub(crate) fn a_worker_that_does_not_read_is_killed_before_many_traces_are_read() {
    let program = "request-traces-and-read-nothing";
    let (message, n_served) = run_unreading_worker(program, Duration::from_secs(3));
    assert!(message.contains("it read nothing for 3000 ms"), "{message}");
    // Two workers, each with the replies in the socket, one that is written, and four that wait.
    assert!(n_served < 40, "{n_served}");
}

pub(crate) fn a_worker_that_does_not_read_is_killed_before_its_replies_fill_the_server() {
    let program = "request-completions-and-read-nothing";
    let (message, n_served) = run_unreading_worker(program, PATIENCE);
    assert!(message.contains("it left 256 MiB"), "{message}");
    // Two workers; further replies are created until a worker has ended.
    assert!(n_served < 4 * 256, "{n_served}");
}

pub(crate) fn calls_use_a_working_slot_when_others_cannot_start_workers() {
    let good = Guest::default();
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let change = |options: &mut Options| {
            options.args = vec!["worker-once".into(), mark.clone().into()];
            options.n_workers = 3;
            options.max_in_flight = 8;
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good); 600]).await;
        assert!(answers.iter().all(|answer| answer.outcome.is_ok()));
        assert!(mark.exists());
    });
}

pub(crate) fn calls_fail_with_the_cause_when_no_slot_can_start_a_worker() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["end-at-once".into()];
            options.n_workers = 3;
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        // One call wakes one slot. The others are tried before the call fails.
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::WorkerLost));
        let message = &answers[0].outcome.as_ref().unwrap_err().message;
        assert!(message.contains("no worker process can be started: "), "{message}");
        assert!(message.contains("exit status: 1"), "{message}");
    });
}
