//! Rules that wait for other rules, and rules that are started by scores of users.

use std::collections::BTreeMap;

use perpend_catalog::RulePatch;
use perpend_domain::evaluation::{Execution, ExecutionState, Pause, Rule, Target, TargetKind};
use perpend_domain::observation::{ExperimentLink, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::FailureClass;
use perpend_domain::score::Subject;
use perpend_domain::time::Clock as _;
use perpend_scheduler::{Breakpoint, Error, ExplanationStep, Options};
use perpend_storage::testing::on_each_database;
use serde_json::json;

use crate::support::{
    FakeEvaluate, Gate, StopOnce, World, child_of, conditions, generation, trace_id,
};
use crate::{LEASE_MS, OBSERVATION};
use perpend_domain::filter::WrittenFilter;

/// Scores below 10 of the evaluator of this rule, whose scores are the lengths of outputs.
fn short(rule: &str, target: TargetKind) -> WrittenFilter {
    let condition = json!({
        "type": "numberObject", "column": "scores_avg", "key": format!("evaluator of {rule}.length"),
        "operator": "<", "value": 10,
    });
    WrittenFilter::parse(vec![condition], target.filter_columns()).unwrap()
}

/// A generation with this output.
fn saying(n: u64, output: &str) -> Observation {
    let mut own = generation(n, n);
    own.content.output = Some(Payload::Text(output.to_owned()));
    own
}

fn target(own: &Observation) -> Target {
    Target::Observation(own.trace_id.clone(), own.id.clone())
}

fn after<const N: usize>(rules: [&Rule; N]) -> Vec<perpend_domain::ids::RuleId> {
    rules.map(|rule| rule.id.clone()).to_vec()
}

impl World {
    /// The executions of a rule over a trace and its observations.
    async fn executions_of(&self, rule: &Rule, n: u64) -> Vec<Execution> {
        let (ledger, trace) = (&self.store.ledger, trace_id(n));
        let all = ledger.trace_executions(&self.project, &trace).await;
        let mut all = all.unwrap();
        all.retain(|each| each.made.rule_id == rule.id);
        all
    }

    /// Executions of the rule are held from now on.
    async fn hold(&self, rule: &Rule) {
        let pause = Pause {
            reason: Pause::BUDGET_REACHED.to_owned(),
            message: "as the test wants".to_owned(),
            at: self.clock.now(),
            until: None,
        };
        let catalog = &self.store.catalog;
        let paused = catalog.pause_rule(&self.project, &rule.id, &pause, None);
        paused.await.unwrap();
    }
}

#[tokio::test]
async fn a_rule_waits_for_the_rule_before_it_and_its_filter_reads_the_scores() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let cheap = world.rule("cheap", OBSERVATION, |_| {}).await;
        let dear = world
            .rule("dear", OBSERVATION, |rule| {
                rule.after = after([&cheap]);
                rule.filter = short("cheap", OBSERVATION);
            })
            .await;
        let (bad, good) = (saying(1, "bad"), saying(2, "much better than that"));
        world.ingest(vec![bad.clone(), good.clone()]).await;
        let gate = Gate::new();
        let scheduler = world.scheduler(gate.clone());
        let explain = async |own: &Observation| {
            let target = target(own);
            let explained = scheduler.explain(&world.project, &dear, &target).await;
            explained.unwrap().step
        };
        let during_the_call = async {
            gate.called().await;
            let step = explain(&bad).await;
            let waits = ExplanationStep::WaitingForRule {
                rule: cheap.id.clone(),
                name: "cheap".to_owned(),
            };
            assert_eq!(step, waits);
            assert!(step.sentence().contains("\"cheap\""));
            assert_eq!(world.executions_of(&dear, 1).await, []);
            gate.open();
        };
        let (ran, ()) = tokio::join!(scheduler.run_until_idle(), during_the_call);
        ran.unwrap();

        let made = world.executions_of(&dear, 1).await;
        let states: Vec<_> = made.iter().map(|each| each.state).collect();
        assert_eq!(states, [ExecutionState::Completed]);
        assert!(matches!(explain(&bad).await, ExplanationStep::Taken { .. }));
        assert_eq!(world.executions_of(&dear, 2).await, []);
        assert_eq!(explain(&good).await.name(), "not_matched");
        let want = [("completed", 1), ("made", 1), ("not_matched", 1)];
        let want: BTreeMap<String, u64> = want.map(|(reason, n)| (reason.to_owned(), n)).into();
        assert_eq!(world.counts(&dear).await, want);
    })
    .await;
}

#[tokio::test]
async fn a_rule_continues_after_any_outcome_of_the_rule_before_it() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let fails = world.rule("fails", OBSERVATION, |_| {}).await;
        let refuses = world
            .rule("refuses", OBSERVATION, |rule| {
                rule.filter = conditions(vec![json!({
                    "type": "string", "column": "name", "operator": "=", "value": "another name",
                })]);
            })
            .await;
        let is_off = world.rule("is off", OBSERVATION, |rule| rule.enabled = false).await;
        let last = world
            .rule("last", OBSERVATION, |rule| {
                rule.after = after([&fails, &refuses, &is_off]);
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::new(|_, n| match n {
            0 => Err(FailureClass::InvalidInput),
            _ => Ok(1.0),
        }));
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        let states = async |rule: &Rule, n| -> Vec<ExecutionState> {
            let all = world.executions_of(rule, n).await;
            all.iter().map(|each| each.state).collect()
        };
        assert_eq!(states(&fails, 1).await, [ExecutionState::Failed]);
        assert_eq!(states(&last, 1).await, [ExecutionState::Completed]);

        // A deleted rule is not waited for.
        let catalog = &world.store.catalog;
        for rule in [&fails, &refuses] {
            catalog.delete_rule(&world.project, &rule.id).await.unwrap();
        }
        let found = catalog.rule(&world.project, &last.id).await.unwrap();
        assert_eq!(found.unwrap().after, after([&is_off]));
        world.ingest(vec![generation(2, 2)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(states(&last, 2).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_trace_rule_waits_for_held_executions_of_the_observations() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let parts = world
            .rule("parts", OBSERVATION, |rule| {
                rule.filter = crate::support::generations_only();
            })
            .await;
        let whole = world
            .rule("whole", TargetKind::Trace, |rule| {
                rule.after = after([&parts]);
                rule.filter = short("parts", TargetKind::Trace);
            })
            .await;
        let last = world
            .rule("last", TargetKind::Trace, |rule| {
                rule.after = after([&whole]);
            })
            .await;
        world.hold(&parts).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let root = saying(1, "root");
        let mut child = child_of(&root, 2, ObservationKind::Generation);
        child.content.output = Some(Payload::Text("child".to_owned()));
        world.ingest(vec![root, child]).await;
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        let target = Target::Trace(trace_id(1));
        let explain = async |rule: &Rule| {
            let explained = scheduler.explain(&world.project, rule, &target);
            explained.await.unwrap().step
        };
        let waits_for = |rule: &Rule| ExplanationStep::WaitingForRule {
            rule: rule.id.clone(),
            name: rule.name.clone(),
        };
        assert_eq!(explain(&whole).await, waits_for(&parts));
        assert_eq!(explain(&last).await, waits_for(&whole));
        let (catalog, now) = (&world.store.catalog, world.clock.now());
        catalog.patch_rule(&world.project, &parts.id, &crate::enabled(), &now).await.unwrap();
        scheduler.run_until_idle().await.unwrap();
        for (rule, n) in [(&parts, 2), (&whole, 1), (&last, 1)] {
            let all = world.executions_of(rule, 1).await;
            assert_eq!(all.len(), n, "{}", rule.name);
            assert!(all.iter().all(|each| each.state == ExecutionState::Completed));
        }
    })
    .await;
}

#[tokio::test]
async fn killed_anywhere_each_rule_of_a_row_scores_a_target_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let first = world.rule("first", OBSERVATION, |_| {}).await;
        let second = world
            .rule("second", OBSERVATION, |rule| {
                rule.after = after([&first]);
                rule.filter = short("first", OBSERVATION);
            })
            .await;
        let third = world.rule("third", OBSERVATION, |rule| rule.after = after([&second])).await;
        let evaluate = FakeEvaluate::length();
        let places = [
            Breakpoint::Decided,
            Breakpoint::Made,
            Breakpoint::Claimed,
            Breakpoint::Sorted,
            Breakpoint::Evaluated,
            Breakpoint::Finished,
        ];
        let mut number = 0;
        // Each point is reached once for each rule of the row: the process is killed the n-th time.
        for (at, n_before) in places.into_iter().flat_map(|at| [(at, 0), (at, 1), (at, 2)]) {
            number += 1;
            world.ingest(vec![saying(number, "short")]).await;
            let stop = StopOnce::at_later(at, n_before);
            let options = Options::default();
            let dying = world.scheduler_with(evaluate.clone(), Some(stop), options);
            match dying.run_until_idle().await {
                Ok(()) | Err(Error::Stopped(_)) => {}
                Err(error) => panic!("{error}"),
            }
            for _ in 0..3 {
                world.clock.advance(LEASE_MS);
                let scheduler = world.scheduler(evaluate.clone());
                scheduler.run_until_idle().await.unwrap();
            }
            for rule in [&first, &second, &third] {
                let all = world.executions_of(rule, number).await;
                let states: Vec<_> = all.iter().map(|each| each.state).collect();
                assert_eq!(states, [ExecutionState::Completed], "{at:?} {n_before}: {}", rule.name);
            }
        }
        assert_eq!(world.scores().await.len(), 3 * number as usize);
    })
    .await;
}

#[tokio::test]
async fn an_execution_that_ends_without_a_wake_up_is_found_by_the_poll() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let first = world.rule("first", OBSERVATION, |_| {}).await;
        let second = world.rule("second", OBSERVATION, |rule| rule.after = after([&first])).await;
        world.hold(&first).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_of(&second, 1).await, []);
        // Its executions are cancelled without a wake-up.
        let catalog = &world.store.catalog;
        catalog.delete_rule(&world.project, &first.id).await.unwrap();
        let why = perpend_domain::evaluation::AttemptFailure::new(
            perpend_domain::evaluation::NoCallReason::RuleDeleted,
            "gone",
        );
        let ledger = &world.store.ledger;
        let now = world.clock.now();
        ledger.cancel_executions(&world.project, &first.id, &why, now).await.unwrap();
        world.clock.advance(5_000);
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_of(&second, 1).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_score_of_a_person_starts_a_rule_that_reads_scores_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let thumbs_down = |target: TargetKind| {
            let condition = json!({
                "type": "booleanObject", "column": "score_booleans", "key": "thumb",
                "operator": "=", "value": false,
            });
            WrittenFilter::parse(vec![condition], target.filter_columns()).unwrap()
        };
        let parts =
            world.rule("parts", OBSERVATION, |rule| rule.filter = thumbs_down(OBSERVATION)).await;
        let whole = world
            .rule("whole", TargetKind::Trace, |rule| {
                rule.filter = thumbs_down(TargetKind::Trace);
            })
            .await;
        let other = world.rule("other", OBSERVATION, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let own = generation(1, 1);
        world.ingest(vec![own.clone(), generation(2, 2)]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        let n_made = async || {
            let mut n = [0; 3];
            for (n, rule) in n.iter_mut().zip([&parts, &whole, &other]) {
                *n = world.executions_of(rule, 1).await.len();
            }
            n
        };
        assert_eq!(n_made().await, [0, 0, 1]);
        let on_it = || Subject::Observation(own.trace_id.clone(), own.id.clone());
        for id in ["first", "second"] {
            world.thumb(id, on_it()).await;
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(n_made().await, [1, 1, 1], "{id}");
        }
        assert_eq!(world.executions_of(&parts, 2).await, []);
        // A score on the trace does not affect its parts.
        world.thumb("third", Subject::Trace(trace_id(2))).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_of(&parts, 2).await, []);
        assert_eq!(world.executions_of(&whole, 2).await.len(), 1);
        // Rules that do not read scores were not decided again.
        assert_eq!(world.counts(&other).await.get("duplicate"), None);
    })
    .await;
}

#[tokio::test]
async fn a_score_that_arrives_while_a_rule_waits_is_read_by_its_decision() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let first = world.rule("first", OBSERVATION, |_| {}).await;
        let second = world
            .rule("second", OBSERVATION, |rule| {
                rule.after = after([&first]);
                rule.filter = conditions(vec![json!({
                    "type": "booleanObject", "column": "score_booleans", "key": "thumb",
                    "operator": "=", "value": false,
                })]);
            })
            .await;
        let own = generation(1, 1);
        world.ingest(vec![own.clone()]).await;
        let gate = Gate::new();
        let scheduler = world.scheduler(gate.clone());
        let during_the_call = async {
            gate.called().await;
            let subject = Subject::Observation(own.trace_id.clone(), own.id.clone());
            world.thumb("down", subject).await;
            gate.open();
        };
        let (ran, ()) = tokio::join!(scheduler.run_until_idle(), during_the_call);
        ran.unwrap();
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.executions_of(&second, 1).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_score_starts_no_rule_before_those_that_it_waits_for_have_ended() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let first =
            world.rule("first", OBSERVATION, |rule| rule.timing.settle_ms = Some(60_000)).await;
        let second = world
            .rule("second", OBSERVATION, |rule| {
                rule.after = after([&first]);
                rule.filter = WrittenFilter::parse(
                    [
                        short("first", OBSERVATION).sent(),
                        &[json!({
                            "type": "booleanObject", "column": "score_booleans", "key": "thumb",
                            "operator": "=", "value": false,
                        })],
                    ]
                    .concat(),
                    OBSERVATION.filter_columns(),
                )
                .unwrap();
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let (early, late) = (saying(1, "short"), saying(2, "short"));
        let thumb = async |id: &str, own: &Observation| {
            let subject = Subject::Observation(own.trace_id.clone(), own.id.clone());
            world.thumb(id, subject).await;
        };
        // One is scored in the pass that sees it first, the other one while the first rule waits.
        world.ingest(vec![early.clone(), late.clone()]).await;
        thumb("early", &early).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(10_000);
        thumb("late", &late).await;
        scheduler.run_until_idle().await.unwrap();
        for n in [1, 2] {
            assert_eq!(world.executions_of(&second, n).await, [], "{n}");
        }
        world.clock.advance(50_000);
        scheduler.run_until_idle().await.unwrap();
        for n in [1, 2] {
            for rule in [&first, &second] {
                let made = world.executions_of(rule, n).await;
                assert_eq!(made.len(), 1, "{} over {n}", rule.name);
            }
        }
        assert_eq!(world.counts(&second).await.get("not_matched"), None);
    })
    .await;
}

#[tokio::test]
async fn an_audit_takes_a_share_of_targets_refused_for_scores_and_marks_them() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let cheap = world.rule("cheap", OBSERVATION, |_| {}).await;
        let dear = world
            .rule("dear", OBSERVATION, |rule| {
                rule.after = after([&cheap]);
                rule.audit = 0.2;
                rule.filter = WrittenFilter::parse(
                    [
                        short("cheap", OBSERVATION).sent(),
                        &[json!({
                            "type": "string", "column": "name", "operator": "=", "value": "answer",
                        })],
                    ]
                    .concat(),
                    OBSERVATION.filter_columns(),
                )
                .unwrap();
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let observations = (0..200).map(|n| {
            let mut own = saying(n, "longer than ten characters");
            if n % 2 == 1 {
                own.name = "another name".to_owned();
            }
            own
        });
        world.ingest(observations.collect()).await;
        scheduler.run_until_idle().await.unwrap();
        let mut audited = Vec::new();
        for n in 0..200 {
            for each in world.executions_of(&dear, n).await {
                assert!(each.made.is_audit, "{n}");
                assert!((each.made.inclusion_probability - 0.2).abs() < 1e-9);
                audited.push(n);
            }
        }
        assert!((8..40).contains(&audited.len()), "{audited:?}");
        assert!(audited.iter().all(|n| n % 2 == 0), "{audited:?}");
        let scores = world.scores().await;
        let marked =
            scores.iter().filter(|score| score.written.metadata.get("audit") == Some(&json!(true)));
        assert_eq!(marked.count(), audited.len());
        let own = saying(audited[0], "");
        let target = target(&own);
        let explained = scheduler.explain(&world.project, &dear, &target).await;
        let step = explained.unwrap().step;
        assert!(matches!(step, ExplanationStep::Taken { is_audit: true, .. }), "{step:?}");

        // Without the audit no such target is taken.
        let patch = RulePatch { audit: Some(0.0), ..RulePatch::default() };
        let (catalog, now) = (&world.store.catalog, world.clock.now());
        catalog.patch_rule(&world.project, &dear.id, &patch, &now).await.unwrap();
        let more = (200..300).map(|n| saying(n, "longer than ten characters"));
        world.ingest(more.collect()).await;
        scheduler.run_until_idle().await.unwrap();
        for n in 200..300 {
            assert_eq!(world.executions_of(&dear, n).await, [], "{n}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_rule_of_experiments_takes_the_roots_of_items_and_counts_nothing_else() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("items", TargetKind::Experiment, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut root = generation(1, 1);
        let link = ExperimentLink {
            id: Some("run".to_owned()),
            item_root_observation_id: Some(root.id.to_string()),
            ..ExperimentLink::default()
        };
        root.experiment = Some(Box::new(link.clone()));
        let mut step = child_of(&root, 2, ObservationKind::Tool);
        step.experiment = Some(Box::new(link));
        world.ingest(vec![root.clone(), step.clone(), generation(3, 3)]).await;
        scheduler.run_until_idle().await.unwrap();
        let made = world.executions_of(&rule, 1).await;
        let made: Vec<_> = made.iter().map(|each| each.made.target.clone()).collect();
        assert_eq!(made, [target(&root)]);
        let want = [("completed", 1), ("made", 1)];
        let want: BTreeMap<String, u64> = want.map(|(reason, n)| (reason.to_owned(), n)).into();
        assert_eq!(world.counts(&rule).await, want);
        let target = target(&step);
        let explained = scheduler.explain(&world.project, &rule, &target).await;
        assert_eq!(explained.unwrap().step.name(), "not_an_item");
    })
    .await;
}
