//! Rules with a cron schedule.

use perpend_catalog::RulePatch;
use perpend_domain::backfill::BackfillMode;
use perpend_domain::cron::Schedule;
use perpend_domain::evaluation::{ExecutionState, Rule, Target, TargetKind};
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_executions::RuleFiring;
use perpend_scheduler::{Breakpoint, Error, ExplanationStep, Options, Scheduler};
use perpend_storage::testing::{TempDatabase, on_each_database};

use crate::support::{FakeEvaluate, StopInside, StopOnce, World, generation};

const HOUR_MS: i64 = 3_600_000;
const LEASE_MS: i64 = 61_000;
/// Each hour. The clock starts at 2026-02-25T06:13:20Z.
const HOURLY: (&str, &str) = ("0 * * * *", "UTC");
const NIGHTLY: (&str, &str) = ("30 2 * * *", "Europe/Berlin");

fn schedule((cron, timezone): (&str, &str)) -> Schedule {
    Schedule::parse(cron, timezone).unwrap()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

impl World {
    async fn scheduled(&self, schedule_of: (&str, &str)) -> Rule {
        let schedule = Some(schedule(schedule_of));
        self.rule("r", TargetKind::Observation, |rule| rule.schedule = schedule).await
    }

    fn advance_to(&self, text: &str) {
        let ms = (time(text).as_micros() - self.clock.now().as_micros()) / 1_000;
        self.clock.advance(ms);
    }

    /// An observation arrives and is matched.
    async fn arrive(&self, scheduler: &Scheduler, n: u64) {
        self.ingest(vec![generation(n, n)]).await;
        scheduler.run_until_idle().await.unwrap();
    }

    async fn firings(&self, rule: &Rule) -> Vec<RuleFiring> {
        self.store.ledger.firings(&self.project, &rule.id, 100).await.unwrap()
    }

    /// The executions of a firing by state.
    async fn states(&self, rule: &Rule, firing: RuleFiring) -> Vec<(ExecutionState, u64)> {
        let states = self.store.ledger.firing_states(&self.project, &rule.id, &[firing]).await;
        states.unwrap()[0].iter().map(|count| (count.state, count.n)).collect()
    }

    async fn n_scores(&self) -> usize {
        self.scores().await.len()
    }

    async fn patch(&self, rule: &Rule, patch: RulePatch) -> Rule {
        let catalog = &self.store.catalog;
        catalog.patch_rule(&self.project, &rule.id, &patch, &*self.clock).await.unwrap()
    }

    async fn patch_schedule(&self, rule: &Rule, schedule: Option<Schedule>) -> Rule {
        self.patch(rule, RulePatch { schedule: Some(schedule), ..RulePatch::default() }).await
    }

    async fn patch_enabled(&self, rule: &Rule, enabled: bool) -> Rule {
        self.patch(rule, RulePatch { enabled: Some(enabled), ..RulePatch::default() }).await
    }

    /// The states of the executions over the observation of [`World::arrive`].
    async fn states_of(&self, n: u64) -> Vec<ExecutionState> {
        let own = generation(n, n);
        let target = Target::Observation(own.trace_id, own.id);
        let executions = self.store.ledger.executions_over(&self.project, &target).await;
        executions.unwrap().iter().map(|each| each.state).collect()
    }
}

#[tokio::test]
async fn targets_are_evaluated_at_the_firing_after_their_arrival() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let started_at = world.clock.now();
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        world.arrive(&scheduler, 1).await;
        world.arrive(&scheduler, 2).await;
        assert_eq!((evaluate.n_calls(), world.counts(&rule).await["made"]), (0, 2));
        let own = generation(1, 1);
        let target = Target::Observation(own.trace_id, own.id);
        let explained = scheduler.explain(&world.project, &rule, &target).await.unwrap();
        let firing_at = time("2026-02-25T07:00:00Z");
        assert_eq!(explained.step, ExplanationStep::WaitingForFiring { firing_at });
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 0);

        world.advance_to("2026-02-25T06:59:59Z");
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.n_calls(), 0);
        world.advance_to("2026-02-25T07:00:00Z");
        // Arrives at the firing: it belongs to the next window.
        world.arrive(&scheduler, 3).await;
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (2, 2));
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 1);
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 0);
        let first = RuleFiring {
            fired_at: firing_at,
            from: started_at,
            noticed_at: firing_at,
            n_missed: 0,
        };
        assert_eq!(world.firings(&rule).await, [first]);
        assert_eq!(world.states(&rule, first).await, [(ExecutionState::Completed, 2)]);

        world.advance_to("2026-02-25T08:00:00Z");
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (3, 3));
    })
    .await;
}

#[tokio::test]
async fn a_time_that_the_clock_skips_or_repeats_fires_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.advance_to("2026-03-27T12:00:00Z");
        let rule = world.scheduled(NIGHTLY).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        let mut n_targets = 0;
        for (from, expected) in [
            // 02:30 does not exist on 29 March: the firing is at 03:00.
            (
                "2026-03-27T12:00:00Z",
                ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
            ),
            // 02:30 occurs twice on 25 October.
            (
                "2026-10-23T12:00:00Z",
                ["2026-10-24T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
            ),
        ] {
            world.advance_to(from);
            scheduler.advance_schedules().await.unwrap();
            // Three days. A second firing within a step would count the first one as missed.
            for _ in 0..12 {
                n_targets += 1;
                world.arrive(&scheduler, n_targets).await;
                world.clock.advance(6 * HOUR_MS);
                scheduler.advance_schedules().await.unwrap();
            }
            let mut firings = world.firings(&rule).await;
            firings.retain(|firing| time(from) < firing.fired_at);
            firings.reverse();
            let fired_at: Vec<Timestamp> = firings.iter().map(|firing| firing.fired_at).collect();
            assert_eq!(fired_at, expected.map(time));
            assert!(firings.iter().all(|firing| firing.n_missed == 0), "{firings:?}");
            let mut pairs = firings.windows(2);
            assert!(pairs.all(|pair| pair[0].fired_at == pair[1].from), "{firings:?}");
        }
        world.clock.advance(24 * HOUR_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(u64::from(evaluate.n_calls()), n_targets);
    })
    .await;
}

#[tokio::test]
async fn firings_while_no_server_runs_are_counted_and_their_targets_evaluated_at_the_next_start() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.advance_schedules().await.unwrap();
        world.arrive(&scheduler, 1).await;
        drop(scheduler);

        world.advance_to("2026-02-25T11:40:00Z");
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.run_until_idle().await.unwrap();
        scheduler.advance_schedules().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (1, 1));
        let firings = world.firings(&rule).await;
        assert_eq!(firings.len(), 1, "{firings:?}");
        let only = firings[0];
        assert_eq!((only.fired_at, only.n_missed), (time("2026-02-25T11:00:00Z"), 4));
        assert_eq!(only.noticed_at, world.clock.now());
        let since = Timestamp::from_micros(0);
        let missed = world.store.ledger.n_missed_firings(&world.project, &rule.id, since);
        assert_eq!(missed.await.unwrap(), 4);
    })
    .await;
}

#[tokio::test]
async fn targets_that_were_complete_before_a_firing_are_evaluated_at_once_if_matched_after_it() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rules = [
            world.scheduled(HOURLY).await,
            world.rule("t", TargetKind::Trace, |rule| rule.schedule = Some(schedule(HOURLY))).await,
        ];
        world.scheduler(FakeEvaluate::length()).advance_schedules().await.unwrap();
        world.ingest(vec![generation(1, 1)]).await;

        // No server runs at the first two firings.
        world.advance_to("2026-02-25T08:20:00Z");
        let evaluate = FakeEvaluate::new(|_, _| Ok(1.0));
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (2, 2));
        world.arrive(&scheduler, 2).await;
        assert_eq!(evaluate.n_calls(), 2, "complete after the firing");
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 2);
        for rule in &rules {
            let firings = world.firings(rule).await;
            let last = firings[0];
            assert_eq!((last.fired_at, last.n_missed), (time("2026-02-25T08:00:00Z"), 1));
            assert_eq!(world.states(rule, last).await, [(ExecutionState::Completed, 1)]);
        }

        world.advance_to("2026-02-25T09:00:00Z");
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (4, 4));
        scheduler.advance_schedules().await.unwrap();
        for rule in &rules {
            let firings = world.firings(rule).await;
            let states = world.store.ledger.firing_states(&world.project, &rule.id, &firings);
            let counts = states.await.unwrap();
            let counts: Vec<Vec<u64>> =
                counts.iter().map(|states| states.iter().map(|count| count.n).collect()).collect();
            assert_eq!(counts, [[1], [1]], "each execution belongs to one firing");
        }
    })
    .await;
}

#[tokio::test]
async fn a_kill_at_any_point_of_a_firing_loses_nothing_and_repeats_nothing() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        world.scheduler(FakeEvaluate::length()).advance_schedules().await.unwrap();
        let places = [
            Breakpoint::Read,
            Breakpoint::Decided,
            Breakpoint::Made,
            Breakpoint::Claimed,
            Breakpoint::Sorted,
            Breakpoint::Evaluated,
            Breakpoint::Finished,
        ];
        for (place, n) in places.into_iter().zip(1_u64..) {
            let stop = StopOnce::at(place);
            let doomed =
                world.scheduler_with(FakeEvaluate::length(), Some(stop), Options::default());
            world.ingest(vec![generation(n, n)]).await;
            // Some points are reached before the firing, the others at it.
            let mut died = doomed.run_until_idle().await;
            if died.is_ok() {
                world.clock.advance(HOUR_MS);
                died = doomed.run_until_idle().await;
            }
            assert!(matches!(died, Err(Error::Stopped(at)) if at == place), "{died:?}");
            world.clock.advance(LEASE_MS);
            let heir = world.scheduler(FakeEvaluate::length());
            heir.run_until_idle().await.unwrap();
            world.clock.advance(HOUR_MS);
            heir.run_until_idle().await.unwrap();
            heir.advance_schedules().await.unwrap();
            assert_eq!(world.n_scores().await as u64, n, "{place:?}");
        }
        let counts = world.counts(&rule).await;
        assert_eq!((counts["made"], counts["completed"]), (7, 7));
    })
    .await;
}

#[tokio::test]
async fn a_firing_whose_transaction_is_interrupted_is_recorded_once() {
    for database in TempDatabase::each_migrated().await {
        let stop = StopInside::default();
        let world = World::new(stop.open(&database).await).await;
        let rule = world.scheduled(HOURLY).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.advance_schedules().await.unwrap();
        world.clock.advance(HOUR_MS);
        stop.arm("firing: moved");
        scheduler.advance_schedules().await.unwrap_err();
        assert!(stop.disarm());
        assert!(world.firings(&rule).await.is_empty());
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 1);
        assert_eq!(world.firings(&rule).await.len(), 1);
        world.store.close().await;
    }
}

#[tokio::test]
async fn two_nodes_fire_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let evaluate = FakeEvaluate::length();
        let nodes = [world.scheduler(evaluate.clone()), world.scheduler(evaluate.clone())];
        nodes[0].advance_schedules().await.unwrap();
        world.ingest((1..=20).map(|n| generation(n, n)).collect()).await;
        nodes[0].run_until_idle().await.unwrap();
        world.clock.advance(HOUR_MS);
        let (first, second) = tokio::join!(nodes[0].run_until_idle(), nodes[1].run_until_idle());
        first.and(second).unwrap();
        let (first, second) =
            tokio::join!(nodes[0].advance_schedules(), nodes[1].advance_schedules());
        assert_eq!(first.unwrap() + second.unwrap(), 1);
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (20, 20));
        assert_eq!(world.firings(&rule).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn waiting_targets_follow_a_changed_schedule() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.advance_schedules().await.unwrap();
        world.arrive(&scheduler, 1).await;
        world.patch_schedule(&rule, Some(schedule(("30 6 * * *", "UTC")))).await;
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 1);
        world.advance_to("2026-02-25T06:30:00Z");
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.n_calls(), 1);
        // Firings of a schedule before it was set are not missed.
        world.patch_schedule(&rule, Some(schedule(("* * * * *", "UTC")))).await;
        scheduler.advance_schedules().await.unwrap();
        world.clock.advance(60_000);
        scheduler.advance_schedules().await.unwrap();
        assert_eq!(world.firings(&rule).await[0].n_missed, 0);

        world.arrive(&scheduler, 2).await;
        assert_eq!(evaluate.n_calls(), 1);
        world.patch_schedule(&rule, None).await;
        assert_eq!(scheduler.advance_schedules().await.unwrap(), 1);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.n_calls(), 2);
        world.arrive(&scheduler, 3).await;
        assert_eq!(evaluate.n_calls(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_target_that_a_user_chooses_does_not_wait_for_the_firing() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        world.arrive(&scheduler, 1).await;
        world.arrive(&scheduler, 2).await;
        let own = generation(1, 1);
        let target = Target::Observation(own.trace_id, own.id);
        let chosen =
            scheduler.evaluate_chosen(&world.project, rule, BackfillMode::Fill, &[target]).await;
        let chosen = chosen.unwrap();
        assert_eq!((chosen.executions.len(), chosen.counts.n_items), (1, 1));
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(evaluate.n_calls(), 1);
        world.clock.advance(HOUR_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (2, 2));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_rule_ends_the_executions_that_wait_for_its_firing() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.advance_schedules().await.unwrap();
        world.arrive(&scheduler, 1).await;
        world.store.catalog.delete_rule(&world.project, &rule.id).await.unwrap();
        scheduler.advance_schedules().await.unwrap();
        assert_eq!(world.states_of(1).await, [ExecutionState::Cancelled]);
        assert!(world.store.ledger.rule_schedules().await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_becomes_continuous_while_it_is_disabled_waits_for_no_firing_when_it_is_enabled()
 {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        scheduler.advance_schedules().await.unwrap();
        world.arrive(&scheduler, 1).await;
        world.patch_enabled(&rule, false).await;
        scheduler.advance_schedules().await.unwrap();
        let disabled = world.patch_schedule(&rule, None).await;
        scheduler.end_waits_for_firings(&world.project, &disabled).await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.states_of(1).await, [ExecutionState::Delayed]);
        let enabled = world.patch_enabled(&rule, true).await;
        scheduler.end_waits_for_firings(&world.project, &enabled).await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!((evaluate.n_calls(), world.n_scores().await), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_is_deleted_while_it_is_disabled_leaves_no_execution_open_and_no_firing() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.scheduled(HOURLY).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.advance_schedules().await.unwrap();
        world.clock.advance(HOUR_MS);
        scheduler.advance_schedules().await.unwrap();
        assert_eq!(world.firings(&rule).await.len(), 1);
        world.arrive(&scheduler, 1).await;
        world.patch_enabled(&rule, false).await;
        scheduler.advance_schedules().await.unwrap();
        world.store.catalog.delete_rule(&world.project, &rule.id).await.unwrap();
        scheduler.end_deleted_rule(&world.project, &rule.id).await.unwrap();
        assert_eq!(world.states_of(1).await, [ExecutionState::Cancelled]);
        assert!(world.firings(&rule).await.is_empty());
    })
    .await;
}
