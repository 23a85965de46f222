//! Workers that keep what they should give back: a thread after a cancellation, their process after they
//! were told to end, the memory of the server by not reading; and lanes that get no worker at all.

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
use crate::{Bench, PATIENCE, block_on, call, class, start, until};

/// Cancels a call when its worker has it and hangs in it. `false`: the thread took the reading end of the socket
/// with it, so that nobody could tell.
async fn hangs_and_is_cancelled(bench: &Bench) -> bool {
    let good = Guest::default();
    let warm = bench.workers.evaluate(vec![call(&good)]).await;
    assert!(warm[0].outcome.is_ok(), "{warm:?}");
    let first = bench.workers.pids()[0];
    let is_gone = || !bench.workers.pids().contains(&first);
    let mut hangs = call(&good);
    Arc::make_mut(&mut hangs.item).id = "hang-1".into();
    // When a later call has its answer, the worker has that one.
    tokio::select! {
        biased;
        answers = bench.workers.evaluate(vec![hangs]) => unreachable!("{answers:?}"),
        later = bench.workers.evaluate(vec![call(&good)]) => {
            assert!(later[0].outcome.is_ok(), "{later:?}");
        }
        () = until(is_gone) => return false,
    }
    if is_gone() {
        return false;
    }
    // Nobody waits for it any more. Its worker, which is a thread short, is replaced all the same.
    until(is_gone).await;
    let later = bench.workers.evaluate(vec![call(&good)]).await;
    assert!(later[0].outcome.is_ok(), "{later:?}");
    true
}

pub(crate) fn a_cancelled_call_that_keeps_its_thread_is_noticed() {
    block_on(async {
        let mut was_cancelled = false;
        while !was_cancelled {
            let change = |options: &mut Options| {
                options.hang_grace = Duration::from_secs(2);
                options.silence_limit = Duration::from_secs(10);
            };
            let bench = start(&[&Guest::default()], change, Arc::new(NoHostCalls));
            was_cancelled = hangs_and_is_cancelled(&bench).await;
            bench.workers.shutdown().await;
        }
    });
}

pub(crate) fn a_worker_that_does_not_end_when_it_is_told_to_is_ended() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["never-ends".into()];
            options.hang_grace = Duration::from_millis(500);
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert!(answers[0].outcome.is_ok(), "{answers:?}");
        bench.workers.shutdown().await;
        assert!(bench.workers.pids().is_empty());
    });
}

/// Counts questions, and answers each with 1 MiB.
struct Long(AtomicUsize);

impl HostCalls for Long {
    fn host_call(&self, _: Caller, request: HostRequest) -> BoxFuture<'_, HostReply> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let long = "x".repeat(1 << 20);
        Box::pin(std::future::ready(match request {
            HostRequest::Complete(_) => {
                HostReply::Complete(vec![Err(ModelError::Unavailable(long))])
            }
            _ => HostReply::Read(Ok(Some(Payload::Text(long)))),
        }))
    }
}

/// What is said of a worker that runs this program, and how many of its questions were answered.
fn reads_nothing(program: &'static str, silence_limit: Duration) -> (String, usize) {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec![program.into()];
            options.silence_limit = silence_limit;
        };
        let asked = Arc::new(Long(AtomicUsize::new(0)));
        let bench = start(&[&good], change, Arc::clone(&asked) as Arc<dyn HostCalls>);
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::PluginTrap));
        let message = answers[0].outcome.as_ref().unwrap_err().message.clone();
        (message, asked.0.load(Ordering::SeqCst))
    })
}

pub(crate) fn a_worker_that_reads_no_traces_it_asked_for_is_ended_and_few_are_read() {
    let program = "asks-traces-and-reads-nothing";
    let (message, n_answered) = reads_nothing(program, Duration::from_secs(3));
    assert!(message.contains("it read nothing for 3000 ms"), "{message}");
    // Two workers: what the socket takes, a frame that is being written, and four that wait for it.
    assert!(n_answered < 40, "{n_answered}");
}

pub(crate) fn a_worker_that_leaves_its_answers_unread_is_ended_before_they_fill_the_server() {
    let program = "asks-models-and-reads-nothing";
    let (message, n_answered) = reads_nothing(program, PATIENCE);
    assert!(message.contains("it left 256 MiB"), "{message}");
    // Two workers; some are made while it is being ended.
    assert!(n_answered < 4 * 256, "{n_answered}");
}

pub(crate) fn calls_wait_for_the_lane_that_works_when_another_gets_no_worker() {
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

pub(crate) fn calls_fail_with_the_cause_when_no_lane_gets_a_worker() {
    let good = Guest::default();
    block_on(async {
        let change = |options: &mut Options| {
            options.args = vec!["end-at-once".into()];
            options.n_workers = 3;
        };
        let bench = start(&[&good], change, Arc::new(NoHostCalls));
        // One call, which wakes one lane: the others are tried before it is given up.
        let answers = bench.workers.evaluate(vec![call(&good)]).await;
        assert_eq!(class(&answers[0]), Some(FailureClass::WorkerLost));
        let message = &answers[0].outcome.as_ref().unwrap_err().message;
        assert!(message.contains("no worker process can be started: "), "{message}");
        assert!(message.contains("exit status: 1"), "{message}");
    });
}
