//! The scheduler on each database, with evaluators that are closures.

#![expect(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test has no outside, and its support may stop it"
)]

mod after;
mod backfill;
mod breaker;
mod fairness;
mod held;
mod kills;
mod leases;
mod linked;
mod loops;
mod memory;
mod model;
mod pointing;
mod schedules;
mod sessions;
mod streaming;
mod support;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use perpend_domain::evaluation::{
    CompletionReason, ExecutionState, Pause, Rule, Target, TargetKind,
};
use perpend_domain::observation::ObservationKind;
use perpend_domain::plugin::{FailureClass, ScoreDomain, ScoreSpec};
use perpend_domain::score::{ScoreSource, ScoreValue, Subject};
use perpend_domain::time::{Clock, Timestamp};
use perpend_scheduler::{Breakpoint, Error, ExplanationStep, Options, Refusal};
use perpend_storage::testing::on_each_database;
use serde_json::json;
use support::{
    FakeEvaluate, Gate, Hanging, StayAt, StopOnce, World, child_of, conditions, generation,
    generations_only, span, trace_id,
};
use tokio_util::sync::CancellationToken;

const OBSERVATION: TargetKind = TargetKind::Observation;
const LEASE_MS: i64 = 61_000;

fn enabled() -> perpend_catalog::RulePatch {
    perpend_catalog::RulePatch { enabled: Some(true), ..Default::default() }
}

#[tokio::test]
async fn every_generation_is_scored_once_with_its_origin() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |rule| rule.filter = generations_only()).await;
        let evaluate = FakeEvaluate::length();
        let scheduler = world.scheduler(evaluate.clone());
        let spans = (0..100).map(|n| match n % 2 {
            0 => generation(n, n),
            _ => span(n, n, ObservationKind::Tool),
        });
        let spans: Vec<_> = spans.collect();
        world.ingest(spans.clone()).await;
        scheduler.run_until_idle().await.unwrap();
        // Sending the same again changes nothing.
        world.ingest(spans).await;
        scheduler.run_until_idle().await.unwrap();

        let scores = world.scores().await;
        assert_eq!((scores.len(), evaluate.n_calls()), (50, 50));
        let score = &scores[0].written;
        assert_eq!(score.value, ScoreValue::Numeric(9.0));
        assert_eq!(score.source, ScoreSource::Eval);
        assert_eq!(score.metadata["evaluator_id"], "ev-r");
        assert_eq!(score.metadata["unit"], "bytes");
        let origin = score.origin.as_ref().unwrap();
        assert_eq!(origin.rule_id, rule.id);
        assert_eq!(origin.evaluator_version_id.as_str(), "ver-r");
        let execution =
            world.store.ledger.execution(&world.project, &origin.execution_id).await.unwrap();
        let execution = execution.unwrap();
        assert_eq!(execution.state, ExecutionState::Completed);
        assert_eq!(execution.attempts, 1);
        assert_eq!(execution.made.completion, CompletionReason::Ended);
        let counts = world.counts(&rule).await;
        assert_eq!(counts["made"], 50);
        assert_eq!(counts["completed"], 50);
        assert_eq!(counts["not_matched"], 50);
    })
    .await;
}

fn length_spec() -> ScoreSpec {
    ScoreSpec {
        name: "length".to_owned(),
        description: String::new(),
        domain: ScoreDomain::Boolean,
    }
}

#[tokio::test]
async fn a_score_is_named_after_its_evaluator_unless_a_person_named_it_in_source() {
    on_each_database(|store| async move {
        let mut world = World::new(store).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut expected = BTreeMap::new();
        let mut rule = async |world: &World, id: &str, name: &str| {
            world.rule(id, OBSERVATION, |_| {}).await;
            expected.insert(format!("ev-{id}"), name.to_owned());
        };
        rule(&world, "dynamic", "evaluator of dynamic.length").await;
        world
            .use_plugin("test/one", |info| {
                info.dynamic_scores = false;
                info.scores = vec![length_spec()];
            })
            .await;
        rule(&world, "one", "evaluator of one").await;
        rule(&world, "two", "evaluator of two").await;
        world.use_plugin("test/open", |info| info.scores = vec![length_spec()]).await;
        rule(&world, "open", "evaluator of open.length").await;
        world
            .use_plugin("test/many", |info| {
                info.dynamic_scores = false;
                info.scores = vec![length_spec(), length_spec()];
            })
            .await;
        rule(&world, "many", "evaluator of many.length").await;
        world.use_plugin("perpend/python", |info| info.id = "code".to_owned()).await;
        rule(&world, "source", "length").await;

        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        let mut found = BTreeMap::new();
        for score in world.scores().await {
            let origin = score.written.origin.unwrap();
            assert_eq!(origin.score_name, "length");
            found.insert(origin.evaluator_id.to_string(), score.written.name);
        }
        assert_eq!(found, expected);
    })
    .await;
}

#[tokio::test]
async fn a_rename_between_two_attempts_renames_the_score_and_does_not_double_it() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        world.ingest(vec![generation(1, 1)]).await;
        let gate = Gate::new();
        let scheduler = world.scheduler(gate.clone());
        let rename = async |name: &str| {
            let id = &rule.assignments[0].evaluator_id;
            let now = world.clock.now();
            let renamed =
                world.store.catalog.rename_evaluator(&world.project, id, Some(name), None, now);
            renamed.await.unwrap();
        };
        let during_the_call = async {
            gate.called().await;
            rename("second").await;
            gate.open();
        };
        let (ran, ()) = tokio::join!(scheduler.run_until_idle(), during_the_call);
        ran.unwrap();
        let names = async || -> Vec<(String, String)> {
            let scores = world.scores().await.into_iter();
            let mut names: Vec<_> =
                scores.map(|score| (score.written.id.to_string(), score.written.name)).collect();
            names.sort();
            names
        };
        let first = names().await;
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].1, "second.length");

        rename("third").await;
        world.ingest(vec![generation(2, 2)]).await;
        // The first attempt is lost before its scores are written.
        let stop = StopOnce::at(Breakpoint::Evaluated);
        let evaluate = FakeEvaluate::length();
        let lost = world.scheduler_with(evaluate.clone(), Some(stop), Options::default());
        lost.run_until_idle().await.unwrap_err();
        rename("fourth").await;
        world.clock.advance(LEASE_MS);
        let successor = world.scheduler(evaluate.clone());
        successor.run_until_idle().await.unwrap();
        let all = names().await;
        assert!(all.contains(&first[0]), "a rename does not touch stored scores");
        let later: Vec<&str> =
            all.iter().filter(|score| **score != first[0]).map(|(_, name)| name.as_str()).collect();
        assert_eq!((later, evaluate.n_calls()), (vec!["fourth.length"], 2));
    })
    .await;
}

#[tokio::test]
async fn killed_at_any_breakpoint_each_target_ends_with_exactly_one_score() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", OBSERVATION, |_| {}).await;
        let breakpoints = [
            Breakpoint::Decided,
            Breakpoint::Made,
            Breakpoint::Claimed,
            Breakpoint::Sorted,
            Breakpoint::Evaluated,
            Breakpoint::Finished,
        ];
        for (round, at) in breakpoints.into_iter().enumerate() {
            let round = round as u64 * 10;
            let evaluate = FakeEvaluate::length();
            // Without places executions are inserted as pending, and a claim comes first.
            let n_places = if at == Breakpoint::Claimed { 0 } else { 100 };
            let options = Options { n_places, ..Options::default() };
            let killed = world.scheduler_with(evaluate.clone(), Some(StopOnce::at(at)), options);
            world.ingest((round..round + 10).map(|n| generation(n, n)).collect()).await;
            if at == Breakpoint::Claimed {
                killed.run_until_idle().await.unwrap();
                let options = Options::default();
                let killed =
                    world.scheduler_with(evaluate.clone(), Some(StopOnce::at(at)), options);
                let stopped = killed.run_until_idle().await;
                assert!(matches!(stopped, Err(Error::Stopped(_))), "{at:?}: {stopped:?}");
            } else {
                let stopped = killed.run_until_idle().await;
                assert!(matches!(stopped, Err(Error::Stopped(_))), "{at:?}: {stopped:?}");
            }
            drop(killed);

            world.clock.advance(LEASE_MS);
            world.scheduler(evaluate).run_until_idle().await.unwrap();
            let scores = world.scores().await;
            let targets: BTreeSet<String> =
                scores.iter().map(|score| format!("{:?}", score.written.subject)).collect();
            let want = round as usize + 10;
            assert_eq!((scores.len(), targets.len()), (want, want), "{at:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn two_schedulers_on_one_database_have_the_effect_of_one() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let evaluate = FakeEvaluate::length();
        let options = Options { batch: 16, n_places: 96, ..Options::default() };
        let one = world.scheduler_with(evaluate.clone(), None, options);
        let two = world.scheduler_with(evaluate.clone(), None, options);
        for round in 0..10 {
            let ids = round * 40..round * 40 + 40;
            world.ingest(ids.map(|n| generation(n, n)).collect()).await;
        }
        let (one, two) = tokio::join!(one.run_until_idle(), two.run_until_idle());
        one.unwrap();
        two.unwrap();
        world.clock.advance(LEASE_MS);
        world.scheduler(evaluate.clone()).run_until_idle().await.unwrap();
        assert_eq!(world.scores().await.len(), 400);
        assert_eq!(evaluate.n_calls(), 400);
        let counts = world.counts(&rule).await;
        assert_eq!((counts["made"], counts["completed"]), (400, 400));
        assert_eq!(counts.get("duplicate"), None);
    })
    .await;
}

#[tokio::test]
async fn a_smaller_sample_lies_inside_the_larger_one() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let quarter = world.rule("quarter", OBSERVATION, |rule| rule.sampling = 0.25).await;
        let half = world.rule("half", OBSERVATION, |rule| rule.sampling = 0.5).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        for round in 0..10 {
            let ids = round * 100..round * 100 + 100;
            world.ingest(ids.map(|n| generation(n, n)).collect()).await;
        }
        scheduler.run_until_idle().await.unwrap();
        let scores = world.scores().await;
        let of = |rule: &str| -> BTreeSet<String> {
            let scores = scores.iter().map(|score| &score.written);
            let of_rule =
                scores.filter(|score| score.origin.as_ref().unwrap().rule_id.as_str() == rule);
            of_rule.map(|score| format!("{:?}", score.subject)).collect()
        };
        let (small, large) = (of("quarter"), of("half"));
        assert!(small.is_subset(&large));
        assert!((200..300).contains(&small.len()) && (450..550).contains(&large.len()));
        assert_eq!(world.counts(&quarter).await["sampled_out"], 1_000 - small.len() as u64);
        assert_eq!(scores[0].written.origin.as_ref().unwrap().inclusion_probability % 0.25, 0.0);
        assert_eq!(world.counts(&half).await["made"], large.len() as u64);
    })
    .await;
}

#[tokio::test]
async fn a_trace_is_scored_exactly_once_however_its_spans_arrive() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", TargetKind::Trace, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut arrivals: BTreeMap<i64, Vec<_>> = BTreeMap::new();
        let mut seed = 7_u64;
        let mut random = |n: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for trace in 0..20 {
            let root = span(trace, trace * 10, ObservationKind::Agent);
            let mut spans = vec![root.clone()];
            spans.extend(
                (1..5).map(|n| child_of(&root, trace * 10 + n, ObservationKind::Generation)),
            );
            // Within 9 s: the root may arrive first, last or between.
            for span in spans {
                let at = trace as i64 * 20_000 + random(9_000) as i64;
                arrivals.entry(at).or_default().push(span);
            }
        }
        let mut now = 0;
        for (at, spans) in arrivals {
            world.clock.advance(at - now);
            now = at;
            world.ingest(spans).await;
            scheduler.run_until_idle().await.unwrap();
        }
        world.clock.advance(10_000);
        scheduler.run_until_idle().await.unwrap();
        let scores = world.scores().await;
        let traces: BTreeSet<String> = scores
            .iter()
            .map(|score| match &score.written.subject {
                Subject::Trace(id) => id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((scores.len(), traces.len()), (20, 20));
        let counts = world.counts(&rule).await;
        assert_eq!(counts["made"], 20);
        for trace in 0..20 {
            let all = world
                .store
                .ledger
                .trace_executions(&world.project, &trace_id(trace))
                .await
                .unwrap();
            assert_eq!(all[0].made.completion, CompletionReason::RootEnded);
            assert_eq!(all[0].made.n_observations, 5);
        }
    })
    .await;
}

async fn n_failed(world: &World, since: Timestamp) -> u64 {
    let ledger = &world.store.ledger;
    let counted = ledger.n_failed_since(&world.project, since, 9);
    counted.await.unwrap()
}

#[tokio::test]
async fn failures_are_retried_given_up_or_held_by_their_class() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let evaluate = FakeEvaluate::new(|call, n_before| match call.item.id.as_str() {
            "0000000000000001" if n_before < 2 => Err(FailureClass::Transient),
            "0000000000000002" => Err(FailureClass::InvalidInput),
            "0000000000000003" => Err(FailureClass::NotApplicable),
            _ => Ok(1.0),
        });
        let scheduler = world.scheduler(evaluate);
        world.ingest((1..=4).map(|n| generation(n, n)).collect()).await;
        for _ in 0..4 {
            scheduler.run_until_idle().await.unwrap();
            world.clock.advance(10_000);
        }
        let mut states = Vec::new();
        for n in 1..=4 {
            let all =
                world.store.ledger.trace_executions(&world.project, &trace_id(n)).await.unwrap();
            let execution = &all[0];
            states.push((execution.state, execution.attempts, execution.error_class));
        }
        let class = |class: FailureClass| Some(class.into());
        assert_eq!(
            states,
            [
                (ExecutionState::Completed, 3, None),
                (ExecutionState::Failed, 1, class(FailureClass::InvalidInput)),
                (ExecutionState::Skipped, 1, class(FailureClass::NotApplicable)),
                (ExecutionState::Completed, 1, None),
            ]
        );
        let all = world.store.ledger.trace_executions(&world.project, &trace_id(1)).await.unwrap();
        let id = &all[0].made.id;
        let attempts = world.store.ledger.attempts(&world.project, id).await.unwrap();
        assert_eq!(attempts.iter().map(|each| each.number).collect::<Vec<_>>(), [1, 2]);
        let now = world.clock.now();
        let dead =
            world.store.ledger.failed_executions(&world.project, None, 10).await.unwrap().items;
        assert_eq!(dead.len(), 1);
        let ended = dead[0].finished_at.unwrap();
        let failed = [ended, ended.plus_millis(1)].map(|since| n_failed(&world, since));
        assert_eq!(futures_util::future::join_all(failed).await, [1, 0]);
        assert_eq!(world.counts(&rule).await["failed"], 1);
        let failures = world.store.ledger.rule_failures(&world.project, &rule.id).await.unwrap();
        let failures = failures.iter().map(|each| (Some(each.class), each.n, each.last_at));
        let failures: Vec<_> = failures.collect();
        assert_eq!(failures, [(class(FailureClass::InvalidInput), 1, ended)]);
        let of_evaluators = async |since| {
            let ledger = &world.store.ledger;
            ledger.failures_by_evaluator(&world.project, since).await.unwrap()
        };
        let failed = of_evaluators(ended).await;
        assert_eq!(failed.len(), 1);
        assert_eq!((&failed[0].0, failed[0].1.n), (&rule.assignments[0].evaluator_id, 1));
        assert!(of_evaluators(ended.plus_millis(1)).await.is_empty());
        world.store.ledger.requeue_execution(&world.project, &dead[0].made.id, now).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_invalid_configuration_pauses_the_evaluator_at_once() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let rule = world.rule("r", OBSERVATION, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::new(|_, _| Err(FailureClass::InvalidConfig)));
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        let evaluator = &rule.assignments[0].evaluator_id;
        let evaluator =
            world.store.catalog.evaluator(&world.project, evaluator).await.unwrap().unwrap();
        assert_eq!(evaluator.paused.unwrap().reason, "PLUGIN_CONFIG_INVALID");
        world.ingest(vec![generation(2, 2)]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.counts(&rule).await["rule_paused"], 1);
    })
    .await;
}

#[tokio::test]
async fn explain_names_the_step_that_left_a_target_without_score() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let tools = json!({
            "type": "stringOptions", "column": "type", "operator": "any of", "value": ["TOOL"]
        });
        let picky =
            world.rule("picky", OBSERVATION, |rule| rule.filter = conditions(vec![tools])).await;
        let rare = world.rule("rare", OBSERVATION, |rule| rule.sampling = 1e-9).await;
        let all = world.rule("all", OBSERVATION, |_| {}).await;
        let traces = world.rule("traces", TargetKind::Trace, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let mut own = generation(2, 2);
        own.environment = "perpend-eval".to_owned();
        world.ingest(vec![generation(1, 1), own]).await;
        scheduler.run_until_idle().await.unwrap();

        let target = |trace: u64, id: &str| {
            let id = (!id.is_empty()).then(|| format!("{id:0>16}").parse().unwrap());
            Target::within(trace_id(trace), id)
        };
        let explain = async |rule, target: Target| {
            scheduler.explain(&world.project, rule, &target).await.unwrap().step
        };
        let step = explain(&picky, target(1, "1")).await;
        let ExplanationStep::Refused(Refusal::NotMatched { index: 0, actual, .. }) = step else {
            panic!("{step:?}");
        };
        assert_eq!(actual, "GENERATION");
        let step = explain(&rare, target(1, "1")).await;
        assert!(
            matches!(step, ExplanationStep::Refused(Refusal::SampledOut { rate: 1e-9, .. })),
            "{step:?}"
        );
        let step = explain(&all, target(2, "2")).await;
        assert_eq!(step, ExplanationStep::Refused(Refusal::InternalEnvironment));
        assert_eq!(explain(&all, target(9, "1")).await, ExplanationStep::NoSuchTarget);
        let step = explain(&traces, target(1, "")).await;
        assert!(matches!(step, ExplanationStep::NotComplete { complete_at: Some(_) }), "{step:?}");
        let step = explain(&all, target(1, "1")).await;
        let ExplanationStep::Taken { assignments, .. } = step else {
            panic!("{step:?}");
        };
        assert!(assignments[0].execution.is_some());
    })
    .await;
}

#[tokio::test]
async fn explain_reports_a_target_older_than_the_rule() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.ingest(vec![generation(1, 1)]).await;
        scheduler.run_until_idle().await.unwrap();
        let arrived_at = world.clock.now();
        world.clock.advance(3_600_000);
        let created_at = world.clock.now();
        let rules = [
            world.rule("answers", OBSERVATION, |_| {}).await,
            world.rule("traces", TargetKind::Trace, |_| {}).await,
        ];
        let prod = json!({ "type": "stringOptions", "column": "environment", "operator": "any of", "value": ["prod"] });
        let picky = world
            .rule("picky", OBSERVATION, |rule| rule.filter = conditions(vec![prod]))
            .await;
        scheduler.run_until_idle().await.unwrap();
        let target = |rule: &Rule, trace: u64| {
            let is_observation = rule.target == OBSERVATION;
            let id = is_observation.then(|| format!("{trace:016x}").parse().unwrap());
            Target::within(trace_id(trace), id)
        };
        let explain = async |rule: &Rule, trace: u64| {
            let target = target(rule, trace);
            let explained = scheduler.explain(&world.project, rule, &target).await;
            explained.unwrap().step
        };
        for rule in &rules {
            let step = explain(rule, 1).await;
            let expected = ExplanationStep::OlderThanRule {
                target: rule.target,
                arrived_at,
                rule_created_at: created_at,
            };
            assert_eq!(step, expected);
            let sentence = step.sentence();
            assert!(sentence.contains("arrived before the rule existed"), "{sentence}");
        }
        // Targets that the rule refuses are reported as refused, whatever their age.
        assert_eq!(explain(&picky, 1).await.name(), "not_matched");

        world.ingest(vec![generation(2, 2)]).await;
        world.clock.advance(3_600_000);
        scheduler.run_until_idle().await.unwrap();
        for rule in &rules {
            assert_eq!(explain(rule, 2).await.name(), "taken");
        }
    })
    .await;
}

#[tokio::test]
async fn a_shutdown_gives_leases_back_and_others_need_not_wait_for_them() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        world.rule("r", OBSERVATION, |_| {}).await;
        let options = Options { grace: Duration::ZERO, ..Options::default() };
        let hanging = world.scheduler_with(Arc::new(Hanging), None, options);
        world.ingest(vec![generation(1, 1)]).await;
        let shutdown = CancellationToken::new();
        let run = {
            let (hanging, shutdown) = (hanging.clone(), shutdown.clone());
            tokio::spawn(async move { hanging.run(shutdown).await })
        };
        // Claimed as soon as the execution exists.
        while world
            .store
            .ledger
            .trace_executions(&world.project, &trace_id(1))
            .await
            .unwrap()
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
        shutdown.cancel();
        run.await.unwrap();
        world.scheduler(FakeEvaluate::length()).run_until_idle().await.unwrap();
        let scores = world.scores().await;
        assert_eq!(scores.len(), 1);
        let all = world.store.ledger.trace_executions(&world.project, &trace_id(1)).await.unwrap();
        assert_eq!(all[0].attempts, 1);
    })
    .await;
}
