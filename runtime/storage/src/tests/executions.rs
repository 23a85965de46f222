//! Executions on each database.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use perpend_domain::budget::{Budget, BudgetScope, BudgetWindow, OnReached, ScopedBudget};
use perpend_domain::evaluation::{
    AttemptFailure, CompletionReason, Execution, ExecutionClass, ExecutionOrigin, ExecutionState,
    Lane, NewExecution, NoCallReason, QueueKind, Target,
};
use perpend_domain::identity::ExecutionKey;
use perpend_domain::ids::{EvaluatorId, ProjectId, RuleId, TraceId};
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::plugin::{FailureClass, LogLine};
use perpend_domain::time::Timestamp;

use perpend_executions::{
    AttemptKey, CostReservation, ExecutionEnd, ExecutionFilter, Lease, LeaseEnd, MatchBatch,
    NewWatch, Outcome, PlannedExecution, QueueShare, Release, ResumeScope, Watch,
};

use crate::testing::on_each_database;
use crate::{MatchOutcome, Store};

const KIND: QueueKind = QueueKind { lane: Lane::Code, class: ExecutionClass::Continuous };

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn lease(fence: i64, until: i64) -> Lease {
    let until = at(until);
    Lease { fence, until }
}

fn project() -> ProjectId {
    "p1".parse().unwrap()
}

fn new_execution(n: u32) -> PlannedExecution {
    let target = Target::Observation(format!("t{n}").parse().unwrap(), "o".parse().unwrap());
    let (rule_id, evaluator_id): (RuleId, EvaluatorId) =
        ("r".parse().unwrap(), "e".parse().unwrap());
    let key =
        ExecutionKey::live(&project(), rule_id.as_str(), &evaluator_id, &target, 0).execution_id();
    let execution = NewExecution {
        id: key,
        origin: ExecutionOrigin::Rule,
        rule_id,
        assignment_id: "a".parse().unwrap(),
        evaluator_id,
        target,
        shadow: None,
        generation: 0,
        inclusion_probability: 0.5,
        completion: CompletionReason::Ended,
        n_observations: 1,
        is_audit: false,
    };
    PlannedExecution {
        project: project(),
        kind: KIND,
        is_leased: false,
        firing_at: None,
        execution,
    }
}

/// The end of a lease without rules that others wait for.
fn ending(fence: i64, started_at: Timestamp, now: Timestamp) -> LeaseEnd<'static> {
    static NONE: LazyLock<HashSet<RuleId>> = LazyLock::new(HashSet::new);
    LeaseEnd { fence, started_at, now, awaited: &NONE }
}

async fn claim(store: &Store, n: u32, lease: Lease, now: Timestamp) -> Vec<Execution> {
    let queues = store.ledger.execution_queues().await.unwrap();
    let shares: Vec<QueueShare> =
        queues.iter().map(|queue| QueueShare { queue: queue.id, n }).collect();
    let claimed = store.ledger.claim_executions(&shares, lease, now).await;
    claimed.unwrap().into_iter().flatten().collect()
}

async fn make(store: &Store, n: u32, n_leased: usize) -> Vec<Option<i64>> {
    let batch = MatchBatch {
        executions: (0..n)
            .map(|at| PlannedExecution { is_leased: (at as usize) < n_leased, ..new_execution(at) })
            .collect(),
        ..MatchBatch::default()
    };
    let made = store.commit_matches(&[], &batch, lease(1, 60_000), at(0)).await;
    written(made.unwrap())
}

/// The numbers of the executions that a matcher wrote.
fn written(matched: MatchOutcome) -> Vec<Option<i64>> {
    match matched {
        MatchOutcome::Made(made) => made,
        other => panic!("{other:?}"),
    }
}

fn failed(execution: &Execution) -> ExecutionEnd<'_> {
    ExecutionEnd {
        spent: None,
        log: Vec::new(),
        calls_models: false,
        execution,
        version: None,
        cpu_us: 1,
        outcome: Outcome::Failed(
            AttemptFailure::new(FailureClass::PluginTrap, "out\0 of luck"),
            true,
        ),
    }
}

#[tokio::test]
async fn an_execution_is_made_once_and_reads_back_as_made() {
    on_each_database(|store| async move {
        assert!(make(&store, 100, 0).await.iter().all(Option::is_some));
        assert!(make(&store, 100, 0).await.iter().all(Option::is_none));
        let new = new_execution(7).execution;
        let found = store.ledger.execution(&project(), &new.id).await.unwrap().unwrap();
        assert_eq!(found.made, new);
        assert_eq!(found.state, ExecutionState::Pending);
        let stranger: ProjectId = "p2".parse().unwrap();
        assert_eq!(store.ledger.execution(&stranger, &new.id).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn new_executions_of_a_batch_are_made_and_leased_ones_are_completed() {
    on_each_database(|store| async move {
        make(&store, 10, 0).await;
        let made: Vec<bool> = make(&store, 23, 0).await.iter().map(Option::is_some).collect();
        assert_eq!(made, [vec![false; 10], vec![true; 13]].concat());
        let mine = claim(&store, 14, lease(21, 60_000), at(1)).await;
        let others = claim(&store, 9, lease(22, 60_000), at(1)).await;
        let all: Vec<ExecutionEnd<'_>> = mine
            .iter()
            .chain(&others)
            .map(|leased| ExecutionEnd {
                calls_models: false,
                outcome: Outcome::Completed(Vec::new()),
                ..failed(leased)
            })
            .collect();
        let end = async |now| store.finish_executions(ending(21, at(1), at(now)), &all).await;
        let seqs: HashSet<i64> = mine.iter().map(|leased| leased.seq).collect();
        assert_eq!(end(2).await.unwrap().mine, seqs);
        assert_eq!(end(3).await.unwrap().mine, HashSet::new(), "it has ended");
    })
    .await;
}

#[tokio::test]
async fn leased_executions_are_not_claimed_until_the_lease_ends() {
    on_each_database(|store| async move {
        make(&store, 10, 0).await;
        let one = claim(&store, 6, lease(11, 60_000), at(1)).await;
        let two = claim(&store, 6, lease(12, 60_000), at(1)).await;
        assert_eq!((one.len(), two.len()), (6, 4));
        assert!(claim(&store, 6, lease(13, 60_000), at(2)).await.is_empty());
        let seqs: Vec<i64> = two.iter().map(|each| each.seq).collect();
        // Only its own: the others stay under their lease, whatever the fence.
        let others: Vec<i64> = one.iter().map(|each| each.seq).collect();
        store.ledger.renew_lease(lease(12, 90_000), &seqs).await.unwrap();
        store.ledger.renew_lease(lease(12, 90_000), &others).await.unwrap();
        let late = claim(&store, 20, lease(14, 120_000), at(60_000)).await;
        assert_eq!(late.len(), 6);
        assert!(late.iter().all(|each| each.attempts == 1));
        let class = late[0].error_class;
        assert_eq!(class, Some(FailureClass::WorkerLost.into()));
    })
    .await;
}

#[tokio::test]
async fn unfinished_executions_are_counted_by_state_up_to_a_limit() {
    on_each_database(|store| async move {
        make(&store, 10, 0).await;
        let leased = claim(&store, 6, lease(11, 60_000), at(1)).await;
        let ended: Vec<ExecutionEnd<'_>> = leased.iter().take(1).map(failed).collect();
        store.finish_executions(ending(11, at(1), at(2)), &ended).await.unwrap();
        let counts = async |limit| {
            let counts = store.ledger.open_counts(limit).await.unwrap();
            move |state: ExecutionState| {
                counts.iter().find(|count| count.state == state).map_or(0, |count| count.n)
            }
        };
        let count = counts(100).await;
        assert_eq!(count(ExecutionState::Pending), 4);
        assert_eq!(count(ExecutionState::Running), 5);
        assert_eq!(count(ExecutionState::Held), 0);
        assert_eq!(count(ExecutionState::Failed), 0, "it is finished");
        let count = counts(3).await;
        assert_eq!(count(ExecutionState::Pending) + count(ExecutionState::Running), 3);
    })
    .await;
}

#[tokio::test]
async fn log_lines_are_kept_for_a_week_or_until_the_trace_is_deleted() {
    on_each_database(|store| async move {
        make(&store, 3, 0).await;
        let mine = claim(&store, 3, lease(31, 60_000), at(1)).await;
        let line = |message: &str| LogLine {
            level: "info".to_owned(),
            message: message.to_owned(),
            fields: None,
        };
        let finished: Vec<ExecutionEnd<'_>> = mine
            .iter()
            .map(|execution| ExecutionEnd {
                log: vec![line("first\0"), line("second")],
                ..failed(execution)
            })
            .collect();
        let end = async |fence| {
            let ending = ending(fence, at(1), at(2));
            store.finish_executions(ending, &finished).await.unwrap()
        };
        let log =
            async |execution: &Execution| store.ledger.execution_log(execution).await.unwrap();
        assert!(end(32).await.mine.is_empty());
        assert_eq!(log(&mine[0]).await, [], "of another lease");
        end(31).await;
        for execution in &mine {
            assert_eq!(log(execution).await, [line("first\0"), line("second")]);
        }
        let trace = mine[0].made.target.trace().unwrap().clone();
        let (traces, sessions) = ([trace], BTreeSet::new());
        let stranger: ProjectId = "p2".parse().unwrap();
        let ledger = &store.ledger;
        ledger.delete_logs(&stranger, &traces, &sessions).await.unwrap();
        assert_eq!(log(&mine[0]).await.len(), 2);
        ledger.delete_logs(&project(), &traces, &sessions).await.unwrap();
        assert_eq!(log(&mine[0]).await, []);
        let week = 7 * 24 * 3_600 * 1_000;
        ledger.delete_old_logs(at(2 + week)).await.unwrap();
        assert_eq!(log(&mine[1]).await.len(), 2);
        ledger.delete_old_logs(at(3 + week)).await.unwrap();
        assert_eq!(log(&mine[1]).await, []);
    })
    .await;
}

#[tokio::test]
async fn pages_of_the_list_have_each_matching_execution_once_in_both_directions() {
    on_each_database(|store| async move {
        make(&store, 5, 0).await;
        let leased = claim(&store, 3, lease(41, 60_000), at(1)).await;
        let ends: Vec<ExecutionEnd<'_>> = leased.iter().map(failed).collect();
        store.finish_executions(ending(41, at(1), at(2)), &ends).await.unwrap();
        let ledger = &store.ledger;
        let read = async |filter: &ExecutionFilter, cursor: Option<Cursor>, is_backwards| {
            let (project, position) = (project(), ListPosition { cursor, is_backwards });
            ledger.executions_from(&project, filter, &position, 2).await.unwrap()
        };
        let ids = |page: &BidirectionalPage<Execution>| -> Vec<String> {
            page.items.iter().map(|each| each.made.id.to_string()).collect()
        };
        let all = |state| ExecutionFilter { state, ..ExecutionFilter::default() };
        let of_rule = |rule: &str| ExecutionFilter {
            rule: Some(rule.parse().unwrap()),
            evaluator: Some("e".parse().unwrap()),
            ..ExecutionFilter::default()
        };
        let class = Some(FailureClass::PluginTrap.into());
        let of_class = ExecutionFilter { class, ..ExecutionFilter::default() };
        for (filter, n) in [
            (all(None), 5),
            (all(Some(ExecutionState::Failed)), 3),
            (all(Some(ExecutionState::Pending)), 2),
            (of_class, 3),
            (of_rule("r"), 5),
            (of_rule("another"), 0),
        ] {
            let mut older = vec![read(&filter, None, false).await];
            while let Some(next) = older[older.len() - 1].older.clone() {
                older.push(read(&filter, Some(next), false).await);
            }
            let mut newer = vec![read(&filter, None, true).await];
            while let Some(next) = newer[newer.len() - 1].newer.clone() {
                newer.push(read(&filter, Some(next), true).await);
            }
            let forwards: Vec<String> = older.iter().flat_map(ids).collect();
            let backwards: Vec<String> = newer.iter().rev().flat_map(ids).collect();
            assert_eq!((forwards.len(), &forwards), (n, &backwards), "{filter:?}");
            assert!(forwards.is_sorted_by(|a, b| a > b), "made at one time: {forwards:?}");
            assert!(older.iter().all(|page| page.stopped.is_none()));
        }
        let stranger: ProjectId = "p2".parse().unwrap();
        let theirs =
            ledger.executions_from(&stranger, &all(None), &ListPosition::default(), 2).await;
        assert_eq!(theirs.unwrap(), BidirectionalPage::default());
        let costs = ledger.execution_costs(&project(), &[leased[0].made.id.clone()]).await;
        assert!(costs.unwrap().is_empty(), "no model was called");
    })
    .await;
}

#[tokio::test]
async fn leases_of_a_former_server_are_given_back_without_counting_an_attempt() {
    on_each_database(|store| async move {
        make(&store, 5, 0).await;
        let former = claim(&store, 3, lease(11, 60_000), at(1)).await;
        assert_eq!(store.ledger.release_all_leases(at(2)).await.unwrap(), 3);
        let taken = claim(&store, 9, lease(12, 60_000), at(2)).await;
        assert_eq!(taken.len(), 5);
        assert!(taken.iter().all(|each| each.attempts == 0));
        // The fence of the former lease is no longer valid.
        let seqs: Vec<i64> = former.iter().map(|each| each.seq).collect();
        let given_back = Release::GivenBack;
        let late = store.ledger.release_executions(11, &seqs, given_back, at(3)).await;
        late.unwrap();
        let free = claim(&store, 9, lease(13, 60_000), at(3)).await;
        assert!(free.is_empty());
        assert_eq!(store.ledger.release_all_leases(at(4)).await.unwrap(), 5);
        assert_eq!(store.ledger.release_all_leases(at(5)).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_reservation_counts_while_the_lease_under_which_it_was_made_lasts() {
    let budgets = [ScopedBudget {
        scope: BudgetScope::Rule,
        id: "r".to_owned(),
        budget: Budget { window: BudgetWindow::Total, usd: 1.0, on_reached: OnReached::Hold },
    }];
    on_each_database(|store| {
        let budgets = budgets.clone();
        async move {
            let ledger = &store.ledger;
            make(&store, 2, 0).await;
            let leased = claim(&store, 2, lease(11, 60_000), at(0)).await;
            let reserve = async |execution: &Execution, fence, now| {
                let made = &execution.made;
                let attempt_key = AttemptKey {
                    project: project(),
                    execution: made.id.clone(),
                    rule: made.rule_id.clone(),
                    evaluator: made.evaluator_id.clone(),
                    attempt: execution.attempts,
                    fence,
                };
                let reservation = CostReservation {
                    id: format!("{}/{fence}", made.id),
                    usd: 0.6,
                    is_unknown: false,
                    until: at(1_000_000),
                };
                let reserved = ledger.reserve(&attempt_key, &budgets, &reservation, now);
                reserved.await.unwrap().is_ok()
            };
            let reserved = async |now| {
                let spending = ledger.spending(&project(), &budgets[0], now).await;
                spending.unwrap().reserved
            };
            assert!(reserve(&leased[0], 11, at(1)).await);
            assert!(!reserve(&leased[1], 11, at(1)).await, "the budget is not enough for two");
            assert!(0.5 < reserved(at(59_999)).await);
            // The process is gone and renews no lease.
            assert!(reserved(at(60_000)).await <= 0.0);
            // A process that starts as the only user of the database ends the leases of the former one.
            assert_eq!(ledger.release_all_leases(at(2)).await.unwrap(), 2);
            assert!(reserved(at(2)).await <= 0.0);
            let next = claim(&store, 2, lease(12, 60_000), at(2)).await;
            assert!(reserved(at(3)).await <= 0.0);
            assert!(reserve(&next[1], 12, at(3)).await);
            ledger.end_all_reservations().await.unwrap();
            assert!(reserved(at(3)).await <= 0.0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_slow_holder_cannot_end_executions_of_its_successor() {
    on_each_database(|store| async move {
        make(&store, 1, 0).await;
        let slow = claim(&store, 1, lease(21, 60_000), at(0)).await;
        let next = claim(&store, 1, lease(22, 120_000), at(60_000)).await;
        let ended = store
            .finish_executions(ending(21, at(0), at(60_001)), &[failed(&slow[0])])
            .await
            .unwrap();
        assert!(ended.mine.is_empty() && ended.failures.is_empty());
        let ended = store
            .finish_executions(ending(22, at(60_000), at(60_002)), &[failed(&next[0])])
            .await
            .unwrap();
        assert_eq!(ended.mine.len(), 1);
        assert_eq!(ended.failures[0].2, 1);
        let id = &next[0].made.id;
        let attempts = store.ledger.attempts(&project(), id).await.unwrap();
        assert_eq!(attempts.len(), 1);
        assert_eq!(attempts[0].failure.message, "out\u{fffd} of luck");
        let states = store.ledger.rule_states(&project(), &"r".parse().unwrap()).await.unwrap();
        assert_eq!((states[0].state, states[0].n), (ExecutionState::Failed, 1));
    })
    .await;
}

#[tokio::test]
async fn held_executions_wait_resume_or_are_given_up() {
    on_each_database(|store| async move {
        make(&store, 2, 2).await;
        let trace: TraceId = "t0".parse().unwrap();
        let seq = store.ledger.trace_executions(&project(), &trace).await.unwrap()[0].seq;
        let until = Release::Held { until: at(1_000), message: "paused by the test" };
        store.ledger.release_executions(1, &[seq], until, at(1)).await.unwrap();
        assert!(claim(&store, 9, lease(31, 99_000), at(500)).await.is_empty());
        let held = store.ledger.held().await.unwrap();
        assert_eq!(held.len(), 1);
        let (project, rule, evaluator) = &held[0];
        assert_eq!(
            store
                .ledger
                .resume_executions((project, rule, evaluator), ResumeScope::All, at(600))
                .await
                .unwrap(),
            1
        );
        let claimed = claim(&store, 9, lease(32, 99_000), at(600)).await;
        assert_eq!((claimed.len(), claimed[0].attempts), (1, 0));
        store.ledger.release_executions(32, &[seq], until, at(601)).await.unwrap();
        assert_eq!(store.ledger.give_up_held(at(1_000)).await.unwrap(), 1);
        let row = &store.ledger.trace_executions(project, &trace).await.unwrap()[0];
        let class = row.error_class;
        assert_eq!(class, Some(NoCallReason::HeldTooLong.into()));
    })
    .await;
}

#[tokio::test]
async fn a_watch_that_another_matcher_moved_takes_the_whole_batch_back() {
    on_each_database(|store| async move {
        let watch = Watch {
            project: project(),
            target: Target::Trace("t".parse().unwrap()),
            began_at: at(1),
            changed_at: at(1),
            looked_at: at(0),
            due_at: at(10),
            waiting: Vec::new(),
        };
        let set = |watch: &Watch, was_due_at| MatchBatch {
            watches: vec![NewWatch { watch: watch.clone(), was_due_at }],
            executions: vec![new_execution(1)],
            ..MatchBatch::default()
        };
        let first = set(&watch, None);
        let made = store.commit_matches(&[], &first, lease(1, 9), at(1)).await;
        written(made.unwrap());
        let due = store.ledger.due_watches(at(10), 9).await.unwrap();
        assert_eq!(due, std::slice::from_ref(&watch));
        assert_eq!(store.ledger.due_watches(at(9), 9).await.unwrap(), []);
        let moved = Watch { due_at: at(20), waiting: Vec::new(), ..watch.clone() };
        let other = set(&moved, Some(at(11)));
        assert_eq!(
            store.commit_matches(&[], &other, lease(1, 9), at(2)).await.unwrap(),
            MatchOutcome::Overtaken
        );
        let mine = set(&moved, Some(at(10)));
        let made = store.commit_matches(&[], &mine, lease(1, 9), at(2)).await;
        written(made.unwrap());
        let counts =
            store.ledger.rule_counts(&project(), &"r".parse().unwrap(), at(0)).await.unwrap();
        let counts: Vec<_> = counts.iter().map(|each| (each.reason.as_str(), each.n)).collect();
        assert_eq!(counts, [("duplicate", 1), ("made", 1)]);
    })
    .await;
}

#[tokio::test]
async fn each_queue_gives_its_own_share_and_no_more() {
    on_each_database(|store| async move {
        let kinds =
            [(Lane::Code, ExecutionClass::Backfill), (Lane::Model, ExecutionClass::Continuous)];
        let making = |n: u32| {
            let (lane, class) = kinds[n as usize % 2];
            PlannedExecution { kind: QueueKind { lane, class }, ..new_execution(n) }
        };
        let batch =
            MatchBatch { executions: (0..20).map(making).collect(), ..MatchBatch::default() };
        let made = store.commit_matches(&[], &batch, lease(1, 9), at(5)).await;
        written(made.unwrap());
        let queues = store.ledger.execution_queues().await.unwrap();
        let mut found: Vec<_> =
            queues.iter().map(|queue| (queue.kind.lane, queue.kind.class, queue.due_at)).collect();
        found.sort_unstable();
        assert_eq!(found, kinds.map(|(lane, class)| (lane, class, at(5))));
        assert!(queues.iter().all(|queue| queue.project == Some(project())));
        let share = |at: usize, n| QueueShare { queue: queues[at].id, n };
        let shares = [share(0, 3), share(1, 99)];
        let claimed = store.ledger.claim_executions(&shares, lease(2, 60_000), at(5)).await;
        let claimed: Vec<usize> = claimed.unwrap().iter().map(Vec::len).collect();
        assert_eq!(claimed, [3, 10]);
        let after = store.ledger.execution_queues().await.unwrap();
        let due: Vec<Timestamp> = after.iter().map(|queue| queue.due_at).collect();
        assert_eq!(due, [at(5), at(60_000)], "the second runs, and is due when its lease ends");
    })
    .await;
}
