//! Scores that point at an observation of the evaluated trace, or else fail their call.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use perpend_domain::batch::Batch;
use perpend_domain::evaluation::{ExecutionState, TargetKind};
use perpend_domain::ids::ProjectId;
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, EvaluationCall, FailureClass};
use perpend_domain::score::Subject;
use perpend_domain::time::Clock as _;
use perpend_scheduler::Evaluate;
use perpend_storage::testing::on_each_database;

use crate::support::{FakeEvaluate, World, child_of, generation, together, trace_id};

/// Points each score at the observation in the output of its item.
#[derive(Debug)]
struct PointsAtOutput(Arc<FakeEvaluate>);

impl Evaluate for PointsAtOutput {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        together(async move {
            let output = |call: &EvaluationCall| {
                call.item.output.as_ref().map(|text| text.as_str().to_owned())
            };
            let outputs: Vec<_> = calls.iter().map(output).collect();
            let mut results = self.0.results(calls).await;
            for (result, output) in results.iter_mut().zip(outputs) {
                for score in result.outcome.as_mut().ok().into_iter().flatten() {
                    score.observation_id = output.clone();
                }
            }
            results
        })
    }
}

fn saying(mut observation: Observation, output: &str) -> Observation {
    observation.content.output = Some(Payload::Text(output.to_owned()));
    observation
}

fn id(n: u64) -> String {
    format!("{n:016x}")
}

/// Observations of this project and of another, with the targets of the pointers.
async fn ingest(world: &World, pointers: &BTreeMap<u64, String>) {
    let root = generation(1, 1);
    let says = |n: &u64| match n {
        1 => saying(root.clone(), &pointers[n]),
        n => saying(child_of(&root, *n, ObservationKind::Tool), &pointers[n]),
    };
    let own = pointers.keys().map(says).collect();
    // Of another trace, and of the same trace in another project.
    let elsewhere = saying(generation(2, 20), &id(20));
    let foreign = Batch {
        observations: vec![child_of(&root, 30, ObservationKind::Tool)],
        ..Batch::default()
    };
    let other = ProjectId::new("p2").unwrap();
    let written = world.store.telemetry.write_batch(&other, foreign, world.clock.now());
    written.await.unwrap();
    world.ingest(vec![elsewhere]).await;
    world.ingest(own).await;
}

#[tokio::test]
async fn a_score_points_into_the_trace_of_its_observation_or_its_call_fails_alone() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Observation, |_| {}).await;
        let scheduler = world.scheduler(Arc::new(PointsAtOutput(FakeEvaluate::length())));
        let no_ids = ["\n", "no such observation"].map(str::to_owned);
        let pointers = [id(2), id(2), id(1), id(20), id(30), trace_id(1).to_string()];
        let pointers: BTreeMap<u64, String> =
            (1..).zip(pointers.into_iter().chain(no_ids)).collect();
        ingest(&world, &pointers).await;
        scheduler.run_until_idle().await.unwrap();

        let trace = trace_id(1);
        let executions = world.store.ledger.trace_executions(&world.project, &trace);
        let executions = executions.await.unwrap();
        assert_eq!(executions.len(), pointers.len());
        for execution in executions {
            let target = execution.made.target.observation().unwrap();
            let n = u64::from_str_radix(target.as_str(), 16).unwrap();
            if n <= 3 {
                assert_eq!(execution.state, ExecutionState::Completed, "{n}");
                continue;
            }
            assert_eq!(execution.state, ExecutionState::Failed, "{n}");
            assert_eq!(execution.error_class, Some(FailureClass::InvalidResult.into()));
            assert_eq!(execution.attempts, 1, "it is not tried again");
            let message = execution.error_message.unwrap();
            assert!(message.contains("score \"length\""), "{message}");
            assert!(message.contains("leave it out"), "{message}");
        }
        let scores = world.scores().await;
        let mut subjects: Vec<_> = scores.iter().map(|score| &score.written.subject).collect();
        subjects.sort_by_key(|subject| format!("{subject:?}"));
        let at = |trace, n| Subject::Observation(trace_id(trace), id(n).parse().unwrap());
        assert_eq!(subjects, [&at(1, 1), &at(1, 2), &at(1, 2), &at(2, 20)]);
    })
    .await;
}

#[tokio::test]
async fn a_score_of_a_trace_points_into_that_trace_or_its_call_fails() {
    for (pointer, is_own) in [(id(2), true), (id(20), false), (id(30), false), ("\n".into(), false)]
    {
        let pointer = &pointer;
        on_each_database(|store| async move {
            let world = World::new(store).await;
            world.rule("r", TargetKind::Trace, |_| {}).await;
            let scheduler = world.scheduler(Arc::new(PointsAtOutput(FakeEvaluate::length())));
            let pointers = BTreeMap::from([(1, pointer.clone()), (2, id(2))]);
            ingest(&world, &pointers).await;
            world.clock.advance(10_000);
            scheduler.run_until_idle().await.unwrap();
            let trace = trace_id(1);
            let executions = world.store.ledger.trace_executions(&world.project, &trace);
            let execution = executions.await.unwrap().remove(0);
            let class = (!is_own).then_some(FailureClass::InvalidResult.into());
            assert_eq!(execution.error_class, class, "{pointer:?}");
            let n_own = world.scores().await.iter().filter(|score| {
                matches!(&score.written.subject, Subject::Observation(trace, _) if *trace == trace_id(1))
            }).count();
            assert_eq!(n_own, usize::from(is_own), "{pointer:?}");
        })
        .await;
    }
}
