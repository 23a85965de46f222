//! Backfills on each database.

use perpend_domain::backfill::{BackfillMode, BackfillPlan};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::filter::WrittenFilter;
use perpend_domain::ids::ProjectId;
use perpend_domain::list::Cursor;
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
        filter: WrittenFilter::default(),
        max_items: None,
        max_usd: None,
        n_in_range: None,
        usd_per_execution: None,
    }
}

#[tokio::test]
async fn many_open_backfills_are_read_in_pages() {
    on_each_database(|store| async move {
        let project: ProjectId = "a".parse().unwrap();
        let (ledger, at) = (&store.ledger, Timestamp::from_millis);
        for n in 0..100 {
            let id = format!("paused {n}");
            ledger.create_backfill(&project, &id, &plan(), at(n)).await.unwrap();
            ledger.change_backfill(&project, &id, BackfillChange::Pause, at(n)).await.unwrap();
        }
        ledger.create_backfill(&project, "running", &plan(), at(1_000)).await.unwrap();
        let page = ledger.open_backfills(None).await.unwrap();
        let last = page.last().unwrap();
        let after = Cursor::new(last.created_at, last.id.clone());
        let rest = ledger.open_backfills(Some(&after)).await.unwrap();
        assert_eq!((page.len(), rest.len()), (100, 1));
        assert_eq!(rest[0].id, "running");
    })
    .await;
}
