//! Executions that wait while their rule is paused.

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use perpend_catalog::RulePatch;
use perpend_domain::evaluation::Execution;
use perpend_domain::plugin::{CallResult, EvaluationCall, Failure};
use perpend_domain::slots::ModelFailure;
use perpend_scheduler::Evaluate;
use tokio::sync::Semaphore;

use super::*;

#[tokio::test]
async fn a_target_touched_while_its_watch_is_due_is_called_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world
            .rule("settles", OBSERVATION, |rule| {
                rule.timing.settle_ms = Some(1_000);
            })
            .await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        let first = generation(1, 1);
        world.ingest(vec![first.clone()]).await;
        scheduler.run_until_idle().await.unwrap();
        let mut second = first;
        second.attribute_count = 2;
        world.ingest(vec![second]).await;
        world.clock.advance(5_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((world.scores().await.len(), evaluate.n_calls()), (1, 1));
        assert_eq!(world.counts(&rule).await["made"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn executions_held_while_their_rule_resumes_are_resumed_too() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let first = world.rule("runs", OBSERVATION, |_| {}).await;
        world
            .rule("paused", OBSERVATION, |rule| {
                rule.assignments[0].evaluator_id = first.assignments[0].evaluator_id.clone();
            })
            .await;
        let paused = "paused".parse().unwrap();
        let pause = Pause {
            reason: "PLUGIN_FAILING".to_owned(),
            message: "by the test".to_owned(),
            at: world.clock.now(),
            until: None,
        };
        world.ingest((0..4).map(|n| generation(n, n)).collect()).await;
        let stop = StopOnce::at(Breakpoint::Made);
        let killed = world.scheduler_with(FakeEvaluate::length(), Some(stop), Options::default());
        killed.run_until_idle().await.unwrap_err();
        world.clock.advance(LEASE_MS);
        world.store.catalog.pause_rule(&world.project, &paused, &pause, None).await.unwrap();

        // The pause is removed after it was read, and before any execution is held for it.
        let stay = StayAt::at(Breakpoint::Sorted);
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler_with(evaluate, Some(stay.clone()), Options::default());
        let working = tokio::spawn({
            let scheduler = scheduler.clone();
            async move { scheduler.run_until_idle().await }
        });
        stay.arrived().await;
        let now = world.clock.now();
        world.store.catalog.patch_rule(&world.project, &paused, &enabled(), &now).await.unwrap();
        // Another part of the same scheduler: it sees the new catalog before any execution is held.
        scheduler.run_until_idle().await.unwrap();
        stay.let_go();
        working.await.unwrap().unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 8);
    })
    .await;
}

/// Calls that wait for a place forever, unless they are withdrawn.
#[derive(Debug)]
struct Queued {
    called: Semaphore,
}

impl Evaluate for Queued {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        self.called.add_permits(calls.len());
        let cancelled = async |(place, call): (usize, EvaluationCall)| {
            call.origin.unwrap().withdrawal.withdrawn().await;
            let failure =
                Failure { class: FailureClass::Cancelled, message: "withdrawn".to_owned() };
            let result = CallResult { outcome: Err(failure), ..CallResult::empty() };
            (place, result)
        };
        stream::iter(calls.into_iter().enumerate()).then(cancelled).boxed()
    }
}

/// Lets one call of a rule wait, makes the change, and returns the execution when it waits no longer.
async fn after_change(world: &World, change: impl AsyncFnOnce(&World, &Rule)) -> Execution {
    let rule = world.rule("r", OBSERVATION, |_| {}).await;
    let queued = Arc::new(Queued { called: Semaphore::new(0) });
    let scheduler = world.scheduler(queued.clone());
    let running = tokio::spawn({
        let scheduler = scheduler.clone();
        async move { scheduler.run(CancellationToken::new()).await }
    });
    world.ingest(vec![generation(1, 1)]).await;
    scheduler.wake();
    drop(queued.called.acquire().await.unwrap());
    change(world, &rule).await;
    scheduler.wake();
    let execution = loop {
        let ledger = &world.store.ledger;
        let all = ledger.trace_executions(&world.project, &trace_id(1)).await;
        let [execution] = all.unwrap().try_into().unwrap();
        let is_waiting = [ExecutionState::Pending, ExecutionState::Running];
        if !is_waiting.contains(&execution.state) {
            break execution;
        }
        tokio::task::yield_now().await;
    };
    running.abort();
    execution
}

#[tokio::test]
async fn a_call_that_has_not_begun_is_held_when_its_rule_is_disabled() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let disable = async |world: &World, rule: &Rule| {
            let (catalog, now) = (&world.store.catalog, world.clock.now());
            let patch = RulePatch { enabled: Some(false), ..RulePatch::default() };
            let patched = catalog.patch_rule(&world.project, &rule.id, &patch, &now);
            patched.await.unwrap();
        };
        let execution = after_change(&world, disable).await;
        assert_eq!(execution.state, ExecutionState::Held);
        assert_eq!(execution.attempts, 0);
        assert!(execution.error_message.is_some_and(|why| !why.is_empty()));
    })
    .await;
}

#[tokio::test]
async fn a_call_that_has_not_begun_is_cancelled_when_its_rule_or_evaluator_is_deleted() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let delete = async |world: &World, rule: &Rule| {
            let catalog = &world.store.catalog;
            catalog.delete_rule(&world.project, &rule.id).await.unwrap();
        };
        let execution = after_change(&world, delete).await;
        assert_eq!(execution.state, ExecutionState::Cancelled);
    })
    .await;
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let delete = async |world: &World, rule: &Rule| {
            let (catalog, now) = (&world.store.catalog, world.clock.now());
            let evaluator = &rule.assignments[0].evaluator_id;
            let deleted = catalog.delete_evaluator(&world.project, evaluator, now);
            deleted.await.unwrap();
        };
        let execution = after_change(&world, delete).await;
        assert_eq!(execution.state, ExecutionState::Cancelled);
    })
    .await;
}

#[tokio::test]
async fn an_execution_that_waits_for_its_next_attempt_is_held_when_its_rule_is_disabled() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let evaluate = FakeEvaluate::new(|call, _| {
            let class = FailureClass::RateLimited;
            call.origin.as_ref().unwrap().notes.failed(ModelFailure {
                retry_after_ms: Some(60_000),
                ..ModelFailure::new(class, "try again in a minute")
            });
            Err(class)
        });
        let scheduler = world.scheduler(evaluate);
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        let state = async || {
            let ledger = &world.store.ledger;
            let all = ledger.trace_executions(&world.project, &trace_id(1)).await;
            all.unwrap()[0].state
        };
        assert_eq!(state().await, ExecutionState::Delayed);
        let patch = RulePatch { enabled: Some(false), ..RulePatch::default() };
        let (catalog, now) = (&world.store.catalog, world.clock.now());
        let patched = catalog.patch_rule(&world.project, &rule.id, &patch, &now);
        patched.await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(state().await, ExecutionState::Held);
    })
    .await;
}

#[tokio::test]
async fn a_score_that_is_given_in_spite_of_a_withdrawn_call_is_discarded() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", OBSERVATION, |_| {}).await;
        let evaluate = FakeEvaluate::new(|call, n_before| {
            if 0 < n_before {
                return Ok(1.0);
            }
            let withdrawn = ModelFailure::new(FailureClass::Cancelled, "withdrawn");
            call.origin.as_ref().unwrap().notes.failed(withdrawn);
            Ok(0.0)
        });
        let scheduler = world.scheduler(evaluate.clone());
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.n_calls(), 2);
        let [score] = world.scores().await.try_into().unwrap();
        assert_eq!(score.written.value, ScoreValue::Numeric(1.0));
    })
    .await;
}
