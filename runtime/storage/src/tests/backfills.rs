//! Backfills on each database.

use perpend_domain::backfill::{BackfillMode, BackfillPlan};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_executions::BackfillChange;

use crate::testing::on_each_database;

fn plan() -> BackfillPlan {
    BackfillPlan {
        rule: "rule".parse().unwrap(),
        rule_name: "rule".to_owned(),
        target: TargetKind::Observation,
        mode: BackfillMode::Fill,
        from: Timestamp::from_millis(0),
        to: Timestamp::from_millis(1),
        filter: Vec::new(),
        max_items: None,
        max_usd: None,
        n_in_range: None,
        usd_per_execution: None,
    }
}

#[tokio::test]
async fn many_paused_backfills_delay_no_running_one() {
    on_each_database(|store| async move {
        let [ours, theirs]: [ProjectId; 2] = ["a", "b"].map(|id| id.parse().unwrap());
        let (ledger, at) = (&store.ledger, Timestamp::from_millis);
        for n in 0..100 {
            let id = format!("paused {n}");
            ledger.create_backfill(&ours, &id, &plan(), at(n)).await.unwrap();
            ledger.change_backfill(&ours, &id, BackfillChange::Pause, at(n)).await.unwrap();
        }
        for project in [&ours, &theirs] {
            ledger.create_backfill(project, "running", &plan(), at(1_000)).await.unwrap();
        }
        let open = ledger.open_backfills().await.unwrap();
        let n_running = open.iter().filter(|each| each.id == "running").count();
        assert_eq!((open.len(), n_running), (101, 2));
    })
    .await;
}
