//! No evaluation of evaluations: each of the two checks after ingest is sufficient alone.

use perpend_domain::evaluation::OWN_ENVIRONMENT;
use perpend_domain::observation::Observation;

use super::*;

/// A trace that the server wrote for an execution.
fn own(n: u64) -> Observation {
    Observation { environment: OWN_ENVIRONMENT.to_owned(), ..generation(n, n) }
}

#[tokio::test]
async fn a_trace_of_the_server_itself_matches_no_rule() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("all", OBSERVATION, |_| {}).await;
        world.ingest(vec![own(1)]).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.run_until_idle().await.unwrap();
        let counts = world.counts(&rule).await;
        assert_eq!(counts.get("internal_environment"), Some(&1), "{counts:?}");
        assert_eq!((counts.get("made"), evaluate.n_calls()), (None, 0));
    })
    .await;
}

#[tokio::test]
async fn a_target_that_turns_out_to_be_the_servers_own_is_not_evaluated() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("all", OBSERVATION, |_| {}).await;
        world.ingest(vec![generation(1, 1)]).await;
        let stop = StopOnce::at(Breakpoint::Made);
        let evaluate = FakeEvaluate::length();
        let killed = world.scheduler_with(evaluate.clone(), Some(stop), Options::default());
        killed.run_until_idle().await.unwrap_err();
        // The execution is made: the check of the matcher is bypassed.
        let richer = Observation { attribute_count: 2, ..own(1) };
        world.ingest(vec![richer]).await;
        world.clock.advance(LEASE_MS);
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.run_until_idle().await.unwrap();
        let all = world.store.ledger.trace_executions(&world.project, &trace_id(1)).await.unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].state, ExecutionState::Cancelled);
        assert_eq!(all[0].error_class.map(|class| class.as_str()), Some("loop_guard"));
        let counts = world.counts(&rule).await;
        assert_eq!((counts["cancelled"], evaluate.n_calls()), (1, 0));
    })
    .await;
}
