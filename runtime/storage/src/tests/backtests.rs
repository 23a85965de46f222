//! Backtests on each database.

use futures_util::future::join_all;
use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::MAX_RUNNING_BACKTESTS;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_executions::BackfillChange;

use super::retention::backtest_plan;
use crate::testing::on_each_database;

#[tokio::test]
async fn requests_at_the_same_time_start_no_more_backtests_than_may_run() {
    on_each_database(|store| async move {
        let (ours, theirs): (ProjectId, ProjectId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let (ledger, now) = (&store.ledger, Timestamp::from_millis(0));
        let plan = backtest_plan((0, 1));
        let starts = (0..6).map(async |n| {
            let id = n.to_string();
            let is_started = ledger.create_backtest(&ours, &id, &plan, now).await.unwrap();
            is_started.then_some(id)
        });
        let started: Vec<String> = join_all(starts).await.into_iter().flatten().collect();
        assert_eq!(started.len() as u64, MAX_RUNNING_BACKTESTS);
        assert!(ledger.create_backtest(&theirs, "other", &plan, now).await.unwrap());

        let change = async |id: &str, change| {
            let changed = ledger.change_backtest(&ours, id, change, now).await.unwrap();
            changed.unwrap().state
        };
        assert_eq!(change(&started[0], BackfillChange::Pause).await, BackfillState::Paused);
        assert!(ledger.create_backtest(&ours, "last", &plan, now).await.unwrap());
        let resumed = change(&started[0], BackfillChange::Resume).await;
        assert_eq!(resumed, BackfillState::Paused, "the others run");
        change("last", BackfillChange::Cancel).await;
        assert_eq!(change(&started[0], BackfillChange::Resume).await, BackfillState::Running);
    })
    .await;
}
