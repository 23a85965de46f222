//! Fairness between queues.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use perpend_domain::evaluation::{
    CompletionReason, ExecutionClass, ExecutionOrigin, Lane, NewExecution, QueueKind, Rule, Target,
    TargetKind,
};
use perpend_domain::identity::ExecutionKey;
use perpend_domain::plugin::{CallResult, EvaluationCall};
use perpend_domain::time::Clock as _;
use perpend_executions::{Lease, MatchBatch, PlannedExecution};
use perpend_scheduler::{Evaluate, Options};
use perpend_storage::MatchOutcome;
use perpend_storage::testing::on_each_database;
use tokio_util::sync::CancellationToken;

use crate::support::{FakeEvaluate, World, generation};

/// Never answers for one rule, and at once for the others. All calls of a batch are of one rule.
#[derive(Debug)]
struct StuckFor {
    mark: &'static str,
    answers: Arc<FakeEvaluate>,
}

impl Evaluate for StuckFor {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        let is_stuck = calls.iter().any(|call| call.item.id.contains(self.mark));
        match is_stuck {
            true => stream::pending().boxed(),
            false => crate::support::together(self.answers.results(calls)),
        }
    }
}

/// Executions of a rule as a backfill would make them.
async fn backlog(world: &World, rule: &Rule, n: u64) {
    let evaluator = rule.assignments[0].evaluator_id.clone();
    let making = |n: u64| {
        let own = generation(n, n);
        let target = Target::Observation(own.trace_id, own.id);
        let key = ExecutionKey::live(&world.project, rule.id.as_str(), &evaluator, &target, 7);
        PlannedExecution {
            project: world.project.clone(),
            kind: QueueKind { lane: Lane::Code, class: ExecutionClass::Backfill },
            is_leased: false,
            firing_at: None,
            execution: NewExecution {
                id: key.execution_id(),
                origin: ExecutionOrigin::Rule,
                rule_id: rule.id.clone(),
                assignment_id: rule.assignments[0].id.clone(),
                evaluator_id: evaluator.clone(),
                target,
                shadow: None,
                generation: 7,
                inclusion_probability: 1.0,
                completion: CompletionReason::Ended,
                n_observations: 1,
                is_audit: false,
            },
        }
    };
    let batch = MatchBatch { executions: (0..n).map(making).collect(), ..MatchBatch::default() };
    let now = world.clock.now();
    let lease = Lease { fence: 0, until: now };
    let made = world.store.commit_matches(&[], &batch, lease, now).await;
    assert!(matches!(made.unwrap(), MatchOutcome::Made(_)));
}

#[tokio::test]
async fn a_backlog_of_unanswered_calls_leaves_places_for_live_targets() {
    const N_BACKLOG: u64 = 100;
    on_each_database(|store| async move {
        let world = World::new(store).await;
        // Their items are named after their traces, of which the backlog has the low numbers.
        world.ingest((0..N_BACKLOG).map(|n| generation(n, n)).collect()).await;
        world.scheduler(FakeEvaluate::length()).run_until_idle().await.unwrap();
        let rule = world.rule("r", TargetKind::Observation, |_| {}).await;
        backlog(&world, &rule, N_BACKLOG).await;
        let evaluate =
            Arc::new(StuckFor { mark: "00000000000000", answers: FakeEvaluate::length() });
        let options = Options { n_places: 30, ..Options::default() };
        let scheduler = world.scheduler_with(evaluate, None, options);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn({
            let (scheduler, shutdown) = (scheduler.clone(), shutdown.clone());
            async move { scheduler.run(shutdown).await }
        });
        for round in 1..=20 {
            let n = round << 32;
            world.ingest(vec![generation(n, n)]).await;
            scheduler.wake();
            while world.scores().await.len() < round as usize {
                tokio::task::yield_now().await;
            }
        }
        running.abort();
        drop(shutdown);
    })
    .await;
}
