//! Rules of experiments over observations that runs link as items.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use perpend_catalog::datasets::ItemVersion;
use perpend_domain::dataset::{Dataset, DatasetItem, ItemPatch, run_id};
use perpend_domain::evaluation::{CompletionReason, Execution, Rule, Target, TargetKind};
use perpend_domain::observation::{ExperimentLink, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::Item;
use perpend_domain::score::Subject;
use perpend_domain::telemetry::NewLink;
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_scheduler::ExplanationStep;
use perpend_storage::testing::on_each_database;
use serde_json::{Value, json};

use crate::support::{FakeEvaluate, World, child_of, conditions, generation, trace_id};

const EXPERIMENT: TargetKind = TargetKind::Experiment;

/// Which of an observation and its link arrives first.
#[derive(Clone, Copy, Debug)]
enum Order {
    LinkFirst,
    TraceFirst,
    /// Both arrive before the scheduler looks.
    Together,
}

impl World {
    async fn dataset(&self, id: &str) -> Dataset {
        let now = self.clock.now();
        let dataset = Dataset {
            id: id.to_owned(),
            name: format!("dataset {id}"),
            description: None,
            metadata: Value::Null,
            input_schema: None,
            expected_output_schema: None,
            created_at: now,
            updated_at: now,
        };
        self.store.catalog.create_dataset(&self.project, &dataset).await.unwrap();
        dataset
    }

    /// Writes a version of the item `i` with this expected output.
    async fn item(
        &self,
        dataset: &Dataset,
        before: Option<&DatasetItem>,
        expected: &str,
    ) -> DatasetItem {
        let patch = ItemPatch {
            input: Some(json!({ "of": "the item" })),
            expected_output: Some(json!(expected)),
            metadata: Some(json!({ "hard": true })),
            ..ItemPatch::default()
        };
        let now = self.clock.now();
        let item = match before {
            Some(before) => before.patched(patch, now),
            None => DatasetItem::new("i".to_owned(), dataset, patch, now),
        };
        let stored = self.store.catalog.dataset_by_id(&self.project, &dataset.id).await.unwrap();
        let schema = stored.unwrap().revisions.schema;
        let version = ItemVersion { item: item.clone(), is_deleted: false };
        let seen = before.map(|before| before.valid_from);
        let put = self.store.put_dataset_item(&self.project, &version, seen, schema);
        assert!(put.await.unwrap());
        item
    }

    async fn link(&self, dataset: &Dataset, own: &Observation, is_whole: bool) {
        self.link_version(dataset, own, (is_whole, None)).await;
    }

    async fn link_version(
        &self,
        dataset: &Dataset,
        own: &Observation,
        (is_whole, dataset_version): (bool, Option<Timestamp>),
    ) {
        let now = self.clock.now();
        let link = NewLink {
            run_name: "run".to_owned(),
            run_description: None,
            metadata: None,
            item_id: "i".to_owned(),
            dataset_version,
            trace_id: own.trace_id.to_string(),
            observation_id: (!is_whole).then(|| own.id.to_string()),
            created_at: now,
        };
        let telemetry = &self.store.telemetry;
        telemetry.link_run_item(&self.project, dataset, &link, now).await.unwrap();
    }

    async fn made_for(&self, rule: &Rule, n: u64) -> Vec<Execution> {
        let all = self.store.ledger.trace_executions(&self.project, &trace_id(n)).await.unwrap();
        all.into_iter().filter(|each| each.made.rule_id == rule.id).collect()
    }
}

fn target(own: &Observation) -> Target {
    Target::Observation(own.trace_id.clone(), own.id.clone())
}

/// The items with which it was called, and an evaluator that records them.
fn recorder() -> (Arc<Mutex<Vec<Item>>>, Arc<FakeEvaluate>) {
    let items = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&items);
    let evaluate = FakeEvaluate::new(move |call, _| {
        recorded.lock().unwrap().push((*call.item).clone());
        Ok(1.0)
    });
    (items, evaluate)
}

#[tokio::test]
async fn a_linked_item_is_scored_once_whichever_of_link_and_trace_comes_first() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        let rule = world.rule("items", EXPERIMENT, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let orders = [Order::LinkFirst, Order::TraceFirst, Order::Together];
        let cases = orders.into_iter().flat_map(|order| [(order, true), (order, false)]);
        let mut n_scores = 0;
        for (n, (order, is_whole)) in (1..).zip(cases) {
            let case = format!("{order:?}, {is_whole}");
            let root = generation(n, 2 * n);
            let child = child_of(&root, 2 * n + 1, ObservationKind::Tool);
            let explain = async || {
                let explained = scheduler.explain(&world.project, &rule, &target(&root)).await;
                explained.unwrap().step
            };
            match order {
                Order::LinkFirst => {
                    world.link(&dataset, &root, is_whole).await;
                    scheduler.run_until_idle().await.unwrap();
                    world.ingest(vec![child.clone(), root.clone()]).await;
                }
                Order::TraceFirst => {
                    world.ingest(vec![child.clone(), root.clone()]).await;
                    scheduler.run_until_idle().await.unwrap();
                    assert_eq!(explain().await.name(), "not_an_item", "{case}");
                    world.clock.advance(1_000);
                    world.link(&dataset, &root, is_whole).await;
                }
                Order::Together => {
                    world.ingest(vec![child.clone(), root.clone()]).await;
                    world.link(&dataset, &root, is_whole).await;
                }
            }
            scheduler.run_until_idle().await.unwrap();
            // A repetition changes nothing.
            world.link(&dataset, &root, is_whole).await;
            scheduler.run_until_idle().await.unwrap();
            let made = world.made_for(&rule, n).await;
            let made: Vec<_> = made.iter().map(|each| each.made.target.clone()).collect();
            assert_eq!(made, [target(&root)], "{case}");
            assert!(matches!(explain().await, ExplanationStep::Taken { .. }), "{case}");
            n_scores += 1;
            let scores = world.scores().await;
            assert_eq!(scores.len(), n_scores, "{case}");
            let subject = Subject::Observation(root.trace_id.clone(), root.id.clone());
            assert!(scores.iter().any(|score| score.written.subject == subject), "{case}");
        }
        let n = n_scores as u64;
        let expected = BTreeMap::from([("completed".to_owned(), n), ("made".to_owned(), n)]);
        assert_eq!(world.counts(&rule).await, expected);
    })
    .await;
}

#[tokio::test]
async fn filters_read_the_run_and_the_dataset_of_a_link() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let (ours, other) = (world.dataset("ours").await, world.dataset("other").await);
        let run = run_id(&world.project, &ours.id, "run");
        let one_of = |column: &str, value: &str| {
            conditions(vec![json!({
                "type": "stringOptions", "column": column, "operator": "any of", "value": [value]
            })])
        };
        let of_dataset =
            world.rule("a", EXPERIMENT, |rule| rule.filter = one_of("datasetId", "ours")).await;
        let of_run = world
            .rule("b", TargetKind::Observation, |rule| rule.filter = one_of("experimentId", &run))
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        for (n, dataset) in [(1, &ours), (2, &other)] {
            let root = generation(n, n);
            world.ingest(vec![root.clone()]).await;
            scheduler.run_until_idle().await.unwrap();
            world.clock.advance(1_000);
            world.link(dataset, &root, true).await;
            scheduler.run_until_idle().await.unwrap();
        }
        for rule in [&of_dataset, &of_run] {
            assert_eq!(world.made_for(rule, 1).await.len(), 1, "{}", rule.id);
            assert_eq!(world.made_for(rule, 2).await.len(), 0, "{}", rule.id);
            let target = target(&generation(2, 2));
            let explained = scheduler.explain(&world.project, rule, &target).await;
            assert_eq!(explained.unwrap().step.name(), "not_matched", "{}", rule.id);
        }
    })
    .await;
}

#[tokio::test]
async fn a_linked_item_has_the_parts_of_the_dataset_item_in_the_version_of_the_run() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        let first = world.item(&dataset, None, "before").await;
        let version = world.clock.now();
        world.clock.advance(1_000);
        world.item(&dataset, Some(&first), "after").await;
        world.rule("items", EXPERIMENT, |_| {}).await;
        let (items, evaluate) = recorder();
        let scheduler = world.scheduler(evaluate);
        let with_input = generation(1, 1);
        world.ingest(vec![with_input.clone()]).await;
        world.link_version(&dataset, &with_input, (true, Some(version))).await;
        scheduler.run_until_idle().await.unwrap();
        let mut without_input = generation(2, 2);
        without_input.content.input = None;
        world.ingest(vec![without_input.clone()]).await;
        world.link(&dataset, &without_input, false).await;
        scheduler.run_until_idle().await.unwrap();
        let items = items.lock().unwrap().clone();
        let text = |text: &str| Some(Payload::Text(text.to_owned()));
        let expected: Vec<_> = items.iter().map(|item| item.expected_output.clone()).collect();
        assert_eq!(expected, [text("before"), text("after")]);
        let of_item = Some(Payload::from_value(json!({ "of": "the item" })));
        let inputs: Vec<_> = items.iter().map(|item| item.input.clone()).collect();
        assert_eq!(inputs, [text("question"), of_item]);
        for item in &items {
            let metadata: Value = serde_json::from_str(item.metadata.as_deref().unwrap()).unwrap();
            assert_eq!(metadata["perpend.item_metadata"], json!({ "hard": true }));
        }
    })
    .await;
}

#[tokio::test]
async fn a_trace_with_a_span_of_the_item_is_scored_once_although_it_is_linked_too() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        let rule = world.rule("items", EXPERIMENT, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let run = run_id(&world.project, &dataset.id, "run");
        let root = generation(1, 1);
        let mut item = child_of(&root, 2, ObservationKind::Span);
        item.experiment = Some(Box::new(ExperimentLink {
            id: Some(run),
            item_id: Some("i".to_owned()),
            item_root_observation_id: Some(item.id.to_string()),
            ..ExperimentLink::default()
        }));
        world.link(&dataset, &root, true).await;
        world.ingest(vec![item.clone(), root.clone()]).await;
        world.link(&dataset, &item, false).await;
        scheduler.run_until_idle().await.unwrap();
        let made = world.made_for(&rule, 1).await;
        let made: Vec<_> = made.iter().map(|each| each.made.target.clone()).collect();
        assert_eq!(made, [target(&item)]);
    })
    .await;
}

#[tokio::test]
async fn a_link_leads_to_no_decision_of_other_rules_and_of_younger_rules() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let root = generation(1, 1);
        world.ingest(vec![root.clone()]).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(1_000);
        let other = world.rule("other", TargetKind::Observation, |_| {}).await;
        let items = world.rule("items", EXPERIMENT, |_| {}).await;
        world.link(&dataset, &root, true).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.made_for(&other, 1).await.len(), 0);
        assert_eq!(world.made_for(&items, 1).await.len(), 1);
        world.clock.advance(1_000);
        let younger = world.rule("younger", EXPERIMENT, |_| {}).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.made_for(&younger, 1).await.len(), 0);
        let explained = scheduler.explain(&world.project, &younger, &target(&root)).await;
        assert_eq!(explained.unwrap().step.name(), "older_than_rule");
    })
    .await;
}

#[tokio::test]
async fn links_to_traces_that_never_come_are_counted_and_make_no_execution() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        let rule = world.rule("items", EXPERIMENT, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        world.link(&dataset, &generation(1, 1), true).await;
        world.link(&dataset, &generation(2, 2), false).await;
        for wait_ms in [0, 4_000_000] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
        }
        let counts = BTreeMap::from([("root_missing".to_owned(), 2)]);
        assert_eq!(world.counts(&rule).await, counts);
        let explained = scheduler.explain(&world.project, &rule, &target(&generation(1, 1))).await;
        assert_eq!(explained.unwrap().step, ExplanationStep::NoSuchTarget);
    })
    .await;
}

#[tokio::test]
async fn a_rule_of_runs_scores_a_run_once_all_items_have_a_result() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        world.item(&dataset, None, "right").await;
        world.clock.advance(1_000);
        let rule = world.rule("runs", TargetKind::Run, |_| {}).await;
        let (items, evaluate) = recorder();
        let scheduler = world.scheduler(evaluate);
        let root = generation(1, 1);
        world.link(&dataset, &root, true).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(1_000);
        world.ingest(vec![root]).await;
        let run = run_id(&world.project, &dataset.id, "run");
        let target = Target::Run(run.clone());
        for (wait_ms, n_scores) in [(0, 0), (9_999, 0), (1, 1), (100_000, 1)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(world.scores().await.len(), n_scores, "after {wait_ms}");
        }
        let scores = world.scores().await;
        assert_eq!(scores[0].written.subject, Subject::Experiment(run.clone()));
        let recorded = items.lock().unwrap().clone();
        assert_eq!(recorded.len(), 1);
        let input: Value = recorded[0].input.as_ref().unwrap().to_value();
        assert_eq!(
            input["items"],
            json!([{
                "id": "i", "repetition": 0, "scores": {}, "input": "question", "output": "an answer",
                "expectedOutput": "right", "metadata": { "hard": true },
            }])
        );
        let explained = scheduler.explain(&world.project, &rule, &target).await.unwrap();
        assert!(matches!(explained.step, ExplanationStep::Taken { .. }), "{:?}", explained.step);
        let made = world.store.ledger.run_executions(&world.project, &run).await.unwrap();
        assert_eq!(made[0].made.completion, CompletionReason::AllItems);
    })
    .await;
}

#[tokio::test]
async fn a_rule_of_runs_scores_a_run_with_missing_items_when_it_is_quiet() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        world.item(&dataset, None, "right").await;
        world.clock.advance(1_000);
        world.rule("runs", TargetKind::Run, |_| {}).await;
        let scheduler = world.scheduler(FakeEvaluate::new(|_, _| Ok(1.0)));
        let run = run_id(&world.project, &dataset.id, "run");
        let mut item = generation(1, 1);
        let start = world.clock.now();
        (item.start, item.end) = (start, Some(start.plus_millis(5)));
        item.experiment = Some(Box::new(ExperimentLink {
            id: Some(run.clone()),
            dataset_id: Some(dataset.id.clone()),
            item_id: Some("another".to_owned()),
            item_root_observation_id: Some(item.id.to_string()),
            ..ExperimentLink::default()
        }));
        world.ingest(vec![item]).await;
        for (wait_ms, n_scores) in [(0, 0), (59_999, 0), (1, 1)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            assert_eq!(world.scores().await.len(), n_scores, "after {wait_ms}");
        }
        let made = world.store.ledger.run_executions(&world.project, &run).await.unwrap();
        assert_eq!(made[0].made.completion, CompletionReason::Quiet);
    })
    .await;
}

#[tokio::test]
async fn a_linked_trace_whose_root_never_arrives_is_counted_after_the_wait_and_explained() {
    on_each_database(|store| async move {
        let world = World::new(store).await;
        let dataset = world.dataset("d").await;
        world.item(&dataset, None, "right").await;
        let rule = world.rule("items", EXPERIMENT, |_| {}).await;
        let other = world
            .rule("others", EXPERIMENT, |rule| {
                rule.filter = conditions(vec![json!({
                    "type": "stringOptions", "column": "datasetId", "operator": "any of", "value": ["other"],
                })]);
            })
            .await;
        let scheduler = world.scheduler(FakeEvaluate::length());
        let rootless = generation(1, 1);
        let child = child_of(&rootless, 2, ObservationKind::Tool);
        let absent = generation(2, 3);
        world.clock.advance(1_000);
        world.link(&dataset, &rootless, true).await;
        world.link(&dataset, &absent, true).await;
        scheduler.run_until_idle().await.unwrap();
        world.clock.advance(100_000);
        world.ingest(vec![child]).await;
        scheduler.run_until_idle().await.unwrap();
        let explain = async |rule: &Rule, n: u64| {
            let target = Target::Trace(trace_id(n));
            scheduler.explain(&world.project, rule, &target).await.unwrap().step
        };
        assert_eq!(explain(&rule, 1).await.name(), "not_complete");
        // The trace that never came is given up first: the other one has changed.
        for (wait_ms, n_missing) in [(79_999, 0), (1, 1), (99_999, 1), (1, 2), (1_000_000, 2)] {
            world.clock.advance(wait_ms);
            scheduler.run_until_idle().await.unwrap();
            let n = world.counts(&rule).await.get("root_missing").copied().unwrap_or_default();
            assert_eq!(n, n_missing, "after {wait_ms}");
        }
        for n in [1, 2] {
            assert_eq!(explain(&rule, n).await.name(), "root_missing");
        }
        assert_eq!(explain(&rule, 3).await.name(), "no_such_target");
        assert_eq!(world.counts(&other).await.get("root_missing"), None, "of another dataset");
        // A root that arrives in spite of it is scored.
        world.ingest(vec![rootless]).await;
        scheduler.run_until_idle().await.unwrap();
        assert_eq!(world.made_for(&rule, 1).await.len(), 1);
        assert_eq!(world.scores().await.len(), 1);
    })
    .await;
}
