//! The results of runs, whether they consist of spans, of links or of both.

use perpend_catalog::datasets::ItemVersion;
use perpend_domain::batch::Batch;
use perpend_domain::dataset::{Dataset, DatasetItem, ItemPatch, run_id};
use perpend_domain::experiment::{ExpectedScores, RunAccount, RunQuery, expected_output_digest};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::{ExperimentLink, Level, Observation, ObservationKind};
use perpend_domain::payload::Payload;
use perpend_domain::score::{NewScore, ScoreSource, ScoreValue, Subject};
use perpend_domain::telemetry::NewLink;
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::Store;
use crate::testing::on_each_database;

fn home() -> ProjectId {
    ProjectId::new("home").unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_760_000_000_000 + 1_000 * seconds)
}

fn trace(n: i64) -> TraceId {
    TraceId::new(&format!("trace {n:04}")).unwrap()
}

fn span_id(n: i64) -> ObservationId {
    ObservationId::new(&format!("span {n:04}")).unwrap()
}

/// A root of 2 seconds.
fn root(n: i64) -> Observation {
    let mut own =
        Observation::ended(trace(n), span_id(n), ObservationKind::Span, (at(n), at(n + 2)));
    own.environment = "default".to_owned();
    own
}

/// The root as the span of an item.
fn item_span(run: &str, n: i64, item: &str) -> Observation {
    let mut span = root(n);
    span.experiment = Some(Box::new(ExperimentLink {
        id: Some(run.to_owned()),
        name: Some("run".to_owned()),
        dataset_id: Some("d".to_owned()),
        item_id: Some(item.to_owned()),
        item_expected_output: Some(Payload::Json(r#"{"b":1,"a":2}"#.to_owned())),
        item_root_observation_id: Some(span.id.to_string()),
        ..ExperimentLink::default()
    }));
    span
}

async fn write(store: &Store, observations: Vec<Observation>) {
    let batch = Batch { observations, ..Batch::default() };
    store.telemetry.write_batch(&home(), batch, at(0)).await.unwrap();
}

/// The dataset `d` with these items, made at second 0.
async fn dataset(store: &Store, items: &[&str]) -> Dataset {
    let dataset = Dataset {
        id: "d".to_owned(),
        name: "questions".to_owned(),
        description: None,
        metadata: Value::Null,
        input_schema: None,
        expected_output_schema: None,
        created_at: at(0),
        updated_at: at(0),
    };
    assert!(store.catalog.create_dataset(&home(), &dataset).await.unwrap());
    for item in items {
        put(store, &new_item(&dataset, item), None).await;
    }
    dataset
}

fn new_item(dataset: &Dataset, id: &str) -> ItemVersion {
    let patch =
        ItemPatch { expected_output: Some(json!({ "a": 2, "b": 1 })), ..ItemPatch::default() };
    ItemVersion { item: DatasetItem::new(id.to_owned(), dataset, patch, at(0)), is_deleted: false }
}

async fn put(store: &Store, version: &ItemVersion, before: Option<Timestamp>) {
    let stored = store.catalog.dataset_by_id(&home(), "d").await.unwrap().unwrap();
    let schema = stored.revisions.schema;
    assert!(store.put_dataset_item(&home(), version, before, schema).await.unwrap());
}

async fn link(store: &Store, dataset: &Dataset, item: &str, n: i64, observation: Option<i64>) {
    let link = NewLink {
        run_name: "run".to_owned(),
        run_description: None,
        metadata: Some(json!({ "model": "a" })),
        item_id: item.to_owned(),
        dataset_version: None,
        trace_id: trace(n).to_string(),
        observation_id: observation.map(|n| span_id(n).to_string()),
        created_at: at(n),
    };
    store.telemetry.link_run_item(&home(), dataset, &link, at(n)).await.unwrap();
}

async fn score(store: &Store, id: &str, subject: Subject, value: f64) {
    let score = NewScore {
        id: id.parse().unwrap(),
        name: "quality".to_owned(),
        value: ScoreValue::Numeric(value),
        subject,
        source: ScoreSource::Api,
        timestamp: at(1),
        environment: "default".to_owned(),
        comment: None,
        metadata: Map::new(),
        config_id: None,
        queue_id: None,
        author_user_id: None,
        origin: None,
    };
    store.telemetry.put_scores(&home(), &[score], at(1)).await.unwrap();
}

#[tokio::test]
async fn a_run_of_spans_and_a_run_of_links_have_the_same_results() {
    on_each_database(|store| async move {
        let dataset = dataset(&store, &["a", "b", "c"]).await;
        let linked = run_id(&home(), "d", "run");
        let spans = vec![item_span("spans", 11, "a"), item_span("spans", 12, "b")];
        write(&store, spans.into_iter().chain([root(21), root(22)]).collect()).await;
        link(&store, &dataset, "a", 21, Some(21)).await;
        link(&store, &dataset, "b", 22, None).await;
        for (n, value) in [(11, 0.25), (12, 0.5), (21, 0.25), (22, 0.5)] {
            let subject = Subject::Observation(trace(n), span_id(n));
            score(&store, &format!("score {n}"), subject, value).await;
        }
        let digest = expected_output_digest(&json!({ "a": 2, "b": 1 }));
        for (id, first) in [("spans", 11), (linked.as_str(), 21)] {
            let found = store.run_results(&home(), id).await.unwrap().unwrap();
            assert_eq!(found.run.name, "run");
            assert_eq!(found.run.dataset_name.as_deref(), Some("questions"));
            assert_eq!(found.expected_items.as_deref().map(<[String]>::len), Some(3));
            let items: Vec<_> = found
                .items
                .iter()
                .map(|item| (item.item_id.as_str(), item.start, item.latency_ms, item.scores.len()))
                .collect();
            let expected = [("a", first), ("b", first + 1)];
            assert_eq!(items, expected.map(|(item, n)| (item, at(n), Some(2_000.0), 1)), "{id}");
            for (item, value) in found.items.iter().zip([0.25, 0.5]) {
                assert_eq!(item.expected_output, digest, "{id}");
                assert_eq!(item.scores[0].value, ScoreValue::Numeric(value), "{id}");
            }
            let account = RunAccount::of(&found, &ExpectedScores::default());
            assert_eq!((account.n_expected, account.n_seen), (Some(3), 2), "{id}");
            assert_eq!(account.missing_items, ["c"], "{id}");
        }
        assert_eq!(store.run_results(&home(), "nothing").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_span_and_links_of_its_trace_are_one_result() {
    on_each_database(|store| async move {
        let dataset = dataset(&store, &["a", "b"]).await;
        let run = run_id(&home(), "d", "run");
        write(&store, vec![item_span(&run, 11, "a"), root(12)]).await;
        link(&store, &dataset, "a", 11, Some(11)).await;
        link(&store, &dataset, "a", 11, None).await;
        link(&store, &dataset, "b", 12, None).await;
        link(&store, &dataset, "b", 12, Some(12)).await;
        let found = store.run_results(&home(), &run).await.unwrap().unwrap();
        let items = found.items.iter();
        let items: Vec<_> =
            items.map(|item| (item.item_id.as_str(), item.observation_id.clone())).collect();
        assert_eq!(items, [("a", Some(span_id(11))), ("b", Some(span_id(12)))]);
        assert_eq!(found.run.metadata, json!({ "model": "a" }));
        let totals = store.telemetry.run_totals(&home(), &[&run]).await.unwrap();
        assert_eq!(totals[&run].n_items, 2);
        assert_eq!(totals[&run].mean_latency_ms, Some(2_000.0));
    })
    .await;
}

#[tokio::test]
async fn the_highest_attempt_at_a_repetition_is_its_result() {
    on_each_database(|store| async move {
        dataset(&store, &["a"]).await;
        let span = |n, repetition, attempt, level| {
            let mut span = item_span("run", n, "a");
            span.level = level;
            if let Some(link) = &mut span.experiment {
                (link.repetition, link.attempt) = (Some(repetition), Some(attempt));
            }
            span
        };
        let spans = vec![
            span(11, 0, 0, Level::Error),
            span(12, 1, 0, Level::Default),
            span(13, 0, 1, Level::Default),
        ];
        write(&store, spans).await;
        let found = store.run_results(&home(), "run").await.unwrap().unwrap();
        let traces: Vec<_> =
            found.items.iter().map(|item| (item.trace_id.clone(), item.is_error)).collect();
        assert_eq!(traces, [(trace(12), false), (trace(13), false)]);
    })
    .await;
}

#[tokio::test]
async fn failed_pending_deleted_and_foreign_items_are_accounted_for() {
    on_each_database(|store| async move {
        let dataset = dataset(&store, &["failed", "pending", "deleted", "missing"]).await;
        let run = run_id(&home(), "d", "run");
        let mut failed =
            Observation::ended(trace(11), span_id(11), ObservationKind::Span, (at(11), at(111)));
        failed.environment = "default".to_owned();
        failed.level = Level::Error;
        write(&store, vec![failed, root(12), root(13)]).await;
        link(&store, &dataset, "failed", 11, None).await;
        link(&store, &dataset, "deleted", 12, None).await;
        link(&store, &dataset, "foreign", 13, None).await;
        link(&store, &dataset, "pending", 99, None).await;
        // An item that is deleted later was expected.
        let mut deleted = new_item(&dataset, "deleted");
        (deleted.is_deleted, deleted.item.valid_from) = (true, at(1_000));
        put(&store, &deleted, Some(at(0))).await;
        let found = store.run_results(&home(), &run).await.unwrap().unwrap();
        let account = RunAccount::of(&found, &ExpectedScores::default());
        assert_eq!((account.n_expected, account.n_seen, account.n_failed), (Some(4), 3, 1));
        assert_eq!(account.missing_items, ["missing", "pending"]);
        assert_eq!(account.unexpected_items, ["foreign"]);
        // A result that failed after 100 seconds has no latency.
        let totals = store.telemetry.run_totals(&home(), &[&run]).await.unwrap();
        assert_eq!((totals[&run].n_errors, totals[&run].mean_latency_ms), (1, Some(2_000.0)));
        assert_eq!((account.n_results, account.n_pending_results), (3, 1));
        // The deletion of the dataset deletes its linked runs, and leaves those of spans without a dataset.
        write(&store, vec![item_span("spans", 21, "failed")]).await;
        assert!(store.delete_dataset(&home(), "d", at(2_000)).await.unwrap());
        assert_eq!(store.run_results(&home(), &run).await.unwrap(), None);
        let spans = store.run_results(&home(), "spans").await.unwrap().unwrap();
        assert_eq!((spans.run.dataset_name, spans.expected_items), (None, None));
        assert_eq!(spans.items.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn results_of_one_trace_share_its_cost() {
    on_each_database(|store| async move {
        let dataset = dataset(&store, &["a", "b"]).await;
        let run = run_id(&home(), "d", "run");
        let mut priced = root(11);
        priced.kind = ObservationKind::Generation;
        priced.cost.insert("total".to_owned(), 0.5);
        let mut other = root(12);
        other.trace_id = trace(11);
        other.parent_id = Some(span_id(11));
        write(&store, vec![priced, other]).await;
        link(&store, &dataset, "a", 11, Some(11)).await;
        link(&store, &dataset, "b", 11, Some(12)).await;
        let found = store.run_results(&home(), &run).await.unwrap().unwrap();
        let costs: Vec<_> = found.items.iter().map(|item| item.cost_usd).collect();
        assert_eq!(costs, [Some(0.25), Some(0.25)]);
        let totals = store.telemetry.run_totals(&home(), &[&run]).await.unwrap();
        assert_eq!((totals[&run].n_items, totals[&run].cost_usd), (2, Some(0.5)));
    })
    .await;
}

#[tokio::test]
async fn the_list_of_runs_has_each_run_once_newest_first() {
    on_each_database(|store| async move {
        let dataset = dataset(&store, &["a"]).await;
        let linked = run_id(&home(), "d", "run");
        write(&store, vec![item_span("older", 5, "a"), item_span("newer", 50, "a")]).await;
        write(&store, vec![item_span(&linked, 20, "a"), root(21)]).await;
        link(&store, &dataset, "a", 20, None).await;
        link(&store, &dataset, "a", 21, None).await;
        for dataset_id in [None, Some("d".to_owned())] {
            let mut query = RunQuery { dataset_id, after: None, limit: 1 };
            let mut found = Vec::new();
            loop {
                let page = store.telemetry.experiment_runs(&home(), &query).await.unwrap();
                found.extend(page.items);
                match page.next {
                    Some(next) => query.after = Some(next),
                    None => break,
                }
            }
            let runs = found.iter().map(|row| {
                (row.run.id.as_str(), row.run.dataset_name.as_deref(), row.totals.n_items)
            });
            let name = Some("questions");
            let expected = [("newer", name, 1), (linked.as_str(), name, 2), ("older", name, 1)];
            assert_eq!(runs.collect::<Vec<_>>(), expected);
        }
        let other = RunQuery { dataset_id: Some("x".to_owned()), after: None, limit: 10 };
        let none = store.telemetry.experiment_runs(&home(), &other).await.unwrap();
        assert_eq!((none.items.len(), none.next), (0, None));
    })
    .await;
}
