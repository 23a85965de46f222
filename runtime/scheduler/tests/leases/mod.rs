//! Batches that start after their lease has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use perpend_domain::evaluation::{ExecutionState, TargetKind};
use perpend_scheduler::{Breakpoint, Breakpoints, Options};
use perpend_storage::testing::on_each_database;

use crate::support::{FakeEvaluate, Gate, TestClock, World, generation, trace_id};

/// Lets the lease of the inserted executions expire, once.
#[derive(Debug)]
struct Late {
    clock: Arc<TestClock>,
    is_done: AtomicBool,
}

impl Breakpoints for Late {
    fn stops_at(&self, at: Breakpoint) -> bool {
        if at == Breakpoint::Made && !self.is_done.swap(true, Ordering::SeqCst) {
            self.clock.advance(Options::default().lease_ms + 1_000);
        }
        false
    }
}

#[tokio::test]
async fn a_batch_that_starts_after_its_lease_makes_no_call_and_uses_no_attempt() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Observation, |_| {}).await;
        world.ingest(vec![generation(1, 1)]).await;
        let late =
            Arc::new(Late { clock: Arc::clone(&world.clock), is_done: AtomicBool::new(false) });
        let (gate, other) = (Gate::new(), FakeEvaluate::length());
        let first = world.scheduler_with(gate.clone(), Some(late.clone()), Options::default());
        let second = world.scheduler(other.clone());
        // While the first caller waits for the result, another process claims executions without a lease.
        let meanwhile = async {
            gate.called().await;
            second.run_until_idle().await.unwrap();
            gate.open();
        };
        let (ran, ()) = tokio::join!(first.run_until_idle(), meanwhile);
        ran.unwrap();
        assert!(late.is_done.load(Ordering::SeqCst), "the lease has passed");
        assert_eq!(gate.n_calls() + other.n_calls(), 1, "called once");
        assert_eq!(world.scores().await.len(), 1);
        let ledger = &world.store.ledger;
        let executions = ledger.trace_executions(&world.project, &trace_id(1)).await;
        let [execution] = executions.unwrap().try_into().unwrap();
        assert_eq!(execution.state, ExecutionState::Completed);
        assert_eq!(execution.attempts, 1);
    })
    .await;
}
