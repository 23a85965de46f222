//! Options of comparisons, references to runs, and gates.

use std::sync::Arc;

use perpend_domain::batch::Batch;
use perpend_domain::dataset::{Dataset, run_id};
use perpend_domain::experiment::GateRecord;
use perpend_domain::ids::{ObservationId, ProjectId, ScoreId, TraceId};
use perpend_domain::patch::{Patch, PatchSubject, merge};
use perpend_domain::payload::Payload;
use perpend_domain::score::{NewScore, ScoreDataType, ScoreSource, ScoreValue, Subject};
use perpend_domain::score_config::{ScoreConfig, ScoreDirection};
use perpend_domain::telemetry::NewLink;
use perpend_domain::time::Timestamp;
use perpend_experiments::ItemSelection;
use perpend_experiments::comparison::DirectionSource;
use serde_json::{Value, json};

use crate::testing::on_each_database;
use crate::{ComparisonQuery, Store};

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

/// A dataset whose id is `d`.
async fn dataset(store: &Store) -> Dataset {
    let made = Dataset {
        id: "d".to_owned(),
        name: "questions".to_owned(),
        description: None,
        metadata: Value::Null,
        input_schema: None,
        expected_output_schema: None,
        created_at: at(0),
        updated_at: at(0),
    };
    store.catalog.create_dataset(&home(), &made).await.unwrap();
    made
}

/// A run of one item with one score.
async fn run(store: &Store, dataset: &Dataset, name: &str, metadata: Value, n: i64) -> String {
    let trace = format!("trace of {name}");
    let link = NewLink {
        run_name: name.to_owned(),
        run_description: None,
        metadata: Some(metadata),
        item_id: "i".to_owned(),
        dataset_version: None,
        trace_id: trace.clone(),
        observation_id: None,
        created_at: at(n),
    };
    store.telemetry.link_run_item(&home(), dataset, &link, at(n)).await.unwrap();
    let score = NewScore {
        id: ScoreId::new(&format!("score of {name}")).unwrap(),
        name: "accuracy".to_owned(),
        value: ScoreValue::Numeric(0.5),
        subject: Subject::Trace(TraceId::new(&trace).unwrap()),
        source: ScoreSource::Api,
        timestamp: at(n),
        environment: "default".to_owned(),
        comment: None,
        metadata: serde_json::Map::new(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
    };
    store.telemetry.put_scores(&home(), &[score], at(n)).await.unwrap();
    run_id(&home(), &dataset.id, name)
}

#[tokio::test]
async fn a_run_is_found_by_id_by_name_and_by_branch_of_its_dataset() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let old = run(&store, &dataset, "old", json!({ "branch": "main" }), 1).await;
        let new = run(&store, &dataset, "new", json!({ "branch": "main" }), 2).await;
        let p = home();
        assert_eq!(store.find_run(&p, &old, None).await.unwrap().as_ref(), Some(&old));
        assert_eq!(store.find_run(&p, "old", None).await.unwrap().as_ref(), Some(&old));
        assert_eq!(store.find_run(&p, "branch:main", None).await.unwrap().as_ref(), Some(&new));
        let of = store.run_results(&p, &new).await.unwrap().unwrap().run;
        let found = store.find_run(&p, "branch:main", Some(&of)).await.unwrap();
        assert_eq!(found, Some(old));
        assert_eq!(store.find_run(&p, "branch:other", None).await.unwrap(), None);
        assert_eq!(store.find_run(&p, "nothing", None).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn runs_with_the_metadata_of_the_baseline_alone_measure_noise() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let main = json!({ "commit": "a" });
        let base = run(&store, &dataset, "base", main.clone(), 1).await;
        let second = run(&store, &dataset, "second", main.clone(), 2).await;
        let other = run(&store, &dataset, "other", json!({ "commit": "b" }), 3).await;
        let same = run(&store, &dataset, "same", main, 4).await;
        let noise = async |ids: &[&String]| {
            let ids: Vec<String> = ids.iter().map(|id| (*id).clone()).collect();
            let results = store.results_of_runs(&home(), &ids).await.unwrap().unwrap();
            let query = ComparisonQuery::default();
            let options = store.compare_options(&home(), &results, &query).await.unwrap().unwrap();
            let found = options.noise_runs.into_iter().map(|run| run.run.id);
            found.collect::<Vec<String>>()
        };
        let equal = [same.clone(), second];
        assert_eq!(noise(&[&base, &other]).await, equal);
        assert_eq!(noise(&[&base, &same, &other]).await, equal);
        // Metadata that all compared runs have say nothing about the application.
        assert_eq!(noise(&[&base, &same]).await, [""; 0]);
        let unknown = ["nothing".to_owned()];
        let found = store.results_of_runs(&home(), &unknown).await.unwrap();
        assert_eq!(found.unwrap_err(), "nothing");
    })
    .await;
}

#[tokio::test]
async fn a_comparison_is_computed_again_when_a_further_run_of_the_baseline_is_deleted() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let main = json!({ "commit": "a" });
        let base = run(&store, &dataset, "base", main.clone(), 1).await;
        let noise = run(&store, &dataset, "noise", main, 2).await;
        let other = run(&store, &dataset, "other", json!({ "commit": "b" }), 3).await;
        let ids = [base, other];
        let query = ComparisonQuery::default();
        let compared =
            async || store.compare_runs(&home(), &ids, &query, at(5)).await.unwrap().unwrap();
        let first = compared().await;
        assert_eq!(first.comparison.noise_runs, [noise.as_str()]);
        assert!(Arc::ptr_eq(&first, &compared().await));
        store.telemetry.delete_dataset_run(&home(), &noise, at(9)).await.unwrap();
        assert_eq!(compared().await.comparison.noise_runs, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn an_item_with_equal_scores_and_another_output_is_changed() {
    on_each_database(|store| async move {
        let (p, dataset) = (home(), dataset(&store).await);
        let mut ids = Vec::new();
        let mut observations = Vec::new();
        for (n, (name, output)) in (1..).zip([("a", "yes"), ("b", "no"), ("c", "yes")]) {
            ids.push(run(&store, &dataset, name, Value::Null, n).await);
            let root = PatchSubject::Observation(ObservationId::new("root").unwrap());
            let mut patch = Patch::new("e".to_owned(), at(n), false, root);
            patch.trace_id = Some(TraceId::new(&format!("trace of {name}")).unwrap());
            let mut root = merge([&patch]).unwrap();
            root.content.output = Some(Payload::from_value(json!(output)));
            observations.push(root);
        }
        let batch = Batch { observations, ..Batch::default() };
        store.telemetry.write_batch(&p, batch, at(8)).await.unwrap();
        let show = ItemSelection::Changed;
        for (other, n_changed) in [(&ids[1], 1), (&ids[2], 0)] {
            let compared = [ids[0].clone(), other.clone()];
            let query = ComparisonQuery::default();
            let runs = store.compare_runs(&p, &compared, &query, at(9)).await.unwrap().unwrap();
            assert!(runs.known_items(show).is_none());
            let items = store.selected_items(&p, &runs, show).await.unwrap();
            assert_eq!(items.len(), n_changed);
            assert_eq!(runs.known_items(show).map(|items| items.len()), Some(n_changed));
            assert_eq!(runs.known_items(ItemSelection::All).map(|items| items.len()), Some(1));
        }
    })
    .await;
}

#[tokio::test]
async fn the_direction_of_a_score_is_that_of_its_newest_config_with_one() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let id = run(&store, &dataset, "run", Value::Null, 1).await;
        let results = store.results_of_runs(&home(), &[id]).await.unwrap().unwrap();
        let definitions = store.score_definitions(&home(), &results).await.unwrap();
        assert_eq!(definitions["accuracy"].direction, None);
        let config = |id: &str, direction, n| ScoreConfig {
            id: id.to_owned(),
            name: "accuracy".to_owned(),
            data_type: ScoreDataType::Numeric,
            is_archived: false,
            min_value: None,
            max_value: None,
            categories: None,
            direction,
            description: None,
            created_at: at(n),
            updated_at: at(n),
        };
        let lower = Some(ScoreDirection::LowerIsBetter);
        for config in [config("a", lower, 1), config("b", None, 2)] {
            store.catalog.create_score_config(&home(), &config).await.unwrap();
        }
        let definitions = store.score_definitions(&home(), &results).await.unwrap();
        let expected = Some((ScoreDirection::LowerIsBetter, DirectionSource::ScoreConfig));
        assert_eq!(definitions["accuracy"].direction, expected);
    })
    .await;
}

#[tokio::test]
async fn gates_are_listed_newest_first_and_deleted_with_their_run() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let id = run(&store, &dataset, "run", Value::Null, 1).await;
        let gate = |name: &str, n| GateRecord {
            id: name.to_owned(),
            run_id: id.clone(),
            outcome: "passed".to_owned(),
            report: json!({ "n": n }),
            created_at: at(n),
        };
        let telemetry = &store.telemetry;
        for n in 1..=3 {
            telemetry.write_gate(&home(), &gate(&format!("g{n}"), n)).await.unwrap();
        }
        // Writing it again changes nothing.
        telemetry.write_gate(&home(), &gate("g1", 9)).await.unwrap();
        let first = telemetry.gates(&home(), &id, None, 2).await.unwrap();
        assert_eq!(first.items, [gate("g3", 3), gate("g2", 2)]);
        let rest = telemetry.gates(&home(), &id, first.next.as_ref(), 2).await.unwrap();
        assert_eq!((rest.items, rest.next), (vec![gate("g1", 1)], None));
        let other = ProjectId::new("other").unwrap();
        assert_eq!(telemetry.gates(&other, &id, None, 2).await.unwrap().items, []);
        telemetry.delete_dataset_run(&home(), &id, at(9)).await.unwrap();
        assert_eq!(telemetry.gates(&home(), &id, None, 2).await.unwrap().items, []);
    })
    .await;
}

#[tokio::test]
async fn the_revision_of_a_run_changes_with_links_and_scores() {
    on_each_database(|store| async move {
        let dataset = dataset(&store).await;
        let id = run(&store, &dataset, "run", Value::Null, 1).await;
        let revision = async || store.telemetry.run_revision(&home(), &id).await.unwrap();
        let first = revision().await;
        // The same link and the same score.
        run(&store, &dataset, "run", Value::Null, 1).await;
        assert_eq!(revision().await, first);
        // A score of another run of the project.
        run(&store, &dataset, "other", Value::Null, 2).await;
        let second = revision().await;
        assert_ne!(second, first);
        store.telemetry.delete_dataset_run(&home(), &id, at(9)).await.unwrap();
        assert_ne!(revision().await, second);
    })
    .await;
}
