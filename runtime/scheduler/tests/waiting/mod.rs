//! Completeness of targets, and changes after it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::stream::BoxStream;
use perpend_domain::evaluation::{
    CompletionReason, ExecutionState, LatePolicy, OnMissing, Rule, Target, TargetKind,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::observation::ObservationKind;
use perpend_domain::patch::{Patch, PatchSubject};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, EvaluationCall, FailureClass, ReplyPolicy};
use perpend_domain::pricing::PriceTable;
use perpend_domain::score::ScoreValue;
use perpend_domain::telemetry::EventBatch;
use perpend_domain::time::Clock as _;
use perpend_scheduler::{Evaluate, ExplanationStep};
use perpend_storage::testing::on_each_database;
use serde_json::json;

use crate::support::{FakeEvaluate, World, child_of, conditions, generation, together, trace_id};

#[tokio::test]
async fn a_trace_without_root_is_scored_when_it_is_quiet_and_one_with_a_marker_at_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Trace, |rule| rule.on_missing = OnMissing::Empty).await;
        let scheduler = world.scheduler(FakeEvaluate::new(|_, _| Ok(1.0)));
        let mut orphan = generation(1, 1);
        orphan.parent_id = Some("00000000000000ff".parse().unwrap());
        let mut marked = generation(2, 2);
        marked.parent_id = Some("00000000000000ff".parse().unwrap());
        marked.is_complete_marker = true;
        world.ingest(vec![orphan, marked]).await;
        for (wait_ms, n_scores) in [(0, 0), (1_000, 1), (178_999, 1), (1, 2)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(world.scores().await.len(), n_scores, "after {wait_ms}");
        }
        let quiet =
            world.store.ledger.trace_executions(&world.project, &trace_id(1)).await.unwrap();
        assert_eq!(quiet[0].made.completion, CompletionReason::Quiet);
    })
    .await;
}

#[tokio::test]
async fn repeated_evaluations_use_any_stored_reply_and_first_ones_only_steady_replies() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rescores = |rule: &mut Rule| rule.late = LatePolicy::Rescore;
        world.rule("r", TargetKind::Trace, rescores).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let scheduler = world.scheduler(FakeEvaluate::new(move |call, _| {
            let origin = call.origin.as_ref().unwrap();
            noted.lock().unwrap().push(origin.reuse.replies);
            Ok(1.0)
        }));
        let root = generation(1, 1);
        world.ingest(vec![root.clone()]).await;
        for late in [2, 3] {
            world.clock.advance(10_000);
            scheduler.run_until_idle().await.unwrap();
            let late = child_of(&root, late, ObservationKind::Tool);
            world.ingest(vec![late]).await;
        }
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(
            *seen.lock().unwrap(),
            [ReplyPolicy::Deterministic, ReplyPolicy::Any, ReplyPolicy::Any]
        );
    })
    .await;
}

#[tokio::test]
async fn late_spans_are_counted_or_rescored_as_configured() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("ignores", TargetKind::Trace, |_| {}).await;
        world.rule("rescores", TargetKind::Trace, |rule| rule.late = LatePolicy::Rescore).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let root = generation(1, 1);
        world.ingest(vec![root.clone()]).await;
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        world.ingest(vec![child_of(&root, 2, ObservationKind::Tool)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 2);
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();

        let all = world.store.ledger.trace_executions(&world.project, &trace_id(1)).await.unwrap();
        let seen: Vec<_> = all
            .iter()
            .map(|row| {
                let made = &row.made;
                (made.rule_id.as_str(), made.generation, row.n_late)
            })
            .collect();
        assert_eq!(seen, [("ignores", 0, 1), ("rescores", 0, 0), ("rescores", 1, 0)]);
        // One score of each rule is listed: scores that the second evaluation superseded are kept with their
        // execution.
        let id = |n: usize| all[n].made.id.clone();
        let listed = world.scores().await;
        let mut listed: Vec<_> = listed.iter().filter_map(|s| s.written.origin.as_ref()).collect();
        listed.sort_by(|a, b| a.rule_id.cmp(&b.rule_id));
        let listed: Vec<_> = listed.iter().map(|origin| origin.execution_id.clone()).collect();
        assert_eq!(listed, [id(0), id(2)]);
        for (n, n_aside) in [(0, 0), (1, 1), (2, 0)] {
            let (trace, id) = (Target::Trace(trace_id(1)), id(n));
            let aside = world.store.telemetry.superseded_scores(&world.project, &trace, &id);
            let by: Vec<_> = aside.await.unwrap().into_iter().map(|(_, by)| by).collect();
            assert_eq!(by, vec![all[2].made.id.clone(); n_aside], "{n}");
        }
    })
    .await;
}

/// Scores of a trace that each point at its first observation.
#[derive(Debug)]
struct Pointing(Arc<FakeEvaluate>);

impl Evaluate for Pointing {
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)> {
        together(async {
            let mut results = self.0.results(calls).await;
            let scores = results.iter_mut().filter_map(|result| result.outcome.as_mut().ok());
            for score in scores.flatten() {
                score.observation_id = Some(generation(1, 1).id.to_string());
            }
            results
        })
    }
}

#[tokio::test]
async fn the_newest_execution_counts_in_any_order_of_ends_and_for_any_pointers() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("rescores", TargetKind::Trace, |rule| rule.late = LatePolicy::Rescore).await;
        // The first evaluation fails, and is retried when the second has ended.
        let fails_first = FakeEvaluate::new(|_, n_before| match n_before {
            0 => Err(FailureClass::InvalidInput),
            n => Ok(f64::from(n)),
        });
        let scheduler = world.scheduler(Arc::new(Pointing(fails_first)));
        let root = generation(1, 1);
        world.ingest(vec![root.clone()]).await;
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        let late = child_of(&root, 2, ObservationKind::Tool);
        world.ingest(vec![late]).await;
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        let executions = async || {
            let trace = trace_id(1);
            let all = world.store.ledger.trace_executions(&world.project, &trace);
            all.await.unwrap()
        };
        world.clock.advance(10_000);
        let first = executions().await.remove(0).made.id;
        let now = world.clock.now();
        let requeued = world.store.ledger.requeue_execution(&world.project, &first, now);
        requeued.await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        let all = executions().await;
        let [old, new] = all.as_slice() else { unreachable!("{all:?}") };
        assert!([old, new].iter().all(|row| row.state == ExecutionState::Completed));
        assert!(new.finished_at < old.finished_at, "the test is about that");
        let listed = world.scores().await;
        let origins: Vec<_> = listed.iter().filter_map(|s| s.written.origin.as_ref()).collect();
        assert_eq!(origins.len(), 1);
        assert_eq!(origins[0].execution_id, new.made.id);
        // They are deleted with their trace.
        let (trace, old) = (Target::Trace(trace_id(1)), old.made.id.clone());
        let n_aside = async || {
            let aside = world.store.telemetry.superseded_scores(&world.project, &trace, &old);
            aside.await.unwrap().len()
        };
        assert_eq!(n_aside().await, 1);
        let (telemetry, all) = (&world.store.telemetry, [trace_id(1)]);
        let gone = telemetry.delete_traces(&world.project, &all);
        gone.await.unwrap();
        assert_eq!(n_aside().await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_settling_rule_waits_for_the_last_change_and_scores_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world
            .rule("settles", TargetKind::Observation, |rule| {
                rule.timing.settle_ms = Some(10_000);
            })
            .await;
        let at_once = world.rule("at-once", TargetKind::Observation, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let first = generation(1, 1);
        world.ingest(vec![first.clone()]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 1);
        // A change restarts the wait.
        world.clock.advance(6_000);
        let mut second = first.clone();
        second.attribute_count = 2;
        world.ingest(vec![second.clone()]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(6_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 1);
        // Due and changed in one pass: one execution, called once.
        world.clock.advance(6_000);
        let mut third = second;
        third.attribute_count = 3;
        world.ingest(vec![third]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(60_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 2);
        let counts = world.counts(&rule).await;
        assert_eq!((counts["made"], counts["completed"]), (1, 1));
        assert_eq!(world.counts(&at_once).await["made"], 1);
    })
    .await;
}

#[tokio::test]
async fn late_spans_of_an_old_trace_are_waited_for_like_those_of_a_new_one() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule =
            world.rule("rescores", TargetKind::Trace, |rule| rule.late = LatePolicy::Rescore).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let n_made = async || world.counts(&rule).await["made"];
        let root = generation(1, 1);
        world.ingest(vec![root.clone()]).await;
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        // A day later a conversation continues for some seconds.
        world.clock.advance(86_400_000);
        for n in 2..6 {
            world.ingest(vec![child_of(&root, n, ObservationKind::Tool)]).await;
            scheduler.run_until_idle().await.unwrap();
            world.clock.advance(3_000);
            scheduler.run_until_idle().await.unwrap();
        }
        assert_eq!(n_made().await, 1, "more may come");
        world.clock.advance(7_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(n_made().await, 2);
        // A session that never settles is evaluated after the longest wait.
        let mut open = child_of(&root, 7, ObservationKind::Tool);
        open.end = None;
        world.ingest(vec![open]).await;
        scheduler.run_until_idle().await.unwrap();
        for (wait_ms, n) in [(3_599_999, 2), (1, 3)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(n_made().await, n, "after {wait_ms}");
        }
        assert_eq!(world.scores().await.len(), 1, "the newest speaks");
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_has_scored_goes_by_its_own_waits_while_another_still_waits() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rescores = |rule: &mut Rule| rule.late = LatePolicy::Rescore;
        let short = world.rule("short", TargetKind::Trace, rescores).await;
        let long = world
            .rule("long", TargetKind::Trace, |rule| {
                rescores(rule);
                rule.timing.max_wait_ms = Some(3 * 3_600_000);
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let wait = async |ms: i64| {
            world.clock.advance(ms);
            scheduler.run_until_idle().await.unwrap();
        };
        let made = async |rule: &Rule| {
            let counts = world.counts(rule).await;
            let n = |reason: &str| counts.get(reason).copied().unwrap_or_default();
            (n("made"), n("duplicate"))
        };
        let root = generation(1, 1);
        let mut open = child_of(&root, 2, ObservationKind::Tool);
        open.end = None;
        world.ingest(vec![root.clone(), open.clone()]).await;
        wait(0).await;
        wait(3_600_000).await;
        assert_eq!((made(&short).await, made(&long).await), ((1, 0), (0, 0)));
        // Without new data nothing is decided again.
        wait(3_600_000).await;
        assert_eq!((made(&short).await, made(&long).await), ((1, 0), (0, 0)));
        open.end = Some(open.start);
        let late = child_of(&root, 3, ObservationKind::Tool);
        world.ingest(vec![open, late]).await;
        wait(0).await;
        wait(9_999).await;
        wait(1).await;
        assert_eq!((made(&short).await, made(&long).await), ((2, 0), (1, 0)));
        wait(86_400_000).await;
        assert_eq!((made(&short).await, made(&long).await), ((2, 0), (1, 0)));
    })
    .await;
}

/// Observations of traces with this name.
fn of_the_trace_named(name: &str) -> WrittenFilter {
    conditions(vec![
        json!({ "type": "string", "column": "traceName", "operator": "=", "value": name }),
    ])
}

#[tokio::test]
async fn a_rule_that_reads_the_trace_of_an_observation_waits_for_the_root() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world
            .rule("r", TargetKind::Observation, |rule| rule.filter = of_the_trace_named("chat"))
            .await;
        // Another rule for the same observations, which is complete at another time.
        let settling = world
            .rule("settling", TargetKind::Observation, |rule| rule.timing.settle_ms = Some(60_000))
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut root = generation(1, 1);
        root.name = "chat".to_owned();
        let children = vec![
            child_of(&root, 2, ObservationKind::Tool),
            child_of(&root, 3, ObservationKind::Tool),
        ];
        world.ingest(children).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(5_000);
        scheduler.run_until_idle().await.unwrap();
        assert!(world.counts(&rule).await.is_empty(), "nothing is decided");
        let waits = Target::Observation(trace_id(1), "0000000000000002".parse().unwrap());
        let explained = scheduler.explain(&world.project, &rule, &waits).await;
        assert!(matches!(
            explained.unwrap().step,
            ExplanationStep::NotComplete { complete_at: Some(_) }
        ));
        // One of the waiting ones changes in the same pass: it is decided once.
        world.ingest(vec![root.clone()]).await;
        let mut changed = child_of(&root, 2, ObservationKind::Tool);
        changed.attribute_count = 2;
        world.ingest(vec![changed]).await;
        scheduler.run_until_idle().await.unwrap();
        let expect = async |rule: &Rule, n: u64, n_again: u64| {
            let mut counts = world.counts(rule).await;
            let again = counts.remove("duplicate").unwrap_or_default();
            let made = [("completed".to_owned(), n), ("made".to_owned(), n)];
            let expected = (BTreeMap::from(made), n_again);
            assert_eq!((counts, again), expected, "{}", rule.name);
        };
        expect(&rule, 3, 0).await;
        // Observations after the root need not wait. A repeated root causes an examination of itself only.
        world.ingest(vec![child_of(&root, 4, ObservationKind::Tool)]).await;
        root.attribute_count = 2;
        world.ingest(vec![root]).await;
        scheduler.run_until_idle().await.unwrap();
        expect(&rule, 4, 1).await;
        world.clock.advance(60_000);
        scheduler.run_until_idle().await.unwrap();
        expect(&rule, 4, 1).await;
        expect(&settling, 4, 0).await;
        assert_eq!(world.scores().await.len(), 8);
    })
    .await;
}

#[tokio::test]
async fn a_rule_that_reads_the_trace_decides_without_a_root_if_none_arrives_or_is_needed() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let named = world
            .rule("named", TargetKind::Observation, |rule| rule.filter = of_the_trace_named("chat"))
            .await;
        let of_user = world
            .rule("user", TargetKind::Observation, |rule| {
                rule.filter = conditions(vec![json!({
                    "type": "string", "column": "userId", "operator": "=", "value": "u1"
                })])
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut orphan = child_of(&generation(1, 1), 2, ObservationKind::Tool);
        orphan.user_id = Some("u1".to_owned());
        world.ingest(vec![orphan]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.counts(&of_user).await["made"], 1, "the observation has the value itself");
        for (wait_ms, n_decided) in [(179_999, 0), (1, 1)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            let counts = world.counts(&named).await;
            let n = counts.get("not_matched").copied().unwrap_or_default();
            assert_eq!(n, n_decided, "after {wait_ms}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_observation_in_parts_is_scored_when_it_is_quiet() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Observation, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let part = |event: &str, is_update: bool, output: &str| {
            let now = world.clock.now();
            let about = PatchSubject::Observation("o1".parse().unwrap());
            let mut part = Patch::new(event.to_owned(), now, is_update, about);
            part.trace_id = Some(trace_id(1));
            part.start = Some(now);
            part.end = Some(now);
            part.input = Some(Payload::Text("question".to_owned()));
            part.output = Some(Payload::Text(output.to_owned()));
            part
        };
        let send = async |part: Patch| {
            let batch = EventBatch { patches: vec![part], ..EventBatch::default() };
            let (prices, now) = (PriceTable::default(), world.clock.now());
            let written = world.store.telemetry.write_events(&world.project, batch, &prices, now);
            written.await.unwrap();
            scheduler.run_until_idle().await.unwrap();
        };
        send(part("e1", false, "half")).await;
        world.clock.advance(9_999);
        scheduler.run_until_idle().await.unwrap();
        send(part("e2", true, "the whole")).await;
        world.clock.advance(9_999);
        scheduler.run_until_idle().await.unwrap();
        assert!(world.scores().await.is_empty());
        world.clock.advance(1);
        scheduler.run_until_idle().await.unwrap();
        let scores = world.scores().await;
        let values: Vec<_> = scores.iter().map(|score| &score.written.value).collect();
        assert_eq!(values, [&ScoreValue::Numeric(9.0)]);
    })
    .await;
}
