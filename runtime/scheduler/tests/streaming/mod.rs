//! Results are written as they arrive.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::plugin::{CallResult, EvaluationCall};
use perpend_scheduler::Evaluate;
use perpend_storage::testing::on_each_database;
use tokio::sync::Semaphore;

use crate::support::{FakeEvaluate, World, generation, together};

/// Answers the first call of a batch when it is opened, and the others at once.
#[derive(Debug)]
struct SlowFirst {
    opened: Semaphore,
    answers: Arc<FakeEvaluate>,
}

impl Evaluate for SlowFirst {
    fn evaluate(&self, mut calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        let others = calls.split_off(1);
        let others = together(self.answers.results(others));
        let others = others.map(|(place, result)| (place + 1, result));
        let first = together(async {
            drop(self.opened.acquire().await.unwrap());
            self.answers.results(calls).await
        });
        stream::select(first, others).boxed()
    }
}

#[tokio::test]
async fn a_finished_result_is_seen_though_its_batch_has_a_slow_neighbour() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Observation, |_| {}).await;
        world.ingest((1..=8).map(|n| generation(n, n)).collect()).await;
        let evaluate =
            Arc::new(SlowFirst { opened: Semaphore::new(0), answers: FakeEvaluate::length() });
        let scheduler = world.scheduler(evaluate.clone());
        let watching = async {
            while world.scores().await.len() < 7 {
                tokio::task::yield_now().await;
            }
            evaluate.opened.add_permits(1);
        };
        let (ran, ()) = tokio::join!(scheduler.run_until_idle(), watching);
        ran.unwrap();
        assert_eq!(world.scores().await.len(), 8);
        assert_eq!(evaluate.answers.n_calls(), 8);
    })
    .await;
}
