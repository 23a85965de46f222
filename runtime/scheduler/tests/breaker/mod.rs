//! Rules that keep failing are paused and probed automatically.

use perpend_domain::payload::Payload;
use perpend_scheduler::Scheduler;
use perpend_storage::Store;

use super::*;

const MINUTE_MS: i64 = 60_000;

async fn paused(world: &World, rule: &Rule) -> Option<Pause> {
    let catalog = &world.store.catalog;
    let rule = catalog.rule(&world.project, &rule.id).await;
    rule.unwrap().unwrap().paused
}

/// A rule that is paused after 20 of 50 executions have failed, with its evaluator.
async fn broken(store: Store) -> (World, Rule, Arc<FakeEvaluate>, Scheduler) {
    let world = World::new(store).await;
    let rule = world.rule("r", OBSERVATION, |_| {}).await;
    let options = Options { batch: 10, n_places: 30, ..Options::default() };
    let failing = FakeEvaluate::new(|_, _| Err(FailureClass::PluginTrap));
    let scheduler = world.scheduler_with(failing.clone(), None, options);
    let targets = (0..50).map(|n| generation(n, n)).collect();
    world.ingest(targets).await;
    scheduler.run_until_idle().await.unwrap();
    assert_eq!(failing.n_calls(), 20);
    let paused = paused(&world, &rule).await.unwrap();
    assert_eq!(paused.reason, Pause::PLUGIN_FAILING);
    (world, rule, failing, scheduler)
}

#[tokio::test]
async fn twenty_consecutive_failures_pause_the_rule_and_hold_queued_executions() {
    on_each_database(|store| async move {
        let (world, rule, ..) = broken(store).await;
        let now = world.clock.now();
        let catalog = &world.store.catalog;
        let patch = enabled();
        let patched = catalog.patch_rule(&world.project, &rule.id, &patch, &now);
        patched.await.unwrap();
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 30);
    })
    .await;
}

#[tokio::test]
async fn failures_that_depend_on_the_target_pause_the_rule_too_when_there_is_nothing_else() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let failing = FakeEvaluate::new(|_, _| Err(FailureClass::InvalidInput));
        let options = Options { batch: 10, n_places: 30, ..Options::default() };
        let scheduler = world.scheduler_with(failing.clone(), None, options);
        let targets = (0..50).map(|n| generation(n, n)).collect();
        world.ingest(targets).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(failing.n_calls(), 20);
        let paused = paused(&world, &rule).await.unwrap();
        assert!(paused.message.contains("invalid_input"), "{}", paused.message);
    })
    .await;
}

#[tokio::test]
async fn a_rule_with_an_open_breaker_resumes_when_its_probe_succeeds() {
    on_each_database(|store| async move {
        let (world, rule, failing, scheduler) = broken(store).await;
        // Probes after 15 minutes, then after 30 and 60.
        for (minutes, n_calls) in [(14, 20), (1, 21), (29, 21), (1, 22), (59, 22), (1, 23)] {
            world.clock.advance(minutes * MINUTE_MS);
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(failing.n_calls(), n_calls);
        }
        assert!(paused(&world, &rule).await.is_some());

        let mended = FakeEvaluate::length();
        let scheduler = world.scheduler(mended.clone());
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(mended.n_calls(), 0);
        world.clock.advance(120 * MINUTE_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(paused(&world, &rule).await, None);
        assert_eq!(world.scores().await.len(), 27);
    })
    .await;
}

#[tokio::test]
async fn with_nothing_held_the_next_target_is_the_one_that_is_tried() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let failing = FakeEvaluate::new(|_, _| Err(FailureClass::PluginTrap));
        let scheduler = world.scheduler(failing.clone());
        world.ingest((0..20).map(|n| generation(n, n)).collect()).await;
        scheduler.run_until_idle().await.unwrap();
        assert!(paused(&world, &rule).await.is_some());
        world.ingest(vec![generation(20, 20)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.counts(&rule).await["rule_paused"], 1);

        world.clock.advance(15 * MINUTE_MS);
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![generation(21, 21)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(paused(&world, &rule).await, None);
        assert_eq!(world.scores().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_fails_more_often_than_not_is_paused_though_it_never_fails_twenty_times_in_a_row()
 {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        // The output determines the result: of three the third succeeds.
        let failing = FakeEvaluate::new(|call, _| {
            let output = call.item.output.as_ref().unwrap().to_value();
            match output.as_str().unwrap().ends_with('2') {
                true => Ok(1.0),
                false => Err(FailureClass::PluginTrap),
            }
        });
        let options = Options { batch: 1, n_places: 1, ..Options::default() };
        let scheduler = world.scheduler_with(failing.clone(), None, options);
        for n in 0..120 {
            let mut target = generation(n, n);
            target.content.output = Some(Payload::Text(format!("ends with {}", n % 3)));
            world.ingest(vec![target]).await;
            scheduler.run_until_idle().await.unwrap();
        }
        assert_eq!(failing.n_calls(), 100);
        let paused = paused(&world, &rule).await.unwrap();
        assert_eq!(paused.reason, Pause::PLUGIN_FAILING);
        assert!(paused.message.starts_with("67 of the last 100"), "{}", paused.message);
    })
    .await;
}
