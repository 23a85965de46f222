//! Executions that wait while their rule is paused.

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
async fn what_is_held_while_its_rule_is_let_go_on_does_not_stay_held() {
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
        world
            .ingest((0..4).map(|n| generation(n, n)).collect())
            .await;
        let stop = StopOnce::at(Breakpoint::Made);
        let killed = world.scheduler_with(FakeEvaluate::length(), Some(stop), Options::default());
        killed.run_until_idle().await.unwrap_err();
        world.clock.advance(LEASE_MS);
        world
            .store
            .catalog
            .pause_rule(&world.project, &paused, &pause, None)
            .await
            .unwrap();

        // The pause is taken back after it was read, and before anything is held for it.
        let stay = StayAt::at(Breakpoint::Sorted);
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler_with(evaluate, Some(stay.clone()), Options::default());
        let working = tokio::spawn({
            let scheduler = scheduler.clone();
            async move { scheduler.run_until_idle().await }
        });
        stay.arrived().await;
        let now = world.clock.now();
        world
            .store
            .catalog
            .patch_rule(&world.project, &paused, &enabled(), now)
            .await
            .unwrap();
        // The other half of one scheduler: it sees the new catalog before anything is held.
        scheduler.run_until_idle().await.unwrap();
        stay.let_go();
        working.await.unwrap().unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 8);
    })
    .await;
}
