//! Runs that the server executes: leases, and the states of their items.

use perpend_domain::dataset::{Dataset, DatasetRun, run_id};
use perpend_domain::ids::ProjectId;
use perpend_domain::server_run::{EndpointTask, RunAnswer, RunState, RunTask};
use perpend_domain::time::Timestamp;
use perpend_executions::{
    ClaimedItem, ItemEnd, MAX_DRIVEN_RUNS, NewServerRun, RunChange, RunItem, RunRetry,
};
use serde_json::{Value, json};

use crate::Store;
use crate::testing::on_each_database;

const N_ITEMS: i64 = 3;

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn new_run(name: &str) -> (NewServerRun, DatasetRun) {
    let id = run_id(&home(), "d", name);
    let run = NewServerRun {
        id: id.clone(),
        experiment_id: "e".to_owned(),
        name: name.to_owned(),
        dataset_id: "d".to_owned(),
        dataset_at: at(0),
        task: RunTask::Endpoint(EndpointTask {
            url: "http://example.com".to_owned(),
            timeout_ms: 1_000,
            is_signed: false,
        }),
        concurrency: 2,
        max_usd: Some(1.0),
        repetitions: 2,
        rule_id: None,
        baseline_id: None,
    };
    let dataset_run = DatasetRun {
        id,
        name: name.to_owned(),
        description: None,
        metadata: Value::Null,
        dataset_id: "d".to_owned(),
        dataset_name: "d".to_owned(),
        created_at: at(0),
        updated_at: at(0),
    };
    (run, dataset_run)
}

/// Starts a run over three items with two results each; its id.
async fn start(store: &Store, name: &str) -> String {
    let dataset = Dataset {
        id: "d".to_owned(),
        name: "d".to_owned(),
        description: None,
        metadata: Value::Null,
        input_schema: None,
        expected_output_schema: None,
        created_at: at(0),
        updated_at: at(0),
    };
    store.catalog.create_dataset(&home(), &dataset).await.unwrap();
    let items: Vec<RunItem> =
        (0..N_ITEMS).map(|n| RunItem { id: format!("i{n}"), version: at(n) }).collect();
    let runs = [new_run(name)];
    let all = (&runs[..], items.as_slice());
    let taken = store.start_server_runs(&home(), all, Some(b"sealed"), at(1)).await.unwrap();
    assert_eq!(taken, None);
    let taken = store.start_server_runs(&home(), all, None, at(1)).await.unwrap();
    assert_eq!(taken, Some(0), "the name is taken");
    runs[0].0.id.clone()
}

#[tokio::test]
async fn items_of_a_lost_lease_are_unchanged_and_their_calls_are_counted_as_interrupted() {
    on_each_database(|store| async move {
        let id = start(&store, "first").await;
        let ledger = &store.ledger;
        let claimed = ledger.claim_runs(at(60), at(1)).await.unwrap();
        let first = &claimed[0];
        assert_eq!((first.id.as_str(), first.fence, claimed.len()), (id.as_str(), 1, 1));
        assert_eq!(ledger.claim_runs(at(60), at(2)).await.unwrap(), []);
        assert!(ledger.holds_run(first.lease(), at(2)).await.unwrap());
        let items = ledger.claim_run_items(first.lease(), 2, at(2)).await.unwrap();
        let places: Vec<i64> = items.iter().map(|item| item.place).collect();
        assert_eq!(places, [0, 1]);
        assert_eq!(items[1].item_id, "i1");

        let second = ledger.claim_runs(at(120), at(61)).await.unwrap().remove(0);
        assert_eq!(second.fence, 2);
        assert!(!ledger.holds_run(first.lease(), at(61)).await.unwrap());
        let end = |n: usize, error: Option<(String, String)>| ItemEnd {
            item: items[n].clone(),
            cost: Some(0.25),
            error,
        };
        ledger.finish_run_items(first.lease(), &[end(0, None)]).await.unwrap();
        let progress = ledger.run_progress(&home(), &id).await.unwrap().unwrap();
        assert_eq!((progress.n_completed, progress.n_pending, progress.n_repeated), (0, 6, 2));

        let again = ledger.claim_run_items(second.lease(), 10, at(62)).await.unwrap();
        assert_eq!(again.len(), 6);
        assert_eq!((again[0].n_interrupted, again[5].n_interrupted), (1, 0));
        assert_eq!((again[5].item_id.as_str(), again[5].repetition), ("i2", 1));
        let failure = Some(("invalid_input".to_owned(), "no value".to_owned()));
        let ends = [end(0, None), end(1, failure)];
        ledger.finish_run_items(second.lease(), &ends).await.unwrap();
        let failed = ledger.failed_run_items(&home(), &id, 10).await.unwrap();
        assert_eq!((failed.len(), failed[0].item_id.as_str()), (1, "i1"));
        assert!(!ledger.complete_run(second.lease(), at(63)).await.unwrap(), "items are open");
        ledger.release_run(second.lease()).await.unwrap();
        let progress = ledger.run_progress(&home(), &id).await.unwrap().unwrap();
        assert_eq!((progress.n_completed, progress.n_failed, progress.n_pending), (1, 1, 4));
        // Two calls of the first lease, four of the second one.
        assert_eq!((progress.cost_usd, progress.n_repeated), (0.5, 6));
        assert_eq!(ledger.reported_cost(&home(), "e").await.unwrap(), (0.5, 2));
        assert!(store.catalog.endpoint_secret(&home(), "e").await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_stored_answer_survives_its_process_and_a_run_completes_without_open_items() {
    on_each_database(|store| async move {
        let id = start(&store, "second").await;
        let ledger = &store.ledger;
        let run = ledger.claim_runs(at(60), at(1)).await.unwrap().remove(0);
        let items = ledger.claim_run_items(run.lease(), 10, at(2)).await.unwrap();
        let answer = RunAnswer {
            output: json!({ "text": "Paris" }),
            started_at: at(2).as_micros(),
            latency_ms: 12,
            cost_usd: Some(0.1),
            ..RunAnswer::default()
        };
        let stored = ledger.store_run_answer(run.lease(), (items[3].place, &answer)).await;
        assert!(stored.unwrap());
        let wait = (items[4].place, at(500), true);
        ledger.retry_run_item(run.lease(), wait, ("rate_limited", "later")).await.unwrap();

        let next = ledger.claim_runs(at(200), at(100)).await.unwrap().remove(0);
        let answered = ledger.answered_run_items(next.lease(), 10).await.unwrap();
        assert_eq!(answered.len(), 1);
        assert_eq!(answered[0].answer.as_ref(), Some(&answer));
        let due = ledger.claim_run_items(next.lease(), 10, at(101)).await.unwrap();
        assert_eq!(due.len(), 4, "one item is answered and one waits");
        assert_eq!(ledger.next_run_item(next.lease()).await.unwrap(), Some(at(500)));
        let late = ledger.claim_run_items(next.lease(), 10, at(500)).await.unwrap();
        assert_eq!((late.len(), late[0].n_tries), (1, 1));
        let ends = due.into_iter().chain(late).chain(answered);
        let ends = ends.map(|item| ItemEnd { item, cost: None, error: None });
        ledger.finish_run_items(next.lease(), &ends.collect::<Vec<_>>()).await.unwrap();
        assert!(ledger.complete_run(next.lease(), at(501)).await.unwrap());
        let progress = ledger.run_progress(&home(), &id).await.unwrap().unwrap();
        assert_eq!((progress.state, progress.n_completed), (RunState::Completed, 6));
        assert_eq!(progress.ended_at, Some(at(501)));
        let change = ledger.change_run(&home(), &id, RunChange::Pause, at(502)).await;
        assert!(!change.unwrap(), "a completed run stays completed");
    })
    .await;
}

#[tokio::test]
async fn a_paused_run_starts_no_calls_until_it_is_resumed_and_a_deleted_one_is_gone() {
    on_each_database(|store| async move {
        let id = start(&store, "third").await;
        let ledger = &store.ledger;
        let run = ledger.claim_runs(at(60), at(1)).await.unwrap().remove(0);
        let change = RunChange::PauseFor("MAX_USD_REACHED", "too much");
        assert!(ledger.change_run(&home(), &id, change, at(2)).await.unwrap());
        assert!(!ledger.holds_run(run.lease(), at(2)).await.unwrap());
        assert_eq!(ledger.claim_run_items(run.lease(), 1, at(2)).await.unwrap(), []);
        let renewed = ledger.renew_run(run.lease(), at(90)).await.unwrap();
        assert_eq!(renewed, Some(RunState::Paused));
        ledger.release_run(run.lease()).await.unwrap();
        assert_eq!(ledger.claim_runs(at(60), at(3)).await.unwrap(), []);
        assert!(ledger.change_run(&home(), &id, RunChange::Resume, at(3)).await.unwrap());
        let late = RunChange::PauseAfterCall("AUTH", "of a call from before", at(2));
        assert!(!ledger.change_run(&home(), &id, late, at(3)).await.unwrap());
        assert!(ledger.has_free_runs(at(3)).await.unwrap());
        assert_eq!(ledger.claim_runs(at(60), at(3)).await.unwrap().len(), 1);
        assert!(store.delete_dataset(&home(), "d", at(4)).await.unwrap());
        assert_eq!(ledger.run_progress(&home(), &id).await.unwrap(), None);
        assert!(!ledger.has_free_runs(at(900)).await.unwrap());
    })
    .await;
}

/// Starts runs of these names over an item each, all of the experiment `e`.
async fn start_runs(store: &Store, names: &[String]) -> Vec<String> {
    start(store, "first of all").await;
    let items = [RunItem { id: "i0".to_owned(), version: at(0) }];
    let runs: Vec<_> = names.iter().map(|name| new_run(name)).collect();
    let all = (runs.as_slice(), items.as_slice());
    let taken = store.start_server_runs(&home(), all, Some(b"sealed"), at(2)).await.unwrap();
    assert_eq!(taken, None);
    runs.into_iter().map(|(run, _)| run.id).collect()
}

#[tokio::test]
async fn a_project_drives_a_limited_number_of_runs_and_the_others_wait() {
    on_each_database(|store| async move {
        let limit = usize::try_from(MAX_DRIVEN_RUNS).unwrap();
        let names: Vec<String> = (0..limit + 1).map(|n| format!("run {n}")).collect();
        let ids = start_runs(&store, &names).await;
        let ledger = &store.ledger;
        let claimed = ledger.claim_runs(at(60), at(3)).await.unwrap();
        assert_eq!(claimed.len(), limit);
        assert!(claimed.iter().any(|run| run.name == "first of all"), "the oldest one runs");
        assert!(!ledger.has_free_runs(at(3)).await.unwrap());
        assert_eq!(ledger.claim_runs(at(60), at(3)).await.unwrap(), []);
        let mut n_waiting = 0;
        for id in &ids {
            let progress = ledger.run_progress(&home(), id).await.unwrap().unwrap();
            n_waiting += u32::from(progress.is_waiting);
        }
        assert_eq!(n_waiting, 2);
        let paused = &claimed[0];
        assert!(ledger.change_run(&home(), &paused.id, RunChange::Pause, at(4)).await.unwrap());
        ledger.release_run(paused.lease()).await.unwrap();
        assert!(ledger.has_free_runs(at(4)).await.unwrap());
        assert_eq!(ledger.claim_runs(at(60), at(4)).await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_retry_makes_only_failed_items_pending_with_another_attempt() {
    on_each_database(|store| async move {
        let id = start(&store, "retried").await;
        let ledger = &store.ledger;
        let run = ledger.claim_runs(at(60), at(1)).await.unwrap().remove(0);
        let refused = ledger.retry_failed_items(&home(), &id, at(2)).await.unwrap();
        assert_eq!(refused, Some(RunRetry::Refused(RunState::Running)));
        let items = ledger.claim_run_items(run.lease(), 10, at(2)).await.unwrap();
        let failed = |item: &ClaimedItem| item.item_id == "i1";
        let ends = items.iter().map(|item| ItemEnd {
            item: item.clone(),
            cost: None,
            error: failed(item).then(|| ("upstream_timeout".to_owned(), "late".to_owned())),
        });
        let ends: Vec<ItemEnd> = ends.collect();
        ledger.finish_run_items(run.lease(), &ends).await.unwrap();
        assert!(ledger.complete_run(run.lease(), at(3)).await.unwrap());
        let retried = ledger.retry_failed_items(&home(), &id, at(4)).await.unwrap();
        assert_eq!(retried, Some(RunRetry::Pending(2)));
        let progress = ledger.run_progress(&home(), &id).await.unwrap().unwrap();
        assert_eq!((progress.state, progress.ended_at), (RunState::Running, None));
        assert_eq!((progress.n_completed, progress.n_failed, progress.n_pending), (4, 0, 2));
        let again = ledger.claim_runs(at(120), at(5)).await.unwrap().remove(0);
        let items = ledger.claim_run_items(again.lease(), 10, at(5)).await.unwrap();
        assert!(items.len() == 2 && items.iter().all(failed), "{items:?}");
        assert!(items.iter().all(|item| (item.attempt, item.n_tries) == (1, 0)), "{items:?}");
        assert!(ledger.change_run(&home(), &id, RunChange::Cancel, at(6)).await.unwrap());
        let refused = ledger.retry_failed_items(&home(), &id, at(7)).await.unwrap();
        assert_eq!(refused, Some(RunRetry::Refused(RunState::Cancelled)));
        let unknown = ledger.retry_failed_items(&home(), "unknown", at(7)).await.unwrap();
        assert_eq!(unknown, None);
    })
    .await;
}

#[tokio::test]
async fn a_secret_is_deleted_with_the_last_run_of_its_experiment_its_dataset_or_its_project() {
    on_each_database(|store| async move {
        let ids = start_runs(&store, &["second".to_owned()]).await;
        let first = run_id(&home(), "d", "first of all");
        let secret = async || store.catalog.endpoint_secret(&home(), "e").await.unwrap();
        assert!(secret().await.is_some());
        store.delete_run(&home(), &first, at(5)).await.unwrap();
        assert!(secret().await.is_some(), "another run of the experiment uses it");
        assert_eq!(store.ledger.run_progress(&home(), &first).await.unwrap(), None);
        store.delete_run(&home(), &ids[0], at(6)).await.unwrap();
        assert_eq!(secret().await, None);
        let runs = [new_run("third")];
        let items = [RunItem { id: "i0".to_owned(), version: at(0) }];
        let all = (&runs[..], &items[..]);
        store.start_server_runs(&home(), all, Some(b"sealed"), at(7)).await.unwrap();
        assert!(secret().await.is_some());
        assert!(store.delete_dataset(&home(), "d", at(8)).await.unwrap());
        assert_eq!(secret().await, None);
        start(&store, "fourth").await;
        assert!(secret().await.is_some());
        store.catalog.empty(&home()).await.unwrap();
        assert_eq!(secret().await, None, "a deleted project leaves none");
    })
    .await;
}
