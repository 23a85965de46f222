//! Rules that score whole sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use perpend_domain::evaluation::{
    CompletionReason, Execution, ExecutionState, LatePolicy, Mapping, Rule, Target, TargetKind,
};
use perpend_domain::filter::WrittenFilter;
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Item;
use perpend_domain::score::Subject;
use perpend_domain::time::Clock as _;
use perpend_scheduler::{Breakpoint, Error, ExplanationStep, Options, Refusal};
use perpend_storage::testing::on_each_database;
use serde_json::{Value, json};

use crate::support::{FakeEvaluate, Gate, StopOnce, World, child_of, generation};
use crate::{LEASE_MS, OBSERVATION};

const QUIET_MS: i64 = 1_800_000;

/// A turn of a conversation, with the previous messages in its input.
fn turn(n: u64, session: &str, before: &[&str], reply: &str) -> Observation {
    let mut own = generation(n, n);
    own.session_id = Some(session.to_owned());
    own.user_id = Some(format!("user {n}"));
    let roles = ["user", "assistant"].iter().cycle();
    let messages = before.iter().zip(roles);
    let messages = messages.map(|(text, role)| json!({ "role": role, "content": text }));
    own.content.input = Some(Payload::from_value(messages.collect()));
    own.content.output = Some(Payload::Text(reply.to_owned()));
    own
}

fn session(id: &str) -> Target {
    Target::Session(id.parse().unwrap())
}

impl World {
    async fn executions_over(&self, id: &str) -> Vec<Execution> {
        let (ledger, target) = (&self.store.ledger, session(id));
        let all = ledger.executions_over(&self.project, &target).await;
        all.unwrap()
    }
}

/// Restricts the rule to sessions with a thumbs-down by a user.
fn reads_thumbs(rule: &mut Rule) {
    let condition = json!({
        "type": "booleanObject", "column": "score_booleans", "key": "thumb", "operator": "=",
        "value": false,
    });
    let columns = TargetKind::Session.filter_columns();
    rule.filter = WrittenFilter::parse(vec![condition], columns).unwrap();
}

/// Sessions with more than this number of traces.
fn more_traces_than(n: u32) -> WrittenFilter {
    let condition =
        json!({ "type": "number", "column": "traceCount", "operator": ">", "value": n });
    WrittenFilter::parse(vec![condition], TargetKind::Session.filter_columns()).unwrap()
}

#[tokio::test]
async fn a_session_is_scored_once_with_its_conversation_when_all_its_traces_are_quiet() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let mapped = |variable: &str, source: &str| Mapping {
            variable: variable.to_owned(),
            source: source.to_owned(),
            json_path: None,
        };
        let rule = world
            .rule("r", TargetKind::Session, |rule| {
                rule.filter = more_traces_than(1);
                rule.assignments[0].mapping = Some(vec![mapped("output", "session.thread")]);
            })
            .await;
        let items: Arc<Mutex<Vec<Item>>> = Arc::default();
        let noted = Arc::clone(&items);
        let scheduler = world.scheduler(FakeEvaluate::new(move |call, _| {
            noted.lock().unwrap().push(Item::clone(&call.item));
            Ok(1.0)
        }));
        let explain = async |id: &str| {
            let target = session(id);
            let explained = scheduler.explain(&world.project, &rule, &target).await;
            explained.unwrap().step
        };
        assert_eq!(explain("talk").await, ExplanationStep::NoSuchTarget);
        world.ingest(vec![turn(1, "talk", &["Hi"], "Hello")]).await;
        world.ingest(vec![turn(2, "alone", &["Hi"], "Hello")]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(QUIET_MS - 1);
        scheduler.run_until_idle().await.unwrap();
        let last = turn(3, "talk", &["Hi", "Hello", "Bye"], "Ciao");
        world.ingest(vec![last]).await;
        let complete_at = Some(world.clock.now().plus_millis(QUIET_MS));
        assert_eq!(explain("talk").await, ExplanationStep::NotComplete { complete_at });
        world.clock.advance(QUIET_MS - 1);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 0);
        world.clock.advance(1);
        scheduler.run_until_idle().await.unwrap();

        let scores = world.scores().await;
        assert_eq!(scores.len(), 1);
        let written = &scores[0].written;
        assert_eq!(written.subject, Subject::Session("talk".to_owned()));
        assert_eq!(written.metadata["target_session_id"], "talk");
        assert_eq!(written.metadata.get("target_trace_id"), None);
        let items = items.lock().unwrap().clone();
        assert_eq!((items.len(), items[0].id.as_str()), (1, "talk"));
        let messages: Value =
            serde_json::from_str(items[0].output.as_ref().unwrap().as_str()).unwrap();
        let messages = messages.as_array().unwrap().iter();
        let messages: Vec<&Value> = messages.map(|message| &message["content"]).collect();
        assert_eq!(messages, ["Hi", "Hello", "Bye", "Ciao"]);
        let made = &world.executions_over("talk").await[0].made;
        assert_eq!(made.completion, CompletionReason::Quiet);
        assert_eq!((&made.target, made.n_observations), (&session("talk"), 2));
        assert!(matches!(explain("talk").await, ExplanationStep::Taken { .. }));
        let alone = explain("alone").await;
        assert!(
            matches!(&alone, ExplanationStep::Refused(Refusal::NotMatched { actual, .. }) if *actual == 1.0),
            "{alone:?}"
        );
        let counts = world.counts(&rule).await;
        assert_eq!((counts["made"], counts["not_matched"]), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_turn_after_its_score_is_counted_or_has_the_session_scored_again() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("ignores", TargetKind::Session, |_| {}).await;
        let rescores = |rule: &mut Rule| rule.late = LatePolicy::Rescore;
        world.rule("rescores", TargetKind::Session, rescores).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        for n in 1..=2 {
            world.ingest(vec![turn(n, "talk", &["Hi"], "Hello")]).await;
            world.clock.advance(QUIET_MS);
            scheduler.run_until_idle().await.unwrap();
        }
        let all = world.executions_over("talk").await;
        let seen = all.iter().map(|row| {
            let made = &row.made;
            (made.rule_id.as_str(), made.generation, row.n_late)
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [("ignores", 0, 1), ("rescores", 0, 0), ("rescores", 1, 0)]
        );
        let (telemetry, target) = (&world.store.telemetry, session("talk"));
        let aside = telemetry.superseded_scores(&world.project, &target, &all[1].made.id).await;
        let aside = aside.unwrap();
        assert_eq!(aside.len(), 1);
        assert_eq!(aside[0].1, all[2].made.id);
        assert_eq!(world.scores().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_session_waits_for_rules_of_its_traces_and_for_other_session_rules() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let parts = world.rule("parts", OBSERVATION, |_| {}).await;
        let traces = world.rule("traces", TargetKind::Trace, |_| {}).await;
        let first = world
            .rule("first", TargetKind::Session, |rule| {
                rule.after = vec![parts.id.clone(), traces.id.clone()];
                rule.timing.quiet_ms = Some(0);
            })
            .await;
        let second = world
            .rule("second", TargetKind::Session, |rule| {
                rule.after = vec![first.id.clone()];
                rule.timing.quiet_ms = Some(0);
            })
            .await;
        let gate = Gate::new();
        let scheduler = world.scheduler(gate.clone());
        let explain = async |rule: &Rule| {
            let target = session("talk");
            let explained = scheduler.explain(&world.project, rule, &target).await;
            explained.unwrap().step
        };
        let waits_for = |rule: &Rule| ExplanationStep::WaitingForRule {
            rule: rule.id.clone(),
            name: rule.name.clone(),
        };
        let root = turn(1, "talk", &["Hi"], "Hello");
        let tool = child_of(&root, 2, ObservationKind::Tool);
        world.ingest(vec![root, tool]).await;
        let during_the_calls = async {
            gate.called().await;
            assert_eq!(explain(&first).await, waits_for(&parts));
            assert_eq!(explain(&second).await, waits_for(&first));
            gate.open();
        };
        let (ran, ()) = tokio::join!(scheduler.run_until_idle(), during_the_calls);
        ran.unwrap();
        // The trace settles for ten seconds, and only then its rule has examined it.
        world.clock.advance(9_999);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(explain(&first).await, waits_for(&traces));
        assert_eq!(world.executions_over("talk").await, []);
        for _ in 0..3 {
            world.clock.advance(20_000);
            scheduler.run_until_idle().await.unwrap();
        }
        let all = world.executions_over("talk").await;
        let ended = all.iter().map(|each| (each.made.rule_id.as_str(), each.state));
        assert_eq!(
            ended.collect::<BTreeMap<_, _>>(),
            BTreeMap::from([
                ("first", ExecutionState::Completed),
                ("second", ExecutionState::Completed)
            ])
        );
    })
    .await;
}

#[tokio::test]
async fn a_thumb_on_a_session_starts_the_rule_that_reads_it() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", TargetKind::Session, reads_thumbs).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![turn(1, "talk", &["Hi"], "Hello")]).await;
        world.clock.advance(QUIET_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.counts(&rule).await["not_matched"], 1);
        world.thumb("thumb", Subject::Session("talk".to_owned())).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_over("talk").await.len(), 1);
        assert_eq!(world.scores().await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_thumb_that_arrives_with_a_turn_is_read_when_the_session_is_quiet() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", TargetKind::Session, reads_thumbs).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![turn(1, "talk", &["Hi"], "Hello")]).await;
        scheduler.run_until_idle().await.unwrap();
        // The watch of the session exists: both move it in one pass.
        world.clock.advance(1_000);
        world.ingest(vec![turn(2, "talk", &["Bye"], "Ciao")]).await;
        world.thumb("thumb", Subject::Session("talk".to_owned())).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.counts(&rule).await, BTreeMap::new());
        world.clock.advance(QUIET_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_over("talk").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_session_that_lost_a_trace_is_scored_again_when_it_continues() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rescores = |rule: &mut Rule| rule.late = LatePolicy::Rescore;
        world.rule("r", TargetKind::Session, rescores).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let root = turn(1, "talk", &["Hi"], "Hello");
        let tool = child_of(&root, 2, ObservationKind::Tool);
        world.ingest(vec![root, tool]).await;
        world.clock.advance(QUIET_MS);
        scheduler.run_until_idle().await.unwrap();
        let (telemetry, gone) = (&world.store.telemetry, [crate::support::trace_id(1)]);
        let deleted = telemetry.delete_traces(&world.project, &gone).await;
        deleted.unwrap();
        world.clock.advance(1);
        world.ingest(vec![turn(3, "talk", &["Hi"], "Bye")]).await;
        world.clock.advance(QUIET_MS);
        scheduler.run_until_idle().await.unwrap();
        let all = world.executions_over("talk").await;
        let generations = all.iter().map(|each| each.made.generation);
        assert_eq!(generations.collect::<Vec<_>>(), [0, 1]);
    })
    .await;
}

#[tokio::test]
async fn a_session_older_than_the_rule_is_scored_when_it_continues_and_explain_shows_that() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        // Without a rule of sessions no session is watched.
        world.rule("other", TargetKind::Session, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![turn(1, "talk", &["Hi"], "Hello")]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(1);
        let rule = world.rule("r", TargetKind::Session, |_| {}).await;
        let explain = async || {
            let target = session("talk");
            let explained = scheduler.explain(&world.project, &rule, &target).await;
            explained.unwrap().step
        };
        let of_rule = async || {
            let all = world.executions_over("talk").await;
            all.iter().filter(|each| each.made.rule_id == rule.id).count()
        };
        world.clock.advance(QUIET_MS);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(of_rule().await, 0);
        assert!(matches!(explain().await, ExplanationStep::OlderThanRule { .. }));
        world.ingest(vec![turn(2, "talk", &["Bye"], "Ciao")]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(QUIET_MS);
        assert_eq!(explain().await, ExplanationStep::Due);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(of_rule().await, 1);
        assert!(matches!(explain().await, ExplanationStep::Taken { .. }));
    })
    .await;
}

#[tokio::test]
async fn killed_anywhere_a_session_is_scored_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", TargetKind::Session, |_| {}).await;
        let evaluate = FakeEvaluate::length();
        let places = [
            Breakpoint::Decided,
            Breakpoint::Made,
            Breakpoint::Claimed,
            Breakpoint::Sorted,
            Breakpoint::Evaluated,
            Breakpoint::Finished,
        ];
        for (n, at) in places.into_iter().enumerate() {
            let id = format!("session {n}");
            world.ingest(vec![turn(n as u64 + 1, &id, &["Hi"], "Hello")]).await;
            world.clock.advance(QUIET_MS);
            for n_before in 0..2 {
                let stop = StopOnce::at_later(at, n_before);
                let dying = world.scheduler_with(evaluate.clone(), Some(stop), Options::default());
                match dying.run_until_idle().await {
                    Ok(()) | Err(Error::Stopped(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                world.clock.advance(LEASE_MS);
            }
            let scheduler = world.scheduler(evaluate.clone());
            scheduler.run_until_idle().await.unwrap();
            let states = world.executions_over(&id).await;
            let states: Vec<_> = states.iter().map(|each| each.state).collect();
            assert_eq!(states, [ExecutionState::Completed], "{at:?}");
        }
        assert_eq!(world.scores().await.len(), places.len());
    })
    .await;
}
