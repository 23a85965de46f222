//! Large targets are evaluated within the memory budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use perpend_domain::evaluation::TargetKind;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, EvaluationCall};
use perpend_scheduler::{Evaluate, Options};
use perpend_storage::testing::on_each_database;

use crate::support::{FakeEvaluate, World, generation, together};

const MIB: usize = 1 << 20;

/// Counts the bytes of the items of all calls that have no answer yet.
#[derive(Debug)]
struct Counting {
    n_bytes: AtomicUsize,
    most: AtomicUsize,
    answers: Arc<FakeEvaluate>,
}

impl Evaluate for Counting {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        let n_bytes: usize = calls.iter().map(|call| call.item.n_bytes()).sum();
        let now = self.n_bytes.fetch_add(n_bytes, Ordering::SeqCst) + n_bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        let results = async move {
            // Whatever else can run does so first.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let results = self.answers.results(calls).await;
            self.n_bytes.fetch_sub(n_bytes, Ordering::SeqCst);
            results
        };
        together(results).boxed()
    }
}

#[tokio::test]
async fn large_targets_wait_for_memory_and_all_are_scored() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        for rule in ["r1", "r2", "r3"] {
            world.rule(rule, TargetKind::Observation, |_| {}).await;
        }
        let large = |n| {
            let mut own = generation(n, n);
            own.content.output = Some(Payload::Text("x".repeat(300_000)));
            own
        };
        world.ingest((1..=12).map(large).collect()).await;
        world.ingest((20..=30).map(|n| generation(n, n)).collect()).await;
        let evaluate = Arc::new(Counting {
            n_bytes: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            answers: FakeEvaluate::length(),
        });
        let options = Options { max_memory_bytes: 2 * MIB, ..Options::default() };
        let scheduler = world.scheduler_with(evaluate.clone(), None, options);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.answers.n_calls(), 3 * (12 + 11));
        let most = evaluate.most.load(Ordering::SeqCst);
        assert!(most <= MIB, "{most} bytes of items at a time");
    })
    .await;
}
