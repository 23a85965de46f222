//! Backfills in parallel to other backfills and other nodes.

use perpend_domain::backfill::{BackfillMode, BackfillPlan};
use perpend_domain::evaluation::{Rule, TargetKind};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_storage::testing::on_each_database;

use crate::support::{FakeEvaluate, World, generation};

const N_TARGETS: u64 = 3;

impl World {
    /// Stores observations, which no rule scores live.
    async fn store_targets(&self) {
        self.ingest((1..=N_TARGETS).map(|n| generation(n, n)).collect()).await;
        self.scheduler(FakeEvaluate::length()).run_until_idle().await.unwrap();
        self.clock.advance(1_000);
    }

    async fn start_backfill(&self, id: &str, rule: &Rule) {
        let now = self.clock.now();
        let plan = BackfillPlan {
            rule: rule.id.clone(),
            rule_name: rule.name.clone(),
            target: rule.target,
            mode: BackfillMode::Fill,
            from: Timestamp::from_micros(0),
            to: now.plus_millis(86_400_000),
            filter: WrittenFilter::default(),
            max_items: None,
            max_usd: None,
            n_in_range: None,
            usd_per_execution: None,
        };
        self.store.ledger.create_backfill(&self.project, id, &plan, now).await.unwrap();
    }
}

#[tokio::test]
async fn many_backfills_that_wait_keep_no_other_from_advancing() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.store_targets().await;
        let disabled =
            world.rule("disabled", TargetKind::Observation, |rule| rule.enabled = false).await;
        let rule = world.rule("enabled", TargetKind::Observation, |_| {}).await;
        for n in 0..120 {
            world.start_backfill(&format!("a{n}"), &disabled).await;
        }
        world.start_backfill("b", &rule).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        assert_eq!(scheduler.advance_backfills().await.unwrap().n_items, N_TARGETS);
    })
    .await;
}

#[tokio::test]
async fn a_node_that_has_read_a_paused_backfill_does_not_set_it_aside_when_it_is_resumed() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.store_targets().await;
        let rule = world.rule("r", TargetKind::Observation, |_| {}).await;
        world.start_backfill("b", &rule).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        scheduler.advance_backfills().await.unwrap();
        world.store.ledger.set_backfill_aside(&world.project, "b").await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len() as u64, N_TARGETS);
    })
    .await;
}
